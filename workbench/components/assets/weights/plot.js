// The surface drawn: a curve for two legs, a triangle for three. Of four, two that are chosen and the rest together.
const SVG = "http://www.w3.org/2000/svg";
const HEIGHT = Math.sqrt(3) / 2;
const drawn = (tag, attributes, text) => {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  return element;
};
const legColour = (leg) => `var(--leg-${/^[a-z0-9_]+$/.test(leg.kind) ? leg.kind : "none"}, var(--st-primary-color))`;
const path = (points) => points.map(([x, y], at) => `${at ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");

const SHAPES = { // around 0, 0
  current: (r) => drawn("circle", { r, class: "mark current" }),
  best: (r) => drawn("path", { d: star(r * 1.5), class: "mark best" }),
  expected: (r) => drawn("path", { d: `M${-r} ${-r}L${r} ${r}M${-r} ${r}L${r} ${-r}`, class: "mark cross" }),
  kind: (r) => drawn("path", { d: `M0 ${-r * 1.25}L${r * 1.25} 0L0 ${r * 1.25}L${-r * 1.25} 0Z`, class: "mark kind" }),
};
const star = (r) => `${path(Array.from({ length: 10 }, (_, at) => {
  const reach = at % 2 ? r * 0.45 : r;
  return [reach * Math.sin((at * Math.PI) / 5), -reach * Math.cos((at * Math.PI) / 5)];
}))}Z`;

const markedAt = (layer, marks, place) => {
  for (const mark of ["expected", "kind", "current", "best"].flatMap((key) => marks.filter((each) => each.key === key))) {
    mark.points.forEach(([row, size], at) => {
      const [x, y] = place(row);
      const shape = SHAPES[mark.key](mark.key === "expected" ? 2.5 + 2.5 * size : 6);
      shape.setAttribute("transform", `translate(${x.toFixed(1)} ${y.toFixed(1)})`);
      shape.append(drawn("title", {}, mark.labels ? `${mark.name}: ${mark.labels[at]}` : mark.name));
      layer.append(shape);
    });
  }
};

// Two legs. The more to the right, the more the first one weighs.
const curve = (svg, surface, width) => {
  const height = Math.round(Math.min(380, Math.max(240, width * 0.56)));
  const box = { left: 46, right: width - 16, top: 16, bottom: height - 50 };
  const shown = surface.marks.filter(({ level }) => level != null);
  const inner = [...surface.low, ...surface.high, surface.alike, ...shown.filter(({ key }) => key !== "oracle").map(({ level }) => level)];
  let [least, most] = [Math.min(...inner), Math.max(...inner)];
  const oracle = shown.find(({ key }) => key === "oracle");
  const fits = !oracle || oracle.level <= most + (most - least);
  if (oracle && fits) most = Math.max(most, oracle.level);
  const room = (most - least || 0.1) * 0.06;
  [least, most] = [least - room, most + room];
  const x = (share) => box.left + ((box.right - box.left) * share) / surface.steps;
  const y = (value) => box.bottom - ((box.bottom - box.top) * (value - least)) / (most - least);
  const at = (values) => surface.points.map(([share], row) => [x(share), y(values[row])]).sort((one, two) => one[0] - two[0]);
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.style.height = `${height}px`;
  const between = [0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5].find((step) => (most - least) / step <= 6) ?? 1;
  for (let tick = Math.ceil(least / between); tick * between <= most; tick += 1) {
    const value = tick * between;
    svg.append(drawn("line", { x1: box.left, x2: box.right, y1: y(value), y2: y(value), class: "grid" }));
    svg.append(drawn("text", { x: box.left - 7, y: y(value) + 4, "text-anchor": "end", class: "tick" }, value.toFixed(between < 0.01 ? 3 : 2)));
  }
  for (const share of [0, 0.25, 0.5, 0.75, 1]) {
    svg.append(drawn("text", { x: x(share * surface.steps), y: box.bottom + 18, "text-anchor": "middle", class: "tick" }, share));
  }
  const [first, second] = surface.legs;
  svg.append(drawn("text", { x: box.left, y: height - 8, class: "leg", fill: legColour(second) }, `◂ more ${second.label}`));
  svg.append(drawn("text", { x: box.right, y: height - 8, "text-anchor": "end", class: "leg", fill: legColour(first) }, `more ${first.label} ▸`));
  svg.append(drawn("path", { d: `${path([...at(surface.high), ...at(surface.low).reverse()])}Z`, class: "band" }));
  const held = surface.points.map(([share], row) => [share, row]).filter(([, row]) => surface.tied[row]).sort((one, two) => one[0] - two[0]);
  held.forEach(([share, row], place) => {
    const next = held[place + 1];
    const ends = next && next[0] === share + 1 ? [[x(share), y(surface.means[row])], [x(next[0]), y(surface.means[next[1]])]] : [[x(share) - 0.1, y(surface.means[row])], [x(share) + 0.1, y(surface.means[row])]];
    svg.append(drawn("path", { d: path(ends), class: "tied" }));
  });
  for (const { key, level, name } of shown.filter(({ key }) => key !== "best")) {
    const line = key === "oracle" && !fits ? box.top : y(level);
    svg.append(drawn("line", { x1: box.left, x2: box.right, y1: line, y2: line, class: `level ${key}` }));
    svg.append(drawn("text", { x: box.right - 4, y: line + (line < box.top + 14 ? 13 : -5), "text-anchor": "end", class: "tick over" }, `${key === "oracle" && !fits ? "↑ " : ""}${name} ${level.toFixed(3)}`));
  }
  svg.append(drawn("path", { d: path(at(surface.means)), class: "line" }));
  const place = (row) => [x(surface.points[row][0]), y(surface.means[row])];
  markedAt(svg, surface.marks, place);
  const guide = drawn("line", { y1: box.top, y2: box.bottom, class: "guide" });
  svg.append(guide);
  return {
    place: (weights) => place(surface.rows.get(written(weights))),
    show: ([spot]) => { guide.setAttribute("x1", spot); guide.setAttribute("x2", spot); },
    shares: (spot) => {
      const share = Math.min(surface.steps, Math.max(0, Math.round(((spot - box.left) / (box.right - box.left)) * surface.steps)));
      return [share, surface.steps - share];
    },
  };
};

// Three corners: legs, or, of four legs, two of them and the others.
const triangle = (svg, surface, width, corners, rowOf) => {
  const steps = surface.steps;
  const side = Math.min(width - 20, 500) / (1 + 1 / steps);
  const reach = (side / steps) * 0.555;
  const box = { left: (width - side) / 2, bottom: 24 + reach + side * HEIGHT };
  const height = box.bottom + reach + 26;
  const spot = ([, second, third]) => [box.left + (side * (second + third / 2)) / steps, box.bottom - (side * HEIGHT * third) / steps];
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.style.height = `${height}px`;
  const hexagon = ([x, y]) => `${path(Array.from({ length: 6 }, (_, at) => [x + reach * Math.sin((at * Math.PI) / 3), y + reach * Math.cos((at * Math.PI) / 3)]))}Z`;
  const [least, most] = [Math.min(...surface.means), Math.max(...surface.means)];
  const cells = [];
  for (let first = 0; first <= steps; first += 1) {
    for (let second = 0; second <= steps - first; second += 1) {
      const shares = [first, second, steps - first - second];
      const cell = drawn("path", { d: hexagon(spot(shares)) });
      cells.push([cell, shares]);
      svg.append(cell);
    }
  }
  const labels = [[0, box.left - reach, height - 6, "start"], [1, box.left + side + reach, height - 6, "end"], [2, box.left + side / 2, 14, "middle"]];
  for (const [corner, x, y, anchor] of labels) {
    svg.append(drawn("text", { x, y, "text-anchor": anchor, class: "leg", fill: corners[corner].colour }, corners[corner].label));
  }
  for (let at = 0; at < 5; at += 1) {
    const patch = drawn("rect", { x: 2 + at * 15, y: 8, width: 15, height: 10, class: "cell scale" });
    patch.style.setProperty("--share", `${at * 25}%`);
    svg.append(patch);
  }
  svg.append(drawn("text", { x: 2, y: 32, class: "tick" }, least.toFixed(3)), drawn("text", { x: 77, y: 32, "text-anchor": "end", class: "tick" }, most.toFixed(3)));
  const colour = () => {
    for (const [cell, shares] of cells) {
      const row = rowOf(shares);
      const share = most > least ? (surface.means[row] - least) / (most - least) : 1;
      cell.setAttribute("class", surface.tied[row] ? "cell held" : "cell");
      cell.style.setProperty("--share", `${(share * 100).toFixed(0)}%`);
    }
  };
  colour();
  const layer = drawn("g", {});
  svg.append(layer);
  const place = (weights) => spot(corners.map(({ legs }) => total(legs.map((leg) => weights[leg]))));
  markedAt(layer, surface.marks, (row) => place(surface.points[row]));
  return {
    place,
    colour,
    show: () => {},
    shares: (x, y) => {
      const third = (box.bottom - y) / (side * HEIGHT);
      const second = (x - box.left) / side - third / 2;
      return nearest([1 - second - third, second, third], steps);
    },
  };
};

// Shares of any three numbers that sum to 1: cut to the triangle, then whole by the largest remainders.
const nearest = (numbers, steps) => {
  const cut = numbers.map((number) => Math.max(0, number));
  const exact = cut.map((number) => (number * steps) / total(cut));
  const whole = exact.map(Math.floor);
  const order = [0, 1, 2].sort((one, two) => (exact[two] % 1) - (exact[one] % 1) || one - two);
  for (const at of order.slice(0, steps - total(whole))) whole[at] += 1;
  return whole;
};
