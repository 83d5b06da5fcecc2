// Brings what was just opened into view, once for each: below a long list one would not see that anything happened.
const WAIT = 100;
const TRIES = 20; // it may be drawn a moment after this
let at = null;

const show = (place, of, left) => {
  if (at !== of) return;
  const found = document.querySelector(`.st-key-${place}`);
  if (!found) {
    if (left) setTimeout(show, WAIT, place, of, left - 1);
    return;
  }
  const { top } = found.getBoundingClientRect();
  if (top < 0 || top > innerHeight * 0.6) found.scrollIntoView({ block: "start", behavior: "smooth" });
};

export default function ({ data }) {
  if (data.of === at) return;
  at = data.of;
  show(data.place, data.of, TRIES);
}
