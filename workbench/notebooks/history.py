"""A notebook's file as it is worked on: every change is saved at once, can be taken back, and says what it did.

Owns what happens when two want to change the same thing: windows of this workbench, or somebody else on disk. Nothing
is run here.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace

from core.errors import InputError
from workbench.notebooks import files
from workbench.notebooks.document import NAME, Cell, Notebook, Part, Prose, named, unified
from workbench.notebooks.files import ChangedOnDisk, NotebookFile

UNDONE_AT_MOST = 100
Edit = Callable[[Notebook], tuple[Notebook, str]]  # the changed notebook, and the part that is to be looked at


class HistoryStep(InputError):
    """Somebody changed the part that was being edited. What was typed is the caller's to keep."""

    def __init__(self) -> None:
        super().__init__(
            "This was changed in another window while you were typing, so nothing was saved. Your text is still here: "
            "save it over the other one, or take that one."
        )


@dataclass(frozen=True, slots=True)
class Change:
    """One that can be taken back: what it did, and the notebook before it."""

    number: int
    label: str
    before: Notebook


class EditHistory:
    """One file, for all who work on it in this process."""

    def __init__(self, file: NotebookFile) -> None:
        self.file = file
        self.unsaved: Notebook | None = None  # what could not be saved, because the file is not what it was
        self._changes: list[Change] = []
        self._number = 0
        self.lock = threading.RLock()

    @property
    def notebook(self) -> Notebook:
        return self.file.notebook

    @property
    def last(self) -> Change | None:
        """What Undo takes back."""
        return self._changes[-1] if self._changes else None

    def write(self, label: str, edit: Edit) -> str:
        """Save what the edit makes of the notebook as it is now."""
        with self.lock:
            before = self.notebook
            made, part = edit(before)
            if made == before:
                return part
            self._save(made)
            self._remember(label, before)
            return part

    def undo(self, number: int) -> None:
        """Take the change of that number back, if it is still the last one."""
        with self.lock:
            last = self.last
            if last is None or last.number != number:
                raise InputError("The notebook was changed in another window meanwhile, so nothing was taken back.")
            self._save(last.before)
            self._changes.pop()

    def read_again(self) -> None:
        """Take over what is on disk. What was here can be had back by undoing."""
        with self.lock:
            before = self.unsaved or self.notebook
            self.file = files.read_notebook(self.file.path, like=before)
            self.unsaved = None
            if self.notebook.text != before.text:
                self._remember("reading it again", before)

    def write_over(self, seen: bytes | None) -> None:
        """Save what is here over what is on disk, if that is still what was seen. It can be had back by undoing.

        `seen` is its digest; None where the file was removed.
        """
        with self.lock:
            kept, path = self.unsaved or self.notebook, self.file.path
            if seen is None:
                self.file = files.create_notebook(path, kept)
            else:
                on_disk = files.read_notebook(path, like=kept)
                self.file = files.save_notebook(replace(on_disk, digest=seen), kept)
                self._remember("writing over the file", on_disk.notebook)
            self.unsaved = None

    def follow(self) -> None:
        """Take over what is on disk where nothing was changed here: nothing can be lost by it."""
        with self.lock:
            self.file = files.read_notebook(self.file.path, like=self.notebook)

    def _save(self, made: Notebook) -> None:
        try:
            self.file = files.save_notebook(self.file, made)
        except ChangedOnDisk:
            self.unsaved = made
            raise
        self.unsaved = None

    def _remember(self, label: str, before: Notebook) -> None:
        self._number += 1
        self._changes = [*self._changes, Change(self._number, label, before)][-UNDONE_AT_MOST:]


# -- edits -------------------------------------------------------------------------------------------------------------


def rewritten(identity: str, text: str, began: str) -> Edit:
    """Another source, or another text as prose. `began` is what it was when the editing began."""

    def edit(notebook: Notebook) -> tuple[Notebook, str]:
        part = notebook[identity]
        if said(part) != began:
            raise HistoryStep
        return notebook.replace(identity, _spaced(part, text)), identity

    return edit


def inserted(kind: str, source: str, before: str | None) -> Edit:
    return lambda notebook: notebook.insert(kind, source, before=before)


def behind(kind: str, source: str, identity: str) -> Edit:
    """A new cell right behind another part."""
    return lambda notebook: notebook.insert(kind, source, before=_following(notebook, identity))


def deleted(identity: str) -> Edit:
    return lambda notebook: (notebook.delete(identity), "")


def duplicated(identity: str) -> Edit:
    return lambda notebook: notebook.duplicate(identity)


def moved(identity: str, steps: int) -> Edit:
    """So many places further down among what is shown, or up where that is negative."""

    def edit(notebook: Notebook) -> tuple[Notebook, str]:
        shown = [part.id for part in notebook.shown]
        at = shown.index(notebook[identity].id)
        others = [each for each in shown if each != identity]
        place = min(max(at + steps, 0), len(others))
        before = others[place] if place < len(others) else None
        return (notebook if place == at else notebook.move(identity, before=before)), identity

    return edit


def renamed(identity: str, name: str) -> Edit:
    """A cell under another name, or under none. By a name a cell is known in links and on the command line."""

    def edit(notebook: Notebook) -> tuple[Notebook, str]:
        cell = notebook[identity]
        if not isinstance(cell, Cell) or name == cell.name:
            return notebook, identity
        if name and not NAME.match(name):
            raise InputError(f"A cell's name is letters, digits, - and _, which {name!r:.80} is not.")
        if name and any(each.name == name for each in notebook.cells):
            raise InputError(f"Another cell is called {name!r} already.")
        taken = {part.id for part in notebook.parts} - {identity}
        made = named(replace(cell, name=name, opening=_opening(cell, name)), taken)
        return Notebook(tuple(made if part.id == identity else part for part in notebook.parts)), made.id

    return edit


def _opening(cell: Cell, name: str) -> str:
    words = rf"{re.escape(cell.kind)}(?:[ \t]+{re.escape(cell.name)})?" if cell.name else re.escape(cell.kind)
    return re.sub(rf"{words}(?=[ \t]*[\r\n]*\Z)", f"{cell.kind} {name}".strip(), cell.opening, count=1)


def said(part: Part) -> str:
    """What one edits of it: a cell's lines, or prose without the blank lines that set it apart."""
    return unified(part.text).strip("\n") if isinstance(part, Prose) else part.source


def _spaced(part: Part, text: str) -> str:
    """Prose with the blank lines and the line ends that it had."""
    if not isinstance(part, Prose):
        return text
    middle = part.text.strip("\r\n")
    before, _, after = part.text.partition(middle) if middle else ("", "", "")
    end = "\r\n" if "\r\n" in part.text else "\n"
    return f"{before}{unified(text).strip(chr(10)).replace(chr(10), end)}{after or end}"


def _following(notebook: Notebook, identity: str) -> str | None:
    shown = [part.id for part in notebook.shown]
    at = shown.index(identity) + 1 if identity in shown else len(shown)
    return shown[at] if at < len(shown) else None
