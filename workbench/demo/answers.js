// Answers side by side. What a corpus says enters the page as textContent alone.
const made = (tag, className, text) => {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
};

const marked = (tag, className, pieces) => {
  const line = made(tag, className);
  line.append(...pieces.map(([text, hit]) => made(hit ? "mark" : "span", "", text)));
  return line;
};

const resultOf = (result) => {
  const entry = made("li", "result");
  entry.append(marked("h3", "title", result.title));
  if (result.where) entry.append(made("p", "where", result.where));
  entry.append(marked("p", "passage", result.snippet));
  if (result.why) {
    const why = made("p", "why", result.why);
    if (/\(\d+(st|nd|rd|th)\)/.test(result.why)) why.title = "In brackets: its place by that reason alone.";
    entry.append(why);
  }
  return entry;
};

const columnOf = (column, at, blind) => {
  const section = made("section", "column");
  const heading = made("h2", blind ? "name letter" : "name", column.name);
  heading.id = `column-${at}`;
  section.setAttribute("aria-labelledby", heading.id);
  section.append(heading);
  if (column.nothing) section.append(made("p", "nothing", column.nothing));
  else {
    const list = made("ol", "results");
    list.append(...column.results.map(resultOf));
    section.append(list);
  }
  return section;
};

const kept = new WeakMap(); // what is shown, so that a rerun redraws only what changed

export default function ({ data, parentElement }) {
  const room = parentElement.querySelector(".answers");
  const text = JSON.stringify(data);
  if (kept.get(parentElement) === text && room.childElementCount) return;
  kept.set(parentElement, text);
  room.style.setProperty("--columns", data.columns.length);
  room.replaceChildren(...data.columns.map((column, at) => columnOf(column, at, data.blind)));
}
