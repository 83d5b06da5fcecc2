// A document's head: its title and facts above its text. A stranger's, all of it: textContent alone.
const titled = new WeakMap();

const made = (tag, className, text) => {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
};

const factOf = ([name, value]) => {
  const fact = made("span", "fact");
  fact.append(made("span", "name", name), made("span", "", value));
  return fact;
};

// The place for the text, with the head drawn above it; nothing where the page shows this document already.
const headed = (parentElement, data, label) => {
  const seen = JSON.stringify(data);
  const text = parentElement.querySelector(".text");
  if (titled.get(parentElement) === seen && text.childElementCount) return null;
  titled.set(parentElement, seen);
  const facts = made("div", "facts");
  facts.append(...data.facts.map(factOf));
  parentElement.querySelector(".head").replaceChildren(made("h3", "", data.title), facts);
  text.setAttribute("role", "document");
  text.setAttribute("aria-label", label);
  return text;
};
