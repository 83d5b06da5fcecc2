// The weights page's instrument, put together: it takes what Python hands over, and redraws only what changed.
const kept = new WeakMap(); // what each mounted instrument holds, so that a rerun redraws only what changed

const take = (now, data) => {
  if (data.surface.key !== now.seen) {
    Object.assign(now, { seen: data.surface.key, surface: surfaceOf(data.surface), pending: null, pair: [0, 1], held: null, weights: data.weights.split("-").map(Number) });
    settle(now);
  }
  now.query = data.query.items ? queryOf(data.query) : null;
  now.problem = data.query.problem;
  now.part(".asked").textContent = data.query.text;
  if (!now.query) now.part(".own").textContent = "";
  now.against = data.against;
  references(now);
  if (now.pending === data.heard) now.pending = null; // until then, what comes was sent before the last move arrived
  if (now.pending === null && !now.held && !now.waiting) {
    now.sent = data.weights;
    now.weights = data.weights.split("-").map(Number);
  }
  show(now);
};

export default function ({ data, parentElement, setTriggerValue }) {
  const now = kept.get(parentElement) ?? { part: (name) => parentElement.querySelector(name) };
  kept.set(parentElement, now);
  now.tell = setTriggerValue;
  take(now, data);
  const watch = new ResizeObserver(() => {
    const width = Math.max(280, Math.round(now.part(".plot").clientWidth));
    if (width === now.width) return;
    drawPlot(now);
    show(now);
  });
  watch.observe(now.part(".plot"));
  return () => watch.disconnect();
}
