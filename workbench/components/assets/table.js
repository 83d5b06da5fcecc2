// A table with a filter that answers while one types, and pages. Cells are strangers' text: textContent alone.
const PAUSE = 180; // milliseconds without a key before the filter is told
const kept = new WeakMap();

const made = (tag, className, text) => {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
};

const classOf = (column) => [column.right ? "right" : "", column.wide ? "wide" : "", column.long ? "long" : ""].filter(Boolean).join(" ");

const headOf = (columns) => {
  const row = made("tr");
  for (const column of columns) {
    const cell = made("th", classOf(column), column.name);
    cell.scope = "col";
    if (column.hint) cell.title = column.hint;
    row.append(cell);
  }
  return row;
};

const rowOf = ({ id, cells, hint }, columns, data, now) => {
  const row = made("tr", id === data.selected ? "selected" : "");
  if (hint) row.title = hint;
  cells.forEach((value, at) => {
    const cell = made("td", classOf(columns[at]));
    if (at === 0 && data.opens) {
      const button = made("button", "open", value);
      button.type = "button";
      if (id === data.selected) button.setAttribute("aria-current", "true");
      cell.append(button);
    } else cell.textContent = value;
    row.append(cell);
  });
  if (data.opens) {
    row.classList.add("opens");
    row.onclick = () => now.tell("open", id);
  }
  return row;
};

const turn = (label, page, data, now) => {
  const button = made("button", "turn", label);
  button.type = "button";
  button.disabled = page < 1 || page > data.pages;
  button.onclick = () => now.tell("page", String(page));
  return button;
};

const fill = (root, data, now) => {
  const table = made("table");
  table.setAttribute("aria-label", data.label);
  const head = made("thead");
  head.append(headOf(data.columns));
  const body = made("tbody");
  body.append(...data.rows.map((row) => rowOf(row, data.columns, data, now)));
  table.append(head, body);
  const frame = made("div", data.low ? "frame low" : "frame");
  frame.append(table);
  root.querySelector(".rows").replaceChildren(...(data.rows.length ? [frame] : [made("p", "nothing", data.empty)]));
  const foot = root.querySelector(".foot");
  foot.hidden = !data.told;
  const told = made("span", "told", data.told);
  told.setAttribute("role", "status");
  const turns = data.pages > 1 ? [turn("Previous", data.page - 1, data, now), turn("Next", data.page + 1, data, now)] : [];
  foot.replaceChildren(told, ...turns);
};

// What somebody is typing is never replaced by an answer to what was typed before.
const settle = (box, data, now) => {
  box.parentElement.hidden = data.find === null;
  if (data.find === null) return;
  box.placeholder = data.asks;
  box.setAttribute("aria-label", data.asks);
  if (now.waits || data.find === box.value.trim()) return;
  if (now.told.has(data.find)) now.told.delete(data.find);
  else box.value = data.find;
};

export default function ({ data, parentElement, setTriggerValue }) {
  const now = kept.get(parentElement) ?? { seen: "", told: new Set(), waits: 0 };
  kept.set(parentElement, now);
  now.tell = (event, value) => setTriggerValue(event, value);
  const box = parentElement.querySelector("input");
  box.oninput = () => {
    clearTimeout(now.waits);
    now.waits = setTimeout(() => {
      now.waits = 0;
      now.told.add(box.value.trim());
      now.tell("find", box.value.trim());
    }, PAUSE);
  };
  settle(box, data, now);
  const seen = JSON.stringify(data);
  if (seen === now.seen && parentElement.querySelector(".rows").childElementCount) return;
  now.seen = seen;
  fill(parentElement, data, now);
}
