// The weights page's instrument: while the pointer is down, score, wins and losses and one query's list follow it.
// What a corpus says enters the page as textContent alone. Python hears of a point when it is let go of.
const SHOWN = 10;
const MOVERS = 3;
const PATIENCE = 350; // milliseconds after the last key, before the point counts as let go of
const made = (tag, className, text) => {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
};
const share = (count, steps) => (count / steps).toFixed(2);
const signed = (number) => `${Math.abs(number) < 0.0005 ? "±" : number < 0 ? "−" : "+"}${Math.abs(number).toFixed(3)}`;
const said = (now, weights) => now.surface.legs.map((leg, at) => `${leg.label} ${share(weights[at], now.surface.steps)}`).join(", ");

const corners = (now) => {
  const { legs } = now.surface;
  const own = (leg) => ({ legs: [leg], label: legs[leg].label, colour: legColour(legs[leg]) });
  if (legs.length < 4) return legs.map((_, leg) => own(leg));
  const others = legs.map((_, leg) => leg).filter((leg) => !now.pair.includes(leg));
  return [...now.pair.map(own), { legs: others, label: others.map((leg) => legs[leg].label).join(" + "), colour: "currentColor" }];
};

// The weights with which each corner has its share; within a corner the legs share as they do now.
const weightsOf = (now, shares) => {
  const weights = [...now.weights];
  corners(now).forEach(({ legs }, at) => {
    const part = withShares(now.held ?? now.weights, legs, shares[at], [], shares[at]);
    for (const leg of legs) weights[leg] = part[leg];
  });
  return weights;
};

// -- what follows the pointer ------------------------------------------------------------------------------------------

const showScore = (now, row) => {
  const { surface, part } = now;
  const found = compared(surface, row, now.against);
  part(".mean").textContent = surface.means[row].toFixed(3);
  part(".interval").textContent = `${surface.low[row].toFixed(3)} to ${surface.high[row].toFixed(3)}`;
  part(".gain").textContent = signed(found.gain);
  for (const [name, count] of [["better", found.better], ["same", found.same], ["worse", found.worse]]) {
    part(`.${name} b`).textContent = count;
    part(`.bar .${name}`).style.flexGrow = count;
  }
  part(".tie").textContent = surface.tied[row] ? "tied with the best" : "told from the best";
  showMovers(now, found.moved);
};

const showMovers = (now, moved) => {
  const lists = [[".gained", moved.slice(0, MOVERS).filter(([, gain]) => gain > 0)], [".lost", moved.slice(-MOVERS).reverse().filter(([, gain]) => gain < 0)]];
  for (const [name, few] of lists) {
    const entries = few.map(([at, gain]) => {
      const query = now.surface.queries[at];
      const button = made("button", "mover");
      button.type = "button";
      button.title = `Look at: ${query.text}`;
      button.append(made("span", "mono", signed(gain)), made("span", "what", query.text));
      button.onclick = () => now.tell("query", query.id);
      const entry = made("li");
      entry.append(button);
      return entry;
    });
    now.part(name).replaceChildren(...(entries.length ? entries : [made("li", "nothing", "No query")]));
  }
};

const showList = (now, row) => {
  const { surface, query } = now;
  const list = now.part(".list");
  if (!query) return list.replaceChildren(made("li", "nothing", now.problem));
  const ceilings = query.ceilings ?? [];
  const levels = now.against ? now.against.split("-").map(Number) : now.weights.map(() => surface.steps);
  const before = ranked(query, surface.steps, levels, now.against ? ceilings[surface.rows.get(now.against)] : ceilings.at(-1));
  const places = new Map(before.map(({ item }, at) => [item, at + 1]));
  const found = ranked(query, surface.steps, now.weights, ceilings[row]);
  const top = Math.max(...found.slice(0, 1).map(({ score }) => score), 1e-12);
  list.replaceChildren(...found.slice(0, SHOWN).map((unit, at) => rowOf(now, unit, at + 1, places.get(unit.item), top)));
  if (!found.length) list.append(made("li", "nothing", "Nothing comes out at these weights."));
  const code = codesAt(surface, row)[surface.queries.findIndex(({ id }) => id === query.id)];
  now.part(".own").textContent = `${surface.metric} ${surface.values[code].toFixed(3)}`;
};

