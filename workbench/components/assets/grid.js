// A table of plain values, some of them buttons. Every text enters the page as textContent alone.
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

const BADGES = ["best", "good", "zero", "unjudged"];

const content = (cell) => {
  const parts = [];
  if (BADGES.includes(cell.tone)) parts.push(made("span", `badge ${cell.tone}`, cell.text));
  else parts.push(number(cell));
  if (cell.beside) parts.push(" ", made("span", "beside", cell.beside));
  if (cell.sign) parts.push(" ", made("span", `sign ${cell.tone ?? ""}`, cell.sign));
  if (cell.colour) {
    const named = made("span", "named");
    const key = made("i", `key ${cell.shape}`);
    key.style.setProperty("--key", `var(--${cell.colour})`);
    const words = made("span");
    words.append(...parts.splice(0));
    named.append(key, words);
    parts.push(named);
  }
  return parts;
};

const button = (cell, pick) => {
  const press = made("button", cell.pill ? "pill" : "");
  press.type = "button";
  press.append(...content(cell));
  if (cell.said) press.setAttribute("aria-label", cell.said);
  if ("on" in cell) press.setAttribute("aria-pressed", String(Boolean(cell.on)));
  press.dataset.pick = JSON.stringify(cell.pick);
  press.onclick = () => pick(cell.pick);
  return press;
};

const place = (cell, tag, right, pick) => {
  const at = made(tag, right ? "right" : "");
  if (cell.hint) at.title = cell.hint;
  if (cell.heat !== undefined) {
    at.classList.add("heat");
    at.style.setProperty("--heat", cell.heat);
  }
  at.append(...(cell.pick ? [button(cell, pick)] : content(cell)));
  if (cell.under) at.append(made("span", "under", cell.under));
  return at;
};

const table = ({ heads, rows, right, chosen, label, dense }, pick) => {
  const all = made("table", dense ? "dense" : "");
  all.setAttribute("aria-label", label);
  const top = made("tr");
  heads.forEach((cell, at) => {
    const head = place(cell, "th", right.includes(at), pick);
    head.scope = "col";
    top.append(head);
  });
  const body = made("tbody");
  rows.forEach((row, number_) => {
    const line = made("tr", number_ === chosen ? "chosen" : "");
    row.forEach((cell, at) => {
      const one = place(cell, at ? "td" : "th", right.includes(at), pick);
      if (!at) one.scope = "row";
      line.append(one);
    });
    body.append(line);
  });
  const head = made("thead");
  head.append(top);
  all.append(head, body);
  return all;
};

const fill = (frame, data, pick) => {
  const focused = frame.getRootNode().activeElement?.dataset?.pick;
  const { scrollTop, scrollLeft } = frame;
  frame.className = data.tall ? "frame tall" : "frame";
  frame.setAttribute("aria-label", data.label);
  const parts = [data.rows.length ? table(data, pick) : made("p", "nothing", data.empty)];
  if (data.notes.length) {
    const notes = made("div", "notes");
    notes.append(...data.notes.map((note) => made("p", "", note)));
    parts.push(notes);
  }
  frame.replaceChildren(...parts);
  Object.assign(frame, { scrollTop, scrollLeft });
  if (focused) [...frame.querySelectorAll("button")].find((each) => each.dataset.pick === focused)?.focus({ preventScroll: true });
};

const kept = new WeakMap(); // what each mounted table shows, so that a rerun redraws only what changed

export default function ({ data, parentElement, setTriggerValue }) {
  const now = kept.get(parentElement) ?? { seen: "", revealed: "" };
  kept.set(parentElement, now);
  now.pick = (value) => setTriggerValue("picked", value);
  const frame = parentElement.querySelector(".frame");
  const text = JSON.stringify(data);
  if (text !== now.seen || !frame.childElementCount) {
    now.seen = text;
    fill(frame, data, (value) => now.pick(value));
  }
  // After a click or a key only: a page that is just being opened scrolls to where its address says.
  if (data.reveal && data.reveal !== now.revealed && navigator.userActivation?.isActive) {
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    requestAnimationFrame(() => frame.scrollIntoView({ block: "nearest", behavior: still ? "auto" : "smooth" }));
  }
  now.revealed = data.reveal;
}
