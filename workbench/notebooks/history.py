"""A notebook's file as it is edited: every change is saved at once, has a name, and can be undone.

Owns what happens when two change the same thing: windows of this workbench, or another program on disk. Runs nothing.
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

MOST_CHANGES = 100  # that can be undone
Edit = Callable[[Notebook], tuple[Notebook, str]]  # the changed notebook, and the part that is to be shown


class EditConflict(InputError):
    """The part that was being edited has been changed elsewhere. The caller keeps what was typed."""

    def __init__(self) -> None:
        super().__init__(
            "This was changed in another window while you were typing, so nothing was saved. Your text is still here: "
            "save it over the other one, or take that one."
        )


@dataclass(frozen=True, slots=True)
class Change:
    """A change that can be undone: its name, and the notebook before it."""

    number: int
    label: str
    before: Notebook


class EditHistory:
    """One file, for all windows of this process that edit it."""

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
        """The change that Undo takes back."""
        return self._changes[-1] if self._changes else None

    def write(self, label: str, edit: Edit) -> str:
        """Apply the edit to the notebook as it is now, and save it."""
        with self.lock:
            before = self.notebook
            after, part = edit(before)
            if after != before:
                self._save(after)
                self._remember(label, before)
            return part

    def undo(self, number: int) -> None:
        """Undo the change of that number, if it is still the last one."""
        with self.lock:
            last = self.last
            if last is None or last.number != number:
                raise InputError("The notebook was changed in another window meanwhile, so nothing was taken back.")
            self._save(last.before)
            self._changes.pop()

    def read_again(self) -> None:
        """Take over what is on disk. Undo brings back what was here."""
        with self.lock:
            before = self.unsaved or self.notebook
            self.file = files.read_notebook(self.file.path, like=before)
            self.unsaved = None
            if self.notebook.text != before.text:
                self._remember("reading it again", before)

    def write_over(self, seen: bytes | None) -> None:
        """Save what is here over what is on disk, if that is still what was seen. Undo brings that back.

        `seen` is its digest; None where the file was removed.
        """
        with self.lock:
            here, path = self.unsaved or self.notebook, self.file.path
            if seen is None:
                self.file = files.create_notebook(path, here)
            else:
                on_disk = files.read_notebook(path, like=here)
                self.file = files.save_notebook(replace(on_disk, digest=seen), here)
                self._remember("writing over the file", on_disk.notebook)
            self.unsaved = None

    def follow(self) -> None:
        """Take over what is on disk where nothing was changed here, so that nothing can be lost."""
        with self.lock:
            self.file = files.read_notebook(self.file.path, like=self.notebook)

    def _save(self, notebook: Notebook) -> None:
        try:
            self.file = files.save_notebook(self.file, notebook)
        except ChangedOnDisk:
            self.unsaved = notebook
            raise
        self.unsaved = None

    def _remember(self, label: str, before: Notebook) -> None:
        self._number += 1
        self._changes = [*self._changes, Change(self._number, label, before)][-MOST_CHANGES:]


# -- edits -------------------------------------------------------------------------------------------------------------


def replace_text(identity: str, text: str, began: str) -> Edit:
    """Another source of a cell, or another text as prose. `began` is what it was when the editing began."""

    def edit(notebook: Notebook) -> tuple[Notebook, str]:
        part = notebook[identity]
        if editable_text(part) != began:
            raise EditConflict
        if not isinstance(part, Prose):
            return notebook.replace(identity, text), identity
        middle = part.text.strip("\r\n")  # the blank lines around prose, and its line ends, stay as they are
        before, _, after = part.text.partition(middle) if middle else ("", "", "")
        end = "\r\n" if "\r\n" in part.text else "\n"
        prose = unified(text).strip("\n").replace("\n", end)
        return notebook.replace(identity, f"{before}{prose}{after or end}"), identity

    return edit


def insert_before(kind: str, source: str, before: str | None) -> Edit:
    """A new part before another, or at the end."""
    return lambda notebook: notebook.insert(kind, source, before=before)


def insert_after(kind: str, source: str, identity: str) -> Edit:
    """A new part right behind another, or at the end where that one is gone."""

    def edit(notebook: Notebook) -> tuple[Notebook, str]:
        shown = [part.id for part in notebook.shown]
        at = shown.index(identity) + 1 if identity in shown else len(shown)
        return notebook.insert(kind, source, before=shown[at] if at < len(shown) else None)

    return edit


def delete(identity: str) -> Edit:
    return lambda notebook: (notebook.delete(identity), "")


def duplicate(identity: str) -> Edit:
    return lambda notebook: notebook.duplicate(identity)


def move(identity: str, steps: int) -> Edit:
    """So many places further down among what is shown, or up where that is negative."""

    def edit(notebook: Notebook) -> tuple[Notebook, str]:
        shown = [part.id for part in notebook.shown]
        at = shown.index(notebook[identity].id)
        others = [each for each in shown if each != identity]
        place = min(max(at + steps, 0), len(others))
        before = others[place] if place < len(others) else None
        return (notebook if place == at else notebook.move(identity, before=before)), identity

    return edit


def rename(identity: str, name: str) -> Edit:
    """A cell under another name, or under none. Links and the command line know a cell by its name."""

    def edit(notebook: Notebook) -> tuple[Notebook, str]:
        cell = notebook[identity]
        if not isinstance(cell, Cell) or name == cell.name:
            return notebook, identity
        if name and not NAME.match(name):
            raise InputError(f"A cell's name is letters, digits, - and _, which {name!r:.80} is not.")
        if name and any(each.name == name for each in notebook.cells):
            raise InputError(f"Another cell is called {name!r} already.")
        words = rf"{re.escape(cell.kind)}(?:[ \t]+{re.escape(cell.name)})?" if cell.name else re.escape(cell.kind)
        opening = re.sub(rf"{words}(?=[ \t]*[\r\n]*\Z)", f"{cell.kind} {name}".strip(), cell.opening, count=1)
        taken = {part.id for part in notebook.parts} - {identity}
        renamed = named(replace(cell, name=name, opening=opening), taken)
        return Notebook(tuple(renamed if part.id == identity else part for part in notebook.parts)), renamed.id

    return edit


def editable_text(part: Part) -> str:
    """What one edits of a part: a cell's lines, or prose without the blank lines around it."""
    return unified(part.text).strip("\n") if isinstance(part, Prose) else part.source
