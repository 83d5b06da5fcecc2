// Scrolls to the cell that the address names, once for each, and takes "?" for the list of commands.
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

const help = (event) => {
  if (event.key !== "?" || event.ctrlKey || event.metaKey || event.altKey || typing(event)) return;
  document.querySelector(".st-key-key-commands button")?.click();
};

const touch = (event) => (touched = event.type === "keydown" ? null : event.target.closest?.('[class*="st-key-part-"]'));

export default function ({ data }) {
  const first = at === null;
  if (data.cell && data.cell !== at && !touched?.matches(classOf(data.cell))) show(data.cell, !first);
  at = data.cell ?? "";
  for (const kind of ["pointerdown", "keydown"]) addEventListener(kind, touch, { capture: true, passive: true });
  document.removeEventListener("keydown", help);
  document.addEventListener("keydown", help);
  return () => document.removeEventListener("keydown", help);
}
