// The table: cells that can be buttons, rows that open, a filter, pages. Every text enters the page as textContent alone.
const PAUSE = 180; // milliseconds without a key before the filter is sent
const BADGES = ["best", "good", "zero", "unjudged"];
const kept = new WeakMap(); // by mounted table: what it shows, so that a rerun redraws only what changed

const made = (tag, className, text) => {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
};

const number = (cell) => {
  const line = made("span", "number");
  line.append(made(cell.strong ? "b" : "span", cell.tone && !cell.sign ? `tone-${cell.tone}` : "", cell.text));
  if (cell.strong) line.append(made("b", "star", "*"));
  return line;
};

const content = (cell) => {
  const parts = [BADGES.includes(cell.tone) ? made("span", `badge ${cell.tone}`, cell.text) : number(cell)];
  if (cell.beside) parts.push(" ", made("span", "beside", cell.beside));
  if (cell.sign) parts.push(" ", made("span", `sign ${cell.tone ?? ""}`, cell.sign));
  if (!cell.colour) return parts;
  const named = made("span", "named");
  const key = made("i", `key ${cell.shape}`);
  key.style.setProperty("--key", `var(--${cell.colour})`);
  const words = made("span");
  words.append(...parts);
  named.append(key, words);
  return [named];
};

const button = (cell, tell) => {
  const press = made("button", cell.pill ? "pill" : "");
  press.type = "button";
  press.append(...content(cell));
  if (cell.says) press.setAttribute("aria-label", cell.says);
  if ("on" in cell) press.setAttribute("aria-pressed", String(cell.on));
  press.dataset.action = JSON.stringify(cell.action);
  press.onclick = (event) => {
    event.stopPropagation();
    tell("action", cell.action);
  };
  return press;
};

const fill = (at, cell, column, tell) => {
  at.className = ["right", "wide", "long"].filter((name) => column[name]).join(" ");
  if (typeof cell === "string") {
    at.textContent = cell;
    return at;
  }
  if (cell.hint) at.title = cell.hint;
  if (cell.heat !== undefined) {
    at.classList.add("heat");
    at.style.setProperty("--heat", cell.heat);
  }
  at.append(...(cell.action ? [button(cell, tell)] : content(cell)));
  if (cell.under) at.append(made("span", "under", cell.under));
  return at;
};

const rowOf = (row, data, tell) => {
  const line = made("tr", data.selected && row.id === data.selected ? "selected" : "");
  if (row.hint) line.title = row.hint;
  row.cells.forEach((cell, at) => {
    const one = made(at ? "td" : "th");
    if (!at) one.scope = "row";
    if (at || !data.opens) line.append(fill(one, cell, data.columns[at], tell));
    else {
      fill(one, "", data.columns[at], tell);
      const open = made("button", "open", cell);
      open.type = "button";
      if (row.id === data.selected) open.setAttribute("aria-current", "true");
      one.append(open);
      line.append(one);
    }
  });
  if (data.opens) {
    line.classList.add("opens");
    line.onclick = () => tell("open", row.id);
  }
  return line;
};

const tableOf = (data, tell) => {
  const all = made("table", data.dense ? "dense" : "");
  all.setAttribute("aria-label", data.label);
  const top = made("tr");
  for (const column of data.columns) {
    const head = fill(made("th"), column, column, tell);
    head.scope = "col";
    top.append(head);
  }
  const head = made("thead");
  head.append(top);
  const body = made("tbody");
  body.append(...data.rows.map((row) => rowOf(row, data, tell)));
  all.append(head, body);
  return all;
};

const draw = (root, data, tell) => {
  const old = root.querySelector(".frame");
  const focused = root.getRootNode().activeElement?.dataset?.action;
  const frame = made("div", data.tall ? "frame tall" : "frame");
  frame.tabIndex = 0;
  frame.setAttribute("role", "region");
  frame.setAttribute("aria-label", data.label);
  frame.append(data.rows.length ? tableOf(data, tell) : made("p", "nothing", data.empty));
  if (data.notes.length) {
    const notes = made("div", "notes");
    notes.append(...data.notes.map((note) => made("p", "", note)));
    frame.append(notes);
  }
  const { scrollTop, scrollLeft } = old ?? frame;
  root.querySelector(".rows").replaceChildren(frame);
  Object.assign(frame, { scrollTop, scrollLeft });
  if (focused) [...frame.querySelectorAll("button")].find((each) => each.dataset.action === focused)?.focus({ preventScroll: true });
  const foot = root.querySelector(".foot");
  foot.hidden = !data.filter?.says;
  if (foot.hidden) return;
  const { page, pages, says } = data.filter;
  const status = made("span", "says", says);
  status.setAttribute("role", "status");
  const turn = (label, to) => {
    const press = made("button", "turn", label);
    press.type = "button";
    press.disabled = to < 1 || to > pages;
    press.onclick = () => tell("page", String(to));
    return press;
  };
  foot.replaceChildren(status, ...(pages > 1 ? [turn("Previous", page - 1), turn("Next", page + 1)] : []));
};

// What somebody is typing is never replaced by an answer to what was typed before.
const settle = (box, filter, now) => {
  box.parentElement.hidden = !filter;
  if (!filter) return;
  box.placeholder = filter.placeholder;
  box.setAttribute("aria-label", filter.placeholder);
  if (now.waits || filter.find === box.value.trim()) return;
  if (now.sent.has(filter.find)) now.sent.delete(filter.find);
  else box.value = filter.find;
};

export default function ({ data, parentElement, setTriggerValue }) {
  const now = kept.get(parentElement) ?? { seen: "", revealed: "", sent: new Set(), waits: 0 };
  kept.set(parentElement, now);
  now.tell = (event, value) => setTriggerValue(event, value);
  const box = parentElement.querySelector("input");
  box.oninput = () => {
    clearTimeout(now.waits);
    now.waits = setTimeout(() => {
      now.waits = 0;
      now.sent.add(box.value.trim());
      now.tell("find", box.value.trim());
    }, PAUSE);
  };
  settle(box, data.filter, now);
  const seen = JSON.stringify(data);
  if (seen !== now.seen || !parentElement.querySelector(".frame")) {
    now.seen = seen;
    draw(parentElement, data, (event, value) => now.tell(event, value));
  }
  // After a click or a key only: a page that is just being opened scrolls to where its address says.
  if (data.reveal && data.reveal !== now.revealed && navigator.userActivation?.isActive) {
    const behavior = matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth";
    requestAnimationFrame(() => parentElement.querySelector(".frame").scrollIntoView({ block: "nearest", behavior }));
  }
  now.revealed = data.reveal;
}
