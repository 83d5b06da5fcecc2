"""What a view of a cell's output draws from.

A view draws plain values; what it asks for live goes through the cell's own context. Changes of a cell are changes of
its TOML, made and saved by the page that shows it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from evals.presentation.types import Output
from workbench.notebooks.cells import CellSpec
from workbench.notebooks.cells.base import CellContext
from workbench.notebooks.document import Cell
from workbench.ui import place
from workbench.ui.place import NotebookState


@dataclass(frozen=True, slots=True)
class CellView:
    """A cell with what it gave, as its view sees it. `stale` says what moved on since.

    `change` sets options of the cell (None takes one away), keeps the rest of its TOML as it is, and runs it; `add`
    puts a cell of a kind and source behind it, goes there and runs it. Both are for callbacks, and can be undone.
    """

    cell: Cell
    spec: CellSpec
    output: Output
    context: CellContext
    stale: tuple[str, ...]
    change: Callable[[dict[str, Any]], None]
    add: Callable[[str, str], None]

    def key(self, name: str) -> str:
        """A key for a widget of this cell."""
        return f"cell.{self.cell.id}.{name}"

    @property
    def selected(self) -> NotebookState:
        """What is looked at in this cell, as the address says it."""
        return place.current().within(self.cell.id)

    def select(self, **fields: str) -> None:
        """Look at something in it: a field of the place, by its name. In a callback."""
        place.select(self.cell.id, **fields)


View = Callable[[CellView], None]
