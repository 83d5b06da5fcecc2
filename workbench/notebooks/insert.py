"""A cell that another page puts into a notebook."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from core.store import roles
from core.store.engine import Store
from workbench.notebooks import session
from workbench.notebooks.document import Notebook
from workbench.notebooks.files import shelf

KIND: Final = "evaluate"
NOTEBOOK: Final = "weights"  # what a new one is called


@dataclass(frozen=True, slots=True)
class CellLocation:
    """Where a cell was put."""

    notebook: str
    cell: str


def source(where: Mapping[str, str], metric: str, references: Sequence[Any]) -> str:
    """The source of a cell that scores these side by side, the first being what the others are compared with.

    References are names, or tables as TOML writes them on one line.
    """
    import tomlkit

    variants = tomlkit.array()
    variants.extend(references)
    given = {name: value for name, value in where.items() if value}
    return tomlkit.dumps({**given, "variants": variants, "metrics": [metric]})


def notebooks() -> list[str]:
    """Those that a cell can be put into."""
    return shelf().own()


def place(store: Store, notebook: str, text: str) -> CellLocation:
    """Put the cell at the end of that notebook, or of a new one where none is named, and have it run."""
    roles.refuse_reader(store, "change notebooks")
    own = shelf()
    if not notebook:
        notebook = own.free(NOTEBOOK)
        own.create(notebook, Notebook.parse("# Which weights?\n"))
    desk = session.at(store, own.find(notebook))
    cell = desk.change(f"new {KIND}", lambda book: book.insert(KIND, text))
    desk.run([cell])
    return CellLocation(notebook, cell)
