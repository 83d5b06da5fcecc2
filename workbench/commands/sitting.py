"""A sitting: one judge, one queue, one document at a time in the terminal. Owns the keys and what they show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import typer

from workbench.commands import telling

if TYPE_CHECKING:
    from core.store.engine import Store
    from evals.judging.judgements import Judgement, Task

SHOWN = 1500  # characters of a document, before m shows all of it
KEYS = "0-3, then a note if you like; s skip, m more, u undo, q quit"


@dataclass
class Sitting:
    """`given` remembers, for undoing, which task each judgement was of and what it took the place of."""

    store: Store
    collection: str
    judge: str
    tasks: Sequence[Task]
    at: int = 0
    given: list[tuple[int, list[Judgement]]] = field(default_factory=list)

    def run(self) -> None:
        """Until the queue's end, q, or the end of what is typed. All that was given is kept by then."""
        whole = False
        while self.at < len(self.tasks):
            self._show(self.tasks[self.at], whole=whole)
            answer = self._answer()
            whole = answer == "m"
            if answer == "q":
                break
            self._take(answer)
        left = len(self.tasks) - self.at
        telling.say(f"{len(self.given)} graded by {self.judge}; {left} left." if self.tasks else "Nothing to judge.")

    def _show(self, task: Task, *, whole: bool) -> None:
        text = task.item.text if whole else task.item.text[:SHOWN]
        more = len(task.item.text) - len(text)
        lines = [f"--- {self.at + 1} of {len(self.tasks)}", f"Query: {task.query.text}", ""]
        lines += [task.item.title, ""] if task.item.title else []
        lines += [text, *([f"... {more:,} more characters: m shows them"] if more else [])]
        typer.echo(telling.printable("\n".join(lines)))

    def _answer(self) -> str:
        try:
            return str(typer.prompt(f"Grade ({KEYS})", prompt_suffix=": ", default="", show_default=False)).strip()
        except typer.Abort:  # the end of what is typed, or Ctrl-C: both mean enough
            return "q"

    def _take(self, answer: str) -> None:
        key, _, note = answer.partition(" ")
        if key in {"0", "1", "2", "3"}:
            self._grade(int(key), note.strip())
        elif key == "s":
            self.at += 1
        elif key == "u":
            self._undo()
        elif key != "m":
            telling.say(f"{answer!r:.40} is no grade: {KEYS}.")

    def _grade(self, grade: int, note: str) -> None:
        from core import bridge
        from evals.judging import judgements as judging

        task = self.tasks[self.at]
        made = judging.Judgement(task.query.id, task.item.id, self.judge, grade, task.item.version, note=note)
        self.given.append((self.at, bridge.run(judging.give(self.store, self.collection, [made]))))
        self.at += 1

    def _undo(self) -> None:
        """The last grade of this sitting, or of the one before."""
        from core import bridge
        from core.store.trash_entries import day, retention
        from evals.judging import judgements as judging

        place, before = self.given.pop() if self.given else (self.at, [])
        undone = bridge.run(judging.undo(self.store, self.collection, self.judge, before=before))
        self.at = place
        if undone is None:
            telling.say("There is nothing to take back.")
        else:
            sentence = f"Taken back: {undone.grade} for {undone.item_id!r} under {undone.query_id!r}."
            telling.say(f"{sentence} It is in the trash until {day(datetime.now(UTC) + retention())}: rankbook trash")