const rowOf = (now, unit, rank, before, top) => {
  const { query, surface } = now;
  const entry = made("li", "row");
  entry.dataset.item = query.items[unit.item];
  const moved = before === undefined ? "new" : before - rank;
  const tone = moved === "new" || moved > 0 ? "up" : moved < 0 ? "down" : "still";
  const move = made("span", `move ${tone}`, moved === "new" ? "new" : moved ? `${moved > 0 ? "▲" : "▼"}${Math.abs(moved)}` : "=");
  move.setAttribute("role", "img");
  move.setAttribute("aria-label", moved === "new" ? "not found before" : moved ? `${moved > 0 ? "up" : "down"} ${Math.abs(moved)}, from rank ${before}` : "unmoved");
  move.title = move.getAttribute("aria-label");
  const title = made("span", "title", query.titles[unit.item]);
  title.title = query.titles[unit.item];
  const given = query.badges[unit.item];
  const badge = given ? made("span", `badge ${given.tone}`, given.text) : made("span");
  if (given) badge.title = given.hint;
  const stack = made("span", "stack");
  const told = surface.legs.map((leg, at) => `${leg.label} ${unit.places[at] ? `rank ${unit.places[at]}` : "not found"}, adds ${unit.parts[at].toPrecision(3)}`).join("; ");
  stack.setAttribute("role", "img");
  stack.setAttribute("aria-label", told);
  stack.title = told;
  surface.legs.forEach((leg, at) => {
    const piece = made("i");
    piece.style.width = `${Math.max(0, (unit.parts[at] / top) * 100)}%`;
    piece.style.background = legColour(leg);
    stack.append(piece);
  });
  entry.append(made("span", "rank mono", rank), move, title, badge, stack);
  return entry;
};

const showPoint = (now, row) => {
  const [x, y] = now.plot.place(now.weights);
  const { surface } = now;
  if (surface.legs.length > 3) now.plot.colour();
  now.plot.show([x, y]);
  now.handle.setAttribute("transform", `translate(${x.toFixed(1)} ${y.toFixed(1)})`);
  const text = `${said(now, now.weights)}: ${surface.metric} ${surface.means[row].toFixed(3)}`;
  now.handle.setAttribute("aria-valuetext", text);
  now.handle.setAttribute("aria-valuenow", row);
  now.sliders.forEach(({ input, output }, leg) => {
    if (Number(input.value) !== now.weights[leg]) input.value = now.weights[leg];
    input.setAttribute("aria-valuetext", text);
    output.textContent = share(now.weights[leg], surface.steps);
  });
};

const show = (now) => {
  const row = now.surface.rows.get(written(now.weights));
  showPoint(now, row);
  showScore(now, row);
  showList(now, row);
};

const move = (now, weights) => {
  if (written(weights) === written(now.weights)) return;
  now.weights = weights;
  show(now);
};

const letGo = (now) => {
  clearTimeout(now.waiting);
  now.waiting = 0;
  now.held = null;
  const weights = written(now.weights);
  if (weights === now.sent) return;
  now.sent = weights;
  now.pending = performance.now();
  now.tell("moved", { weights, turn: now.pending });
};

// -- how it is moved ---------------------------------------------------------------------------------------------------

const dragged = (now, svg) => {
  const follow = (event) => {
    const box = svg.getBoundingClientRect();
    const [, , width, height] = svg.getAttribute("viewBox").split(" ").map(Number);
    const shares = now.plot.shares(((event.clientX - box.left) * width) / box.width, ((event.clientY - box.top) * height) / box.height);
    move(now, weightsOf(now, shares));
  };
  svg.onpointerdown = (event) => {
    if (event.button) return;
    event.preventDefault();
    svg.setPointerCapture(event.pointerId);
    now.held = [...now.weights];
    now.handle.focus();
    follow(event);
  };
  svg.onpointermove = (event) => { if (now.held && svg.hasPointerCapture(event.pointerId)) follow(event); };
  svg.onpointerup = svg.onpointercancel = () => { if (now.held) letGo(now); };
};

