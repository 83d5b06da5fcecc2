// A document in full with its chunks as bands. `titled.js` stands before it.
const SHADES = 3; // bands beside each other never bear the same

const saidOf = (band) => {
  const name = band.level === "parent" ? "Parent" : band.level === "child" ? "Child" : "Chunk";
  const where = [band.heading_path.join(" › "), band.page ? `page ${band.page}` : ""].filter(Boolean).join(", ");
  return `${name} ${band.ordinal}, ${band.end - band.start} characters (${band.start}–${band.end})${where ? `: ${where}` : ""}`;
};

const markOf = (band) => {
  const mark = made("span", `mark ${band.level}`, `${band.level === "parent" ? "parent " : ""}${band.ordinal}`);
  mark.title = saidOf(band);
  mark.setAttribute("role", "img");
  mark.setAttribute("aria-label", saidOf(band));
  return mark;
};

const pieceOf = (piece) => {
  const part = made("span", ["piece", piece.within.length ? `band shade${piece.within[0] % SHADES}` : "", piece.within.length > 1 ? "shared" : ""].join(" "));
  if (piece.within.length > 1) part.title = `In chunks ${piece.within.join(" and ")}: they overlap here.`;
  part.append(...piece.begins.map(markOf), document.createTextNode(piece.text));
  return part;
};

export default function ({ data, parentElement }) {
  const text = headed(parentElement, data, "The document's text, with its chunks");
  if (!text) return;
  text.replaceChildren(...data.pieces.map(pieceOf));
  if (data.cut) text.append(made("p", "cut", data.cut));
}
