"""The notebooks that are open in this process, each found by its file, so that all windows share one desk."""

from __future__ import annotations

import threading
from pathlib import Path

from core.store.engine import Store
from workbench.book.desk import Desk
from workbench.book.document import Notebook
from workbench.book.shelf import Found, Shelf

_desks: dict[tuple[str, Path], Desk] = {}
_opening = threading.Lock()


def at(store: Store, found: Found) -> Desk:
    """The desk of that notebook, opened at the first call."""
    with _opening:
        key = (store.where, found.path.resolve())
        if key not in _desks:
            _desks[key] = Desk(store, found)
        return _desks[key]


def copied(desk: Desk, shelf: Shelf, name: str, notebook: Notebook | None = None) -> Desk:
    """A new notebook of that name, like another one and with its outputs."""
    made = at(desk.store, shelf.find(desk.copied(shelf, name, notebook)))
    made.adopt(desk)
    return made


def forget(desk: Desk) -> None:
    """So that it is opened anew, as it is on disk."""
    with _opening:
        for key in [key for key, each in _desks.items() if each is desk]:
            del _desks[key]
