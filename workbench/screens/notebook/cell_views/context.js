// A packed context: the budget as a bar, each passage in its place in it, and what was left out.
// What a corpus says enters the page as textContent alone. Python hears of the document that is to be read.
const ROLES = {
  primary: ["Hit", "A passage that was found."],
  parent: ["Parent", "The longer passage that holds a hit."],
  sibling: ["Sibling", "Of the same page or heading as a hit."],
  neighbour: ["Neighbour", "On the page before or after a hit's."],
};
const made = (tag, className, text) => {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
};
const roleOf = (role) => ROLES[role] ?? [role, ""];
const several = (count, word) => `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`;

const light = (parts, at) => parts.forEach((part, place) => part.forEach((each) => each.classList.toggle("same", place === at)));

const pieceOf = (passage, at, room) => {
  const piece = made("button", `piece ${passage.role}`);
  piece.type = "button";
  piece.style.width = `${(passage.tokens / room) * 100}%`;
  piece.setAttribute("aria-label", `${at + 1}: ${roleOf(passage.role)[0]}, ${several(passage.tokens, "token")}. ${passage.citation}`);
  piece.title = `${at + 1}. ${roleOf(passage.role)[0]}, ${several(passage.tokens, "token")}\n${passage.citation}`;
  return piece;
};

const entryOf = (passage, at, tell) => {
  const entry = made("li", `passage ${passage.role}`);
  const head = made("div", "head");
  const citation = made("button", "citation", passage.citation);
  citation.type = "button";
  citation.title = "Read the document";
  citation.onclick = () => tell("open", passage.id);
  const role = made("span", "role", roleOf(passage.role)[0]);
  role.title = passage.beside && passage.beside !== passage.id ? `${roleOf(passage.role)[1]} Beside ${passage.beside}.` : roleOf(passage.role)[1];
  const about = made("div", "about");
  about.append(citation, role);
  if (passage.badge) {
    const badge = made("span", `badge ${passage.badge.tone}`, passage.badge.text);
    badge.title = passage.badge.hint;
    about.append(badge);
  }
  head.append(made("span", "number mono", at + 1), about, made("span", "tokens mono", several(passage.tokens, "token")));
  const text = made("p", "text", passage.text);
  const more = made("button", "more", "More");
  more.type = "button";
  more.onclick = () => { more.textContent = entry.classList.toggle("open") ? "Less" : "More"; };
  entry.append(head, text, more);
  return entry;
};

const leftOut = (dropped, box) => {
  box.hidden = !dropped.length;
  box.querySelector("summary").textContent = `${several(dropped.length, "passage")} left out`;
  const reasons = new Map();
  for (const each of dropped) reasons.set(each.reason, [...(reasons.get(each.reason) ?? []), each]);
  box.querySelector(".reasons").replaceChildren(...[...reasons].map(([reason, some]) => {
    const part = made("section");
    const list = made("ul");
    list.append(...some.map(({ id, role }) => {
      const item = made("li");
      item.append(made("span", "mono", id), made("span", "role", roleOf(role)[0]));
      return item;
    }));
    part.append(made("h4", "", `${some.length}: ${reason}`), list);
    return part;
  }));
};

const keyOf = (passages) => [...new Set(passages.map(({ role }) => role))].map((role) => {
  const entry = made("li", role, `${roleOf(role)[0]} ${passages.filter((each) => each.role === role).length}`);
  entry.title = roleOf(role)[1];
  return entry;
});

const fill = (part, data, tell) => {
  const { passages, budget, tokens, dropped } = data;
  const room = Math.max(budget, passages.reduce((sum, each) => sum + each.tokens, 0), 1);
  const pieces = passages.map((passage, at) => pieceOf(passage, at, room));
  const entries = passages.map((passage, at) => entryOf(passage, at, tell));
  const pairs = pieces.map((piece, at) => [piece, entries[at]]);
  pairs.forEach((pair, at) => pair.forEach((each) => {
    each.addEventListener("mouseenter", () => light(pairs, at));
    each.addEventListener("mouseleave", () => light(pairs, -1));
  }));
  pieces.forEach((piece, at) => { piece.onclick = () => entries[at].scrollIntoView({ block: "nearest", behavior: "smooth" }); });
  const end = made("i", "end");
  end.style.left = `${(budget / room) * 100}%`;
  part(".bar").replaceChildren(...pieces, end);
  part(".used").textContent = `${tokens.toLocaleString("en")} tokens`;
  part(".most").textContent = tokens > budget ? `${(tokens - budget).toLocaleString("en")} beyond the budget of ${budget.toLocaleString("en")}: the best hits always stay` : `of ${budget.toLocaleString("en")}`;
  part(".key").replaceChildren(...keyOf(passages));
  part(".passages").replaceChildren(...entries);
  for (const entry of entries) entry.classList.toggle("short", entry.querySelector(".text").scrollHeight <= entry.querySelector(".text").clientHeight + 2);
  leftOut(dropped, part(".left"));
};

const kept = new WeakMap();

export default function ({ data, parentElement, setTriggerValue }) {
  const now = kept.get(parentElement) ?? { seen: "" };
  kept.set(parentElement, now);
  now.tell = setTriggerValue;
  const seen = JSON.stringify(data);
  if (seen === now.seen && parentElement.querySelector(".bar").childElementCount) return;
  now.seen = seen;
  fill((name) => parentElement.querySelector(name), data, (event, value) => now.tell(event, value));
}
