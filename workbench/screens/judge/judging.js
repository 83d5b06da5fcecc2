// One document at a time, or the documents of a query below each other: shown as text alone, graded by keys or buttons.
// Each act goes to the server with all that it has not answered yet, so that none is lost however fast one is.
const RESEND = 4000; // milliseconds without an answer
const LONG = 120; // characters of a query that is no heading any more
const token = Math.random().toString(36).slice(2) + performance.now().toString(36);
const kept = new WeakMap();

const made = (tag, className, text) => {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
};

const button = (className, label, key, title, press) => {
  const element = made("button", className);
  element.type = "button";
  if (key !== "") element.append(made("kbd", "", key));
  if (label !== "") element.append(made("span", "", label));
  else element.setAttribute("aria-label", title);
  element.title = title;
  element.onclick = press;
  return element;
};

const same = (one, other) => one && other && one[0] === other[0] && one[1] === other[1];

const typing = (event) =>
  event.composedPath().some((node) => /^(INPUT|TEXTAREA|SELECT)$/.test(node.tagName ?? "") || node.isContentEditable);

// -- what is sent, and what of it is known to be kept

const send = (now) => {
  now.tell("acts", { token, acts: now.out });
  clearTimeout(now.timer);
  now.timer = setTimeout(() => now.out.length && send(now), RESEND);
};

const act = (now, what) => {
  now.out.push({ n: ++now.count, ...what });
  send(now);
  draw(now);
};

const pending = (now, pair) => now.out.findLast((each) => same(each.pair, pair) && each.do !== "suggest");
const undoing = (now) => now.out.some((each) => each.do === "undo");

// What one looks at: the first that no act under way is about; in a list, the one that was chosen, else the first open.
const current = (now) => {
  const { tasks, lists } = now.data;
  if (undoing(now)) return null;
  if (!lists) return tasks.find((task) => !pending(now, task.pair)) ?? null;
  return tasks.find((task) => same(task.pair, now.at)) ?? tasks.find((task) => gradeOf(now, task) === null && !task.skipped) ?? tasks[0] ?? null;
};

const gradeOf = (now, task) => pending(now, task.pair)?.grade ?? task.grade ?? null;

const onwards = (now, task) => {
  const { tasks } = now.data;
  const later = tasks.slice(tasks.indexOf(task) + 1);
  now.at = [...later, ...tasks].find((each) => each !== task && gradeOf(now, each) === null && !each.skipped && !pending(now, each.pair))?.pair ?? null;
};

const give = (now, task, grade) => {
  if (!task || undoing(now)) return;
  const note = now.notes.get(JSON.stringify(task.pair)) ?? "";
  act(now, { do: "grade", pair: task.pair, grade, note });
  if (now.data.lists) { onwards(now, task); draw(now); }
};

const skip = (now, task) => {
  if (!task || undoing(now)) return;
  act(now, { do: "skip", pair: task.pair });
  if (now.data.lists) { onwards(now, task); draw(now); }
};

const undo = (now) => {
  if (undoing(now)) return;
  now.at = null;
  act(now, { do: "undo", pair: ["", ""] });
};

const move = (now, step) => {
  const { tasks, lists } = now.data;
  const task = current(now);
  if (!lists || !task) return;
  now.at = tasks[Math.min(Math.max(tasks.indexOf(task) + step, 0), tasks.length - 1)].pair;
  draw(now);
};

// -- keys

const press = (now, event) => {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.repeat || typing(event)) return;
  if (document.querySelector('[role="dialog"]')) return;
  const task = current(now);
  const keys = {
    s: () => skip(now, task), u: () => undo(now), j: () => move(now, 1), k: () => move(now, -1),
    n: () => now.room.querySelector(".here .note, .foot .note")?.focus(),
    l: () => now.data.suggests && task && act(now, { do: "suggest", pair: task.pair }),
  };
  const key = event.key.toLowerCase();
  const grade = now.data.scale.find(([value]) => String(value) === key);
  if (!grade && !keys[key]) return;
  event.preventDefault();
  if (grade) give(now, task, grade[0]);
  else keys[key]();
};

// Heard once, however often the page is drawn anew: what was there before is put away at a time of its own choosing.
let live = null;
document.addEventListener("keydown", (event) => live?.room.isConnected && press(live, event));

// -- what is drawn

const barOf = (now) => {
  const { progress } = now.data;
  const sent = now.out.filter((each) => each.do === "grade").length;
  const bar = made("div", "bar");
  const line = made("div", "line");
  const share = made("i");
  const [done, all] = [Math.min(progress.all, progress.done + sent), progress.all];
  share.style.width = `${all ? (100 * done) / all : 0}%`;
  line.append(share);
  line.setAttribute("role", "progressbar");
  line.setAttribute("aria-label", "Judged in this sitting");
  line.setAttribute("aria-valuenow", done);
  line.setAttribute("aria-valuemax", all);
  const told = made("span", "told", [`${done} of ${all}`, ...progress.beside].join(" · "));
  const state = made("span", "state", now.out.length ? "Saving …" : now.data.said);
  state.setAttribute("role", "status");
  bar.append(line, told, state);
  return bar;
};

const queryOf = (task) => {
  const head = made("div", task.query.length > LONG ? "query long" : "query");
  head.append(made("h3", "", task.query));
  const facts = made("div", "facts");
  for (const each of task.about) facts.append(made("span", "fact", each));
  head.append(facts);
  return head;
};

