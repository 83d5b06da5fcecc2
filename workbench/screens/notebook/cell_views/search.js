// Variants side by side: cards, what moved from column to column, what they share, and why a card is where it is.
// What a corpus says enters the page as textContent alone. Python hears of what is opened, and tells what it knows.
const SVG = "http://www.w3.org/2000/svg";
const STILL = 6; // pixels: a line flatter than that is drawn straight
const made = (tag, className, text) => {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
};
const legColour = (kind) => `var(--leg-${/^[a-z0-9_]+$/.test(kind) ? kind : "none"}, var(--st-primary-color))`;
const number = (value) => (value === 0 ? "0" : Math.abs(value) >= 1000 || Math.abs(value) < 0.001 ? value.toExponential(2) : value.toPrecision(4));
const nameOf = (at, card) => `${at} ${card.id}`;

// -- why a card is where it is ---------------------------------------------------------------------------------------

const told = (legs) => legs.map((leg) => (leg.rank ? `${leg.label}: rank ${leg.rank}, scores ${number(leg.raw)}, adds ${number(leg.adds)}` : `${leg.label}: not brought up`)).join("; ");

const barOf = (card) => {
  const bar = made("span", "stack");
  bar.setAttribute("role", "img");
  bar.setAttribute("aria-label", told(card.legs));
  for (const leg of card.legs) {
    const piece = made("i");
    piece.style.width = `${leg.share}%`;
    piece.style.background = legColour(leg.kind);
    bar.append(piece);
  }
  return bar;
};

const legRows = (card) => {
  const table = made("table", "legs");
  const head = made("tr");
  head.append(...["", "rank", "score", "adds"].map((text) => made("th", "", text)));
  head.children[2].title = "The leg's own score: a distance, a BM25 sum, a similarity. Scores of different legs do not compare.";
  head.children[3].title = "What the leg puts into the fused score, its weight included.";
  table.append(head);
  for (const leg of card.legs) {
    const row = made("tr");
    const name = made("td", "leg", leg.label);
    name.style.setProperty("--leg", legColour(leg.kind));
    const cells = leg.rank ? [leg.rank, number(leg.raw), number(leg.adds)] : ["–", "–", "–"];
    row.append(name, ...cells.map((text) => made("td", "mono", text)));
    if (!leg.rank) row.title = `${leg.label} did not bring it up`;
    table.append(row);
  }
  return table;
};

const wayOf = (card) => {
  const list = made("ol", "way");
  list.setAttribute("aria-label", "Its way through the steps");
  for (const [says, rank, score, stage] of card.way) {
    const step = made("li");
    step.append(made("span", "stage", says), made("span", "mono", `#${rank}`));
    step.title = `After ${stage}: rank ${rank}, with ${number(score)}`;
    list.append(step);
  }
  return list;
};

const accountOf = (lines) => {
  const list = made("ul", "account");
  list.append(...lines.map(([text, exact]) => {
    const line = made("li", "", text);
    if (exact) line.append(made("small", "", exact));
    return line;
  }));
  return list;
};

const whyOf = (now, at, card) => {
  const panel = made("div", "why");
  if (card.says) panel.append(made("p", "says", card.says));
  panel.append(barOf(card), legRows(card));
  if (card.way.length) panel.append(wayOf(card));
  const account = now.data.account;
  if (account && account.column === at && account.id === card.id) panel.append(account.lines ? accountOf(account.lines) : made("p", "asking", "Looking into it …"));
  return panel;
};

// -- a card ----------------------------------------------------------------------------------------------------------

const moveOf = ({ text, tone, hint }) => {
  const move = made("span", `move ${tone}`, text);
  move.setAttribute("role", "img");
  move.setAttribute("aria-label", hint);
  move.title = hint;
  return move;
};

const marked = (tag, className, pieces) => {
  const line = made(tag, className);
  line.append(...pieces.map(([text, hit]) => made(hit ? "mark" : "span", "", text)));
  return line;
};

