"""Where one is in a notebook, as the address bar says it: the notebook, a cell, and what is looked at in that cell.

The address is the only truth, as on the other pages: a link opens the same view, and the browser's way back works.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, replace

import streamlit as st

from workbench.behind.addressed import Addressed

MOVED = "place.moved"
UNDER_WAY = 0.6  # seconds until the browser knows of a move for certain


@dataclass(frozen=True)
class Place(Addressed):
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

    def within(self, cell: str) -> Place:
        """As that cell sees it: another's selection is none of its own."""
        return self if self.cell == cell else Place(self.notebook, cell)


def current() -> Place:
    """What the address says.

    A run that the browser asked for by its clock, before it heard of a move, still brings the address from before: it
    must not undo the move.
    """
    said = Place.of(st.query_params)
    before, after, at = st.session_state.get(MOVED, (said, said, 0.0))
    if said == before != after and time.monotonic() - at < UNDER_WAY:
        st.query_params.from_dict(after.parameters())
        return Place(**asdict(after))
    return said


def go(place: Place) -> None:
    """Move there. In a callback, so that the run that follows sees it from its first line."""
    st.session_state[MOVED] = (Place.of(st.query_params), place, time.monotonic())
    st.query_params.from_dict(place.parameters())


def select(cell: str, **fields_: str) -> None:
    """Look at something in a cell, which becomes the one that one is at."""
    go(replace(current().within(cell), **fields_))
