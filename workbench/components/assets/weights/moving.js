// How the point is moved: by the pointer, by arrows, by sliders. Python hears of a point when it is let go of.
const PATIENCE = 350; // milliseconds after the last key, before the point counts as let go of


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
