// A document in full, its text as text, scrolled to the passage that was found. `titled.js` stands before it.
const show = (text, whole, range) => {
  const [start, end] = range ?? [0, 0];
  const pieces = [[whole.slice(0, start), "span"], [whole.slice(start, end), "mark"], [whole.slice(end), "span"]];
  text.replaceChildren(...pieces.filter(([piece]) => piece).map(([piece, tag]) => made(tag, "", piece)));
  const mark = text.querySelector("mark");
  if (mark) requestAnimationFrame(() => { text.scrollTop = mark.offsetTop - text.offsetTop - 48; });
};

const parts = (box, data, start, choose) => {
  const buttons = data.parts.map(([id, from, to], at) => {
    const button = made("button", "part", at + 1);
    button.type = "button";
    button.title = `Passage ${id}`;
    button.setAttribute("aria-pressed", from === start && (to - from) === data.text.find(([, passage]) => passage)?.[0].length);
    button.onclick = () => {
      for (const each of buttons) each.setAttribute("aria-pressed", each === button);
      choose([from, to]);
    };
    return button;
  });
  box.hidden = buttons.length < 2;
  box.replaceChildren(made("span", "name", `${buttons.length} passages`), ...buttons);
};

export default function ({ data, parentElement }) {
  const text = headed(parentElement, data, "The document's text");
  if (!text) return;
  const whole = data.text.map(([piece]) => piece).join("");
  const found = data.text.findIndex(([, passage]) => passage);
  const start = found < 0 ? 0 : data.text.slice(0, found).map(([piece]) => piece).join("").length;
  show(text, whole, found < 0 ? null : [start, start + data.text[found][0].length]);
  parts(parentElement.querySelector(".parts"), data, found < 0 ? -1 : start, (range) => show(text, whole, range));
}
