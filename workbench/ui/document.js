// A document in full, its text as text, scrolled to the passage that was found.
const made = (tag, className, text) => {
  const element = document.createElement(tag);
  element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
};

const kept = new WeakMap();

export default function ({ data, parentElement }) {
  const seen = JSON.stringify(data);
  const text = parentElement.querySelector(".text");
  if (kept.get(parentElement) === seen && text.childElementCount) return;
  kept.set(parentElement, seen);
  const facts = made("div", "facts");
  for (const [name, value] of data.facts) {
    const fact = made("span", "fact");
    fact.append(made("span", "name", name), made("span", "", value));
    facts.append(fact);
  }
  parentElement.querySelector(".head").replaceChildren(made("h3", "", data.title), facts);
  text.setAttribute("role", "document");
  text.setAttribute("aria-label", "The document's text");
  text.replaceChildren(...data.text.map(([piece, passage]) => made(passage ? "mark" : "span", "", piece)));
  const mark = text.querySelector("mark");
  if (mark) requestAnimationFrame(() => { text.scrollTop = mark.offsetTop - text.offsetTop - 48; });
}