const textOf = (task, label) => {
  const text = made("div", "text");
  text.setAttribute("role", "document");
  text.setAttribute("aria-label", label);
  text.tabIndex = 0;
  for (const [piece, marked, passage] of task.pieces) {
    const element = made(marked ? "mark" : "span", passage ? "begins" : "", piece);
    if (passage) element.dataset.passage = passage;
    text.append(element);
  }
  if (!task.pieces.length) text.append(made("em", "", "This document has no text."));
  if (task.cut) text.append(made("em", "cut", ` … ${task.cut} more characters: judge one document at a time to see them.`));
  return text;
};

const passagesOf = (task, text) => {
  const box = made("div", "passages");
  if (task.passages.length < 2) return box;
  box.append(made("span", "name", `${task.passages.length} passages`));
  task.passages.forEach((hits, at) => {
    const jump = button(`passage${hits ? " hit" : ""}`, at + 1, "", `Passage ${at + 1}: ${hits} of the query's words`, () => {
      const start = text.querySelector(`[data-passage="${at + 1}"]`);
      if (start) text.scrollTop = start.offsetTop - text.offsetTop - 8;
    });
    box.append(jump);
  });
  return box;
};

const noteOf = (now, task) => {
  const note = made("input", "note");
  const key = JSON.stringify(task.pair);
  note.type = "text";
  note.maxLength = 1000;
  note.placeholder = "Note, kept with the grade (n)";
  note.setAttribute("aria-label", "Note, kept with the grade");
  note.value = now.notes.get(key) ?? task.note ?? "";
  note.oninput = () => now.notes.set(key, note.value);
  note.onkeydown = (event) => { if (event.key === "Enter" || event.key === "Escape") note.blur(); };
  return note;
};

const gradesOf = (now, task, full = true) => {
  const row = made("div", "grades");
  row.setAttribute("role", "group");
  row.setAttribute("aria-label", "Grade");
  const given = gradeOf(now, task);
  for (const [value, word, meaning] of now.data.scale) {
    const each = button(`grade g${value}`, full ? word : "", value, `${value}: the document ${meaning}`, () => give(now, task, value));
    if (now.data.lists) each.setAttribute("aria-pressed", given === value);
    row.append(each);
  }
  return row;
};

const actsOf = (now, task) => {
  const row = made("div", "acts");
  row.append(button("act", "Skip", "s", "Pass it over for now", () => skip(now, task)));
  const back = button("act", "Undo", "u", "Take the last grade or skip back", () => undo(now));
  back.disabled = undoing(now);
  row.append(back);
  if (now.data.suggests) {
    const ask = button("act", "Suggest", "l", now.data.suggests, () => act(now, { do: "suggest", pair: task.pair }));
    row.append(ask);
  }
  return row;
};

const alone = (now, task) => {
  const text = textOf(task, "The document");
  const paper = made("article", "paper");
  const foot = made("div", "foot");
  foot.append(gradesOf(now, task), noteOf(now, task), actsOf(now, task));
  paper.append(made("h4", "", task.title), passagesOf(task, text), text);
  return [queryOf(task), paper, foot];
};

const entryOf = (now, task, here) => {
  const entry = made("li", `entry${here ? " here" : ""}${task.skipped ? " skipped" : ""}`);
  const paper = made("div", "paper");
  const text = textOf(task, "The document");
  const title = button("title", task.title, "", "Look at it", () => { now.at = task.pair; draw(now); });
  if (!here) text.tabIndex = -1;
  paper.append(title, text);
  const side = made("div", "side");
  side.append(gradesOf(now, task, here));
  if (here) side.append(noteOf(now, task));
  entry.append(paper, side);
  return entry;
};

const listed = (now, task) => {
  const list = made("ol", "entries");
  list.append(...now.data.tasks.map((each) => entryOf(now, each, each === task)));
  const foot = made("div", "foot");
  foot.append(actsOf(now, task), made("span", "hint", "j and k go down and up the list"));
  return [queryOf(task), list, foot];
};

const draw = (now) => {
  const { room, data } = now;
  const task = current(now);
  const key = task && JSON.stringify([task.pair, data.lists]);
  const note = room.getRootNode().activeElement?.classList.contains("note");
  if (key && key === now.shown && !data.lists) { // the same document: neither its place nor a note may jump
    room.replaceChild(barOf(now), room.firstChild);
    return;
  }
  const scrolled = data.lists && note;
  if (scrolled && key === now.shown) { room.replaceChild(barOf(now), room.firstChild); return; }
  const parts = task ? (data.lists ? listed(now, task) : alone(now, task)) : [made("p", "nothing", now.out.length ? "One moment …" : data.nothing)];
  room.replaceChildren(barOf(now), ...parts);
  const moved = key !== now.shown;
  now.shown = key;
  if (!task || !moved) return;
  const away = document.activeElement && document.activeElement !== document.body && !room.contains(document.activeElement) && document.activeElement.shadowRoot !== room.getRootNode();
  if (data.lists) room.querySelector(".here")?.scrollIntoView({ block: "nearest" });
  if (!away) room.querySelector(data.lists ? ".here .text" : ".text")?.focus({ preventScroll: true });
};

export default function ({ data, parentElement, setTriggerValue }) {
  const now = kept.get(parentElement) ?? { out: [], count: 0, notes: new Map(), at: null, shown: null, sitting: null };
  kept.set(parentElement, now);
  now.room = parentElement.querySelector(".judging");
  now.tell = setTriggerValue;
  const heard = data.heard.token === token ? data.heard.n : 0;
  now.count = Math.max(now.count, heard);
  const before = now.data;
  now.out = now.out.filter((each) => each.n > heard);
  now.data = data;
  if (before && before.tasks[0]?.queryId !== data.tasks[0]?.queryId) now.at = null;
  if (!now.out.length) clearTimeout(now.timer);
  if (!now.room.childElementCount) now.shown = null;
  draw(now);
  live = now;
}
