// What follows the pointer on the weights page: score, wins and losses, and one query's list.
// What a corpus says enters the page as textContent alone.
const SHOWN = 10;
const MOVERS = 3;
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
  part(".tie").textContent = surface.tied[row] ? "too close to the best to tell" : "worse than the best";
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
  const move = made("span", `move ${tone}`, moved === "new" ? "new" : moved ? `${moved > 0 ? "↑" : "↓"}${Math.abs(moved)}` : "=");
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
