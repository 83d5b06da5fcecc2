// One column of results. What a corpus says enters the page as textContent alone.
const made = (tag, className, text) => {
  const element = document.createElement(tag);
  element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
};

const where = (card) => [card.path.join(" › "), card.page].filter(Boolean).join(" · ");

const marked = (tag, className, pieces) => {
  const line = made(tag, className);
  line.append(...pieces.map(([text, hit]) => made(hit ? "mark" : "span", "", text)));
  return line;
};

const dots = (found) => {
  const group = made("span", "dots");
  const by = found.filter((dot) => dot.rank);
  const said = `Found ${by.map((dot) => `${dot.how} at rank ${dot.rank} (${dot.label})`).join(", ")}`;
  group.setAttribute("role", "img");
  group.setAttribute("aria-label", said);
  group.title = said;
  for (const { leg, rank } of found) {
    const dot = made("span", rank ? "dot on" : "dot");
    dot.style.setProperty("--leg", `var(--leg-${leg})`);
    group.append(dot);
  }
  return group;
};

const foot = (card) => {
  const line = made("div", "foot");
  if (card.badge) {
    const badge = made("span", `badge ${card.badge.tone}`, card.badge.text);
    badge.title = card.badge.hint;
    line.append(badge);
  }
  for (const [name, value] of card.facts) {
    const fact = made("span", "fact", value);
    fact.title = `${name}: ${value}`;
    line.append(fact);
  }
  if (card.dots.length > 1) line.append(dots(card.dots));
  return line;
};

const shine = (item) => window.dispatchEvent(new CustomEvent("rankbook-item", { detail: item }));

const cardOf = (card, open) => {
  const entry = made("li", "card");
  entry.dataset.item = card.item;
  const title = marked("button", "title", card.heading);
  title.type = "button";
  title.onclick = () => open(card.id);
  const head = made("div", "head");
  head.append(title);
  const body = made("div", "body");
  if (where(card)) body.append(made("p", "where", where(card)));
  body.append(marked("p", "snippet", card.snippet), foot(card));
  const score = made("span", "score mono", card.score);
  score.title = "The leg's own score; scores of different legs do not compare.";
  entry.append(made("span", "rank mono", card.rank), head, score, body);
  for (const name of ["mouseenter", "focusin"]) entry.addEventListener(name, () => shine(card.item));
  for (const name of ["mouseleave", "focusout"]) entry.addEventListener(name, () => shine(""));
  return entry;
};

const fill = (list, more, { label, cards }, open) => {
  list.setAttribute("aria-label", label);
  list.classList.remove("all");
  list.replaceChildren(...cards.map((card) => cardOf(card, open)));
  more.hidden = cards.length < 5;
  more.textContent = `Show all ${cards.length}`;
  more.onclick = () => {
    list.classList.add("all");
    more.hidden = true;
  };
};

const kept = new WeakMap(); // what each mounted column shows, so that a rerun redraws only what changed

export default function ({ data, parentElement, setTriggerValue }) {
  const before = kept.get(parentElement);
  const now = before ?? { seen: "", open: null };
  now.open = (id) => setTriggerValue("open", id);
  kept.set(parentElement, now);
  const list = parentElement.querySelector(".cards");
  const text = JSON.stringify(data);
  if (text !== now.seen || !list.childElementCount) {
    now.seen = text;
    fill(list, parentElement.querySelector(".more"), data, (id) => now.open(id));
  }
  // A document found by several legs lights up in all of them.
  const listener = ({ detail }) => {
    for (const card of list.children) card.classList.toggle("same", Boolean(detail) && card.dataset.item === detail);
  };
  if (now.listener) window.removeEventListener("rankbook-item", now.listener);
  now.listener = listener;
  window.addEventListener("rankbook-item", listener);
  return () => window.removeEventListener("rankbook-item", listener);
}
