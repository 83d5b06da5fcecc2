// What stands still while the pointer moves: the plot, its legend, the choices around it.

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
  const known = [["", "equal weights"], [at("current"), "the current weights"], [at("best"), "the in-sample best"]];
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
