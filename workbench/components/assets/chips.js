// Example queries. Their text is a corpus's, so it enters the page as textContent alone.
const kept = new WeakMap();

const chipOf = ({ text, kind }, choose) => {
  const chip = document.createElement("button");
  chip.type = "button";
  chip.className = "chip";
  chip.title = text;
  for (const [name, value] of [["query", text], ["kind", kind]]) {
    const part = document.createElement("span");
    part.className = name;
    part.textContent = value;
    if (value) chip.append(part);
  }
  chip.onclick = () => choose(text);
  const entry = document.createElement("li");
  entry.append(chip);
  return entry;
};

export default function ({ data, parentElement, setTriggerValue }) {
  const now = kept.get(parentElement) ?? { seen: "" };
  now.choose = (text) => setTriggerValue("choose", text);
  kept.set(parentElement, now);
  const list = parentElement.querySelector(".chips");
  const seen = JSON.stringify(data);
  if (seen === now.seen && list.childElementCount) return;
  now.seen = seen;
  list.replaceChildren(...data.chips.map((chip) => chipOf(chip, (text) => now.choose(text))));
}
