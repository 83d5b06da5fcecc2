// Variants to choose from, each with its pipeline in a line. Names may be strangers' text: textContent alone.
const kept = new WeakMap();

const made = (tag, className, text) => {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
};

const stageOf = ({ label, says, leg }) => {
  const stage = made("span", leg ? "stage leg" : "stage", label);
  if (leg) stage.style.setProperty("--leg", `var(--leg-${leg})`);
  stage.title = says;
  return stage;
};

const pipelineOf = (steps) => {
  const line = made("span", "pipeline");
  line.append(...steps.map((step) => {
    const group = made("span", "step");
    group.append(...step.map(stageOf));
    return group;
  }));
  return line;
};

const itemOf = (item, selected, now) => {
  const button = made("button", "item");
  button.type = "button";
  if (item.name === selected) button.setAttribute("aria-current", "true");
  button.append(made("span", "name", item.name), pipelineOf(item.steps));
  if (item.problem) button.append(made("span", "problem", item.problem));
  else if (item.description) button.append(made("span", "about", item.description));
  button.onclick = () => now.choose(item.name);
  const entry = made("li");
  entry.append(button);
  return entry;
};

const groupOf = ({ title, items, empty }, selected, now) => {
  const group = made("section");
  const list = made("ul");
  list.append(...items.map((item) => itemOf(item, selected, now)));
  group.append(made("h3", "", title), items.length ? list : made("p", "empty", empty));
  return group;
};

export default function ({ data, parentElement, setTriggerValue }) {
  const now = kept.get(parentElement) ?? { seen: "" };
  now.choose = (name) => setTriggerValue("choose", name);
  kept.set(parentElement, now);
  const root = parentElement.querySelector(".variants");
  const seen = JSON.stringify(data);
  if (seen === now.seen && root.childElementCount) return;
  now.seen = seen;
  root.classList.toggle("scrolls", !data.steps);
  root.replaceChildren(...(data.steps ? [pipelineOf(data.steps)] : data.groups.map((group) => groupOf(group, data.selected, now))));
}