const footOf = (now, at, card, redraw) => {
  const foot = made("div", "foot");
  if (card.badge) {
    const badge = made("span", `badge ${card.badge.tone}`, card.badge.text);
    badge.title = card.badge.hint;
    foot.append(badge);
  }
  const open = now.open.has(nameOf(at, card));
  const button = made("button", "ask", "Why");
  button.type = "button";
  button.dataset.name = nameOf(at, card);
  button.setAttribute("aria-expanded", open);
  button.setAttribute("aria-label", `Why ${card.title} is at rank ${card.rank}`);
  if (!open) button.append(barOf(card));
  button.onclick = () => {
    now.open[open ? "delete" : "add"](nameOf(at, card));
    redraw();
    now.tell("why", { column: at, id: card.id, open: !open });
  };
  foot.append(button);
  return foot;
};

const cardOf = (now, at, card) => {
  const entry = made("li", "card");
  const draw = () => {
    const title = marked("button", "title", card.heading);
    title.type = "button";
    title.title = "Read the document";
    title.onclick = () => now.tell("open", { column: at, id: card.id });
    const head = made("div", "head");
    head.append(title);
    if (card.where) head.append(made("p", "where", card.where));
    const side = made("div", "side");
    const score = made("span", "score mono", number(card.score));
    score.title = "The score that ranked it; scores of different variants do not compare.";
    side.append(score);
    if (card.move) side.append(moveOf(card.move));
    entry.replaceChildren(made("span", "rank mono", card.rank), head, side, marked("p", "snippet", card.snippet), footOf(now, at, card, again));
    if (now.open.has(nameOf(at, card))) entry.append(whyOf(now, at, card));
  };
  const again = () => {
    draw();
    entry.querySelector(".ask").focus();
  };
  entry.dataset.item = card.item;
  if (!card.again) entry.dataset.first = "";
  for (const name of ["mouseenter", "focusin"]) entry.addEventListener(name, () => light(now, card.item));
  for (const name of ["mouseleave", "focusout"]) entry.addEventListener(name, () => light(now, ""));
  draw();
  return entry;
};

// -- columns ---------------------------------------------------------------------------------------------------------

const headOf = (column) => {
  const head = made("header");
  head.style.setProperty("--key", `var(--${column.colour})`);
  const name = made("h3");
  name.append(made("i", `key ${column.shape}`), made("span", "", column.name));
  name.title = column.name;
  const time = made("span", "time mono", `${column.milliseconds < 10 ? column.milliseconds.toFixed(1) : Math.round(column.milliseconds)} ms`);
  time.title = "The whole pipeline, the query's embedding included; its model was in memory.";
  head.append(name, time);
  const facts = made("p", "facts");
  for (const leg of column.legs) {
    const sign = made("span", "legname", leg.weight === null ? leg.label : `${leg.label} ${leg.weight}`);
    sign.style.setProperty("--leg", legColour(leg.kind));
    facts.append(sign);
  }
  if (column.recall) facts.append(made("span", "recall", column.recall));
  head.append(facts, ...column.notes.map((note) => made("p", "note", note)));
  return head;
};

const funnelOf = (stages) => {
  const box = made("details", "funnel");
  const last = stages.at(-1);
  const candidates = Math.max(...stages.map(({ kept }) => kept));
  box.append(made("summary", "", `${candidates} candidates came to ${last.kept}`));
  const list = made("ol");
  for (const { name, says, kept, milliseconds, dropped } of stages) {
    const step = made("li");
    step.title = name;
    step.append(made("span", "stage", says), made("span", "mono", kept), made("span", "time mono", `${milliseconds.toFixed(1)} ms`));
    step.append(...dropped.map(({ reason, says: why, count }) => Object.assign(made("p", "", `${count} left out: ${why}`), { title: reason })));
    list.append(step);
  }
  box.append(list);
  return box;
};

const columnOf = (now, column, at) => {
  const part = made("section", "column");
  part.setAttribute("aria-label", column.name);
  part.append(headOf(column));
  const list = made("ol", "cards");
  list.append(...column.cards.map((card) => cardOf(now, at, card)));
  part.append(column.cards.length ? list : made("p", "nothing", "Nothing was found."));
  if (column.stages.length) part.append(funnelOf(column.stages));
  return part;
};

// -- what columns share ----------------------------------------------------------------------------------------------