// Right gives to the second corner of a triangle and takes from the first, up gives to the third. On a curve, right and
// up give to the first leg, as it is drawn.
const STEPPED = {
  2: { ArrowRight: [0, [1]], ArrowUp: [0, [1]], ArrowLeft: [1, [0]], ArrowDown: [1, [0]] },
  3: { ArrowRight: [1, [0, 2]], ArrowLeft: [0, [1, 2]], ArrowUp: [2, [0, 1]], ArrowDown: [null, [2]] },
};

const stepped = (now, event) => {
  const places = corners(now);
  const found = STEPPED[places.length][event.key];
  if (!found) return;
  event.preventDefault();
  const shares = places.map(({ legs }) => total(legs.map((leg) => now.weights[leg])));
  const larger = shares[0] >= shares[1] ? 0 : 1;
  const [to, from] = [found[0] ?? 1 - larger, event.key === "ArrowUp" && places.length > 2 ? larger : found[1].find((at) => shares[at] > 0)];
  if (from === undefined || !shares[from]) return;
  shares[from] -= 1;
  shares[to] += 1;
  move(now, weightsOf(now, shares));
  clearTimeout(now.waiting);
  now.waiting = setTimeout(() => letGo(now), PATIENCE);
};

const sliderOf = (now, leg, at) => {
  const { steps } = now.surface;
  const label = made("label", "slider");
  label.style.setProperty("--leg", legColour(leg));
  const input = made("input");
  Object.assign(input, { type: "range", min: 0, max: steps, step: 1 });
  input.setAttribute("aria-label", `Weight of ${leg.label}`);
  const output = made("output", "mono");
  const others = now.surface.legs.map((_, other) => other).filter((other) => other !== at);
  input.onpointerdown = () => { now.held = [...now.weights]; };
  input.oninput = () => move(now, withShares(now.held ?? now.weights, [at], Number(input.value), others, steps));
  input.onchange = () => {
    clearTimeout(now.waiting);
    now.waiting = setTimeout(() => letGo(now), now.held ? 0 : PATIENCE);
  };
  label.append(made("span", "name", leg.label), input, output);
  return { label, input, output };
};

// -- what stands still -------------------------------------------------------------------------------------------------

const drawPlot = (now) => {
  const svg = now.part("svg");
  const width = Math.max(280, Math.round(now.part(".plot").clientWidth));
  const focused = svg.getRootNode().activeElement === now.handle;
  const handle = drawn("g", { class: "handle", tabindex: 0, role: "slider", "aria-label": "Point on the weight surface", "aria-roledescription": "point", "aria-valuemin": 0, "aria-valuemax": now.surface.points.length - 1 });
  svg.replaceChildren();
  now.width = width;
  const places = corners(now);
  now.plot = places.length === 2 ? curve(svg, now.surface, width) : triangle(svg, now.surface, width, places, (shares) => now.surface.rows.get(written(weightsOf(now, shares))));
  svg.classList.toggle("across", places.length === 2);
  handle.append(drawn("circle", { r: 15, class: "halo" }), drawn("circle", { r: 9, class: "knob" }), drawn("circle", { r: 3, class: "pin" }));
  handle.onkeydown = (event) => stepped(now, event);
  handle.onblur = () => { if (now.waiting && !now.held) letGo(now); };
  svg.append(handle);
  now.handle = handle;
  if (focused) handle.focus();
};

const legend = (now) => {
  const list = now.part(".legend");
  const values = { band: `${total(now.surface.tied)} points` };
  list.replaceChildren(...now.surface.marks.map((mark) => {
    const entry = made("div", "entry");
    const sign = drawn("svg", { viewBox: "-10 -10 20 20", class: "sign", "aria-hidden": "true" });
    sign.append(SHAPES[mark.key] ? SHAPES[mark.key](mark.key === "expected" ? 4.5 : 6) : drawn("line", { x1: -9, x2: 9, class: mark.key === "band" ? "tied" : `level ${mark.key}` }));
    const name = made("dt");
    name.append(sign, made("span", "", mark.name), made("span", "mono", values[mark.key] ?? mark.level?.toFixed(3) ?? ""));
    entry.append(name, made("dd", "", mark.says));
    return entry;
  }));
};

