"""Where one is in a notebook, as the address bar says it: the notebook, a cell, and what is looked at in that cell.

The address is the only truth, as on the other pages: a link opens the same view, and the browser's way back works.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from workbench.components import url_state
from workbench.services.url_state import UrlState


@dataclass(frozen=True)
class NotebookState(UrlState):
    """All of it text; empty is none. All but the first two belong to the cell and go with it."""

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
        """As that cell sees it: another's selection is none of its own."""
        return self if self.cell == cell else NotebookState(self.notebook, cell)


def current() -> NotebookState:
    """What the address says."""
    return NotebookState.of(url_state.said())


def go(place: NotebookState) -> None:
    """Move there. In a callback, so that the run that follows sees it from its first line."""
    url_state.move_to(place.parameters())


def select(cell: str, **fields_: str) -> None:
    """Look at something in a cell, which becomes the one that one is at."""
    go(replace(current().within(cell), **fields_))