const overlapOf = (now, part) => {
  const { overlap, columns } = now.data;
  part(".overlap").hidden = columns.length < 2 || !overlap.length;
  part(".shares").replaceChildren(...overlap.map((share) => {
    const button = made("button", "share", share.count);
    button.type = "button";
    button.style.flexGrow = share.count;
    button.style.setProperty("--depth", `${(share.columns.length / columns.length) * 100}%`);
    const who = share.columns.map((at) => columns[at].name).join(", ");
    const said = share.columns.length === columns.length ? "In all columns" : share.columns.length > 1 ? `In ${who}` : `In ${who} alone`;
    button.title = `${said}: ${share.titles.join("; ")}`;
    button.setAttribute("aria-label", `${said}: ${share.count}`);
    button.setAttribute("aria-pressed", now.pinned === said);
    button.append(made("span", "who", share.columns.length === columns.length ? (columns.length === 2 ? "both" : "all") : who));
    button.onclick = () => {
      now.pinned = now.pinned === said ? "" : said;
      now.shown = now.pinned ? new Set(share.items) : null;
      overlapOf(now, part);
      dim(now, part);
    };
    return button;
  }));
};

const dim = (now, part) => {
  for (const card of part(".columns").querySelectorAll(".card")) card.classList.toggle("dim", Boolean(now.shown) && !now.shown.has(card.dataset.item));
};

const light = (now, item) => {
  for (const each of now.part(".columns").querySelectorAll(".card, .lines path")) each.classList.toggle("same", Boolean(item) && each.dataset.item === item);
};

// A line from a document's card to its card in the next column, in the gap between the two.
const lines = (now) => {
  const svg = now.part(".lines");
  const box = now.part(".columns").getBoundingClientRect();
  const [columns, paths] = [[...now.part(".columns").querySelectorAll(".column")], []];
  svg.setAttribute("viewBox", `0 0 ${box.width} ${box.height}`);
  for (const [at, column] of columns.slice(0, -1).entries()) {
    const others = new Map([...columns[at + 1].querySelectorAll(".card[data-first]")].map((card) => [card.dataset.item, card]));
    for (const card of column.querySelectorAll(".card[data-first]")) {
      const other = others.get(card.dataset.item);
      if (!other) continue;
      const [from, to] = [card.getBoundingClientRect(), other.getBoundingClientRect()];
      const [x1, y1, x2] = [from.right - box.left, from.top - box.top + 22, to.left - box.left];
      const y2 = Math.abs(to.top - from.top) < STILL ? y1 : to.top - box.top + 22;
      const path = document.createElementNS(SVG, "path");
      path.setAttribute("d", `M${x1} ${y1}C${(x1 + x2) / 2} ${y1} ${(x1 + x2) / 2} ${y2} ${x2} ${y2}`);
      path.dataset.item = card.dataset.item;
      paths.push(path);
    }
  }
  svg.replaceChildren(...paths);
};

// -- as it comes -----------------------------------------------------------------------------------------------------

const kept = new WeakMap(); // what each mounted view shows, so that a rerun redraws only what changed

const take = (now, data) => {
  const found = JSON.stringify(data.columns);
  if (found !== now.found) Object.assign(now, { found, open: new Set(), pinned: "", shown: null });
  const { account } = data;
  if (account) now.open.add(`${account.column} ${account.id}`);
  now.data = data;
  const columns = now.part(".columns");
  const active = columns.getRootNode().activeElement?.dataset?.name;
  columns.style.setProperty("--count", data.columns.length);
  columns.replaceChildren(now.part(".lines"), ...data.columns.map((column, at) => columnOf(now, column, at)));
  if (active) [...columns.querySelectorAll(".ask")].find((button) => button.dataset.name === active)?.focus({ preventScroll: true });
  overlapOf(now, now.part);
  dim(now, now.part);
};

export default function ({ data, parentElement, setTriggerValue }) {
  const now = kept.get(parentElement) ?? { seen: "", found: "", open: new Set(), part: (name) => parentElement.querySelector(name) };
  kept.set(parentElement, now);
  now.tell = setTriggerValue;
  const seen = JSON.stringify(data);
  if (seen !== now.seen || !now.part(".column")) {
    now.seen = seen;
    take(now, data);
  }
  const watch = new ResizeObserver(() => lines(now));
  watch.observe(now.part(".columns"));
  for (const column of now.part(".columns").querySelectorAll(".cards")) watch.observe(column);
  return () => watch.disconnect();
}
