"""What is selected on the page Notebook, as its address holds it: the notebook, a cell, and what is open in that
cell.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from workbench.components import url_state
from workbench.services.url_state import UrlState


@dataclass(frozen=True)
class NotebookState(UrlState):
    """All fields but the first two belong to the cell."""

    notebook: str = ""
    cell: str = ""
    query: str = ""
    variant: str = ""
    metric: str = ""
    document: str = ""
    weights: str = ""
    against: str = ""
    kind: str = ""
    order: str = ""

    def within(self, cell: str) -> NotebookState:
        """The state for that cell: without what is selected in another."""
        return self if self.cell == cell else NotebookState(self.notebook, cell)


def current() -> NotebookState:
    """The state of the address."""
    return NotebookState.of(url_state.parameters())


def go(state: NotebookState) -> None:
    """Go there. For callbacks."""
    url_state.move_to(state.parameters())


def select(cell: str, **fields_: str) -> None:
    """Select something in a cell, and go to that cell."""
    go(replace(current().within(cell), **fields_))