const pairs = (now) => {
  const box = now.part(".pair");
  box.hidden = now.surface.legs.length < 4;
  if (box.hidden) return;
  box.replaceChildren(made("span", "", "Surface of"), ...[0, 1].map((side) => {
    const select = made("select");
    select.setAttribute("aria-label", `Corner ${side + 1} of the surface`);
    now.surface.legs.forEach((leg, at) => select.append(Object.assign(made("option", "", leg.label), { value: at })));
    select.value = now.pair[side];
    select.onchange = () => {
      const chosen = Number(select.value);
      now.pair = side ? [now.pair[0] === chosen ? now.pair[1] : now.pair[0], chosen] : [chosen, now.pair[1] === chosen ? now.pair[0] : now.pair[1]];
      pairs(now);
      drawPlot(now);
      show(now);
    };
    return select;
  }));
};

const references = (now) => {
  const select = now.part(".against");
  const at = (key) => written(now.surface.points[now.surface.marks.find((mark) => mark.key === key).points[0][0]]);
  const known = [["", "all legs alike"], [at("current"), "the current weights"], [at("best"), "the in-sample best"]];
  if (!known.some(([value]) => value === now.against)) known.push([now.against, said(now, now.against.split("-").map(Number))]);
  known.push(["here", "this point"]);
  const distinct = known.filter(([value], place) => known.findIndex(([other]) => other === value) === place);
  select.replaceChildren(...distinct.map(([value, text]) => Object.assign(made("option", "", text), { value })));
  select.value = now.against;
  select.onchange = () => {
    now.against = select.value === "here" ? written(now.weights) : select.value;
    references(now);
    show(now);
    now.tell("against", now.against);
  };
};

const settle = (now) => {
  const { surface } = now;
  now.part(".metric").textContent = surface.metric;
  now.part(".metric").title = surface.definition;
  now.part(".verdict").textContent = surface.verdict;
  now.part("svg").setAttribute("aria-label", `${surface.metric} over the weights of ${surface.legs.map(({ label }) => label).join(", ")}`);
  now.sliders = surface.legs.map((leg, at) => sliderOf(now, leg, at));
  now.part(".sliders").replaceChildren(...now.sliders.map(({ label }) => label));
  legend(now);
  pairs(now);
  drawPlot(now);
  dragged(now, now.part("svg"));
};

const kept = new WeakMap(); // what each mounted instrument holds, so that a rerun redraws only what changed

const take = (now, data) => {
  if (data.surface.key !== now.seen) {
    Object.assign(now, { seen: data.surface.key, surface: surfaceOf(data.surface), pending: null, pair: [0, 1], held: null, weights: data.weights.split("-").map(Number) });
    settle(now);
  }
  now.query = data.query.items ? queryOf(data.query) : null;
  now.problem = data.query.problem;
  now.part(".asked").textContent = data.query.text;
  if (!now.query) now.part(".own").textContent = "";
  now.against = data.against;
  references(now);
  if (now.pending === data.heard) now.pending = null; // until then, what comes was sent before the last move arrived
  if (now.pending === null && !now.held && !now.waiting) {
    now.sent = data.weights;
    now.weights = data.weights.split("-").map(Number);
  }
  show(now);
};

export default function ({ data, parentElement, setTriggerValue }) {
  const now = kept.get(parentElement) ?? { part: (name) => parentElement.querySelector(name) };
  kept.set(parentElement, now);
  now.tell = setTriggerValue;
  take(now, data);
  const watch = new ResizeObserver(() => {
    const width = Math.max(280, Math.round(now.part(".plot").clientWidth));
    if (width === now.width) return;
    drawPlot(now);
    show(now);
  });
  watch.observe(now.part(".plot"));
  return () => watch.disconnect();
}
