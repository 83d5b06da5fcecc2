// Scrolls to the cell that the address names, once for each, takes "?" for the list of commands, and puts the cursor into
// an editor that a key opens: else what is typed next would be taken for commands.
const HELD = 4000; // how long a cell is kept in view while what stands above it is still being drawn
let at = null;
let touched = null; // the cell that was clicked last: who clicks in a cell is there already

const classOf = (cell) => `.st-key-part-${cell.trim().replaceAll(/[^a-zA-Z0-9_-]/g, "-")}`;

const typing = (event) =>
  event.composedPath().some((node) => /^(INPUT|TEXTAREA|SELECT)$/.test(node.tagName ?? "") || node.isContentEditable);

const show = (cell, smooth) => {
  const end = performance.now() + HELD;
  let left = false;
  const leave = () => (left = true);
  const moves = ["wheel", "touchmove", "keydown", "pointerdown"];
  for (const move of moves) addEventListener(move, leave, { once: true, passive: true });
  let top = null;
  const look = () => {
    const found = document.querySelector(classOf(cell));
    const now = found?.getBoundingClientRect().top ?? null;
    if (found && now !== top) found.scrollIntoView({ block: "start", behavior: smooth && top === null ? "smooth" : "auto" });
    top = found?.getBoundingClientRect().top ?? null;
    if (!left && at === cell && performance.now() < end && !(smooth && found)) setTimeout(look, 150);
  };
  look();
};

const enter = (left) => {
  const area = at && document.querySelector(`${classOf(at)} textarea`);
  if (area) area.focus({ preventScroll: true });
  else if (left) setTimeout(enter, 100, left - 1);
};

const press = (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || typing(event)) return;
  if (event.key === "?") document.querySelector(".st-key-key-commands button")?.click();
  if (event.key === "e") enter(30);
};

const touch = (event) => (touched = event.type === "keydown" ? null : event.target.closest?.('[class*="st-key-part-"]'));

export default function ({ data }) {
  const first = at === null;
  if (data.cell && data.cell !== at && !touched?.matches(classOf(data.cell))) show(data.cell, !first);
  at = data.cell ?? "";
  for (const kind of ["pointerdown", "keydown"]) addEventListener(kind, touch, { capture: true, passive: true });
  document.removeEventListener("keydown", press);
  document.addEventListener("keydown", press);
  return () => document.removeEventListener("keydown", press);
}
