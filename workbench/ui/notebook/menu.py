"""The buttons of a part of a notebook: run, edit, and a menu of all that can be done to it. The acts do it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import streamlit as st

from workbench.notebooks import history
from workbench.notebooks.cell_state import CellState
from workbench.notebooks.document import Cell, Part
from workbench.notebooks.history import Edit
from workbench.notebooks.session import NotebookSession
from workbench.notebooks.shared import HEADER
from workbench.ui import place
from workbench.ui.notebook import acts as notebook_acts

Menu = dict[str, Callable[[], object]]


def run_button(desk: NotebookSession, cell: Cell, state: CellState) -> None:
    under_way = state.state in ("running", "waiting")
    if under_way:
        st.button("Stop", key=f"stop-{cell.id}", icon=":material/stop_circle:", on_click=desk.stop)
        return
    st.button(
        "Run",
        key=f"run-{cell.id}",
        icon=":material/play_arrow:",
        type="secondary" if state.state == "fresh" else "primary",
        help="Run it anew." if state.state == "fresh" else "Run this cell.",
        on_click=run,
        args=(desk, cell.id),
    )


def run(desk: NotebookSession, identity: str) -> None:
    """Run a cell, with what is typed into it. What is fresh is run anew."""
    cell = desk.notebook[identity]
    notebook_acts.go(desk, identity)
    if notebook_acts.unsaved(desk, identity):
        notebook_acts.save(desk, identity, run=True)
    elif isinstance(cell, Cell) and cell.kind != HEADER:
        notebook_acts.start(desk, [identity], again=desk.state(cell).state == "fresh")


def edit_button(desk: NotebookSession, part: Part) -> None:
    opened = is_open(desk, part)
    st.button(
        "Close" if opened else "Edit",
        key=f"edit-{part.id}",
        icon=":material/close:" if opened else ":material/edit:",
        help="Close. What is typed stays." if opened else "Edit it.",
        type="tertiary",
        on_click=notebook_acts.close if opened else partial(notebook_acts.edit, desk, part.id),
    )


def is_open(desk: NotebookSession, part: Part) -> bool:
    return notebook_acts.editing()[:2] == (desk.name, part.id)


def menu(desk: NotebookSession, part: Part, more: Menu | None = None) -> None:
    named = notebook_acts.label(part)

    def change(what: str, edit: Edit) -> Callable[[], object]:
        return lambda: notebook_acts.act(desk, lambda own: own.change(what, edit))

    options: Menu = {
        **(more or {}),
        "Move up": change(f"move of {named}", history.move(part.id, -1)),
        "Move down": change(f"move of {named}", history.move(part.id, 1)),
        "Duplicate": change(f"copy of {named}", history.duplicate(part.id)),
        "Delete": lambda: notebook_acts.remove(desk, part),
    }
    if isinstance(part, Cell) and part.kind == HEADER:
        options = {"Delete": options["Delete"]}
    key = f"menu-{part.id}"

    def chosen() -> None:
        options[st.session_state[key]]()

    st.menu_button(
        "More",
        list(options),
        key=key,
        icon=":material/more_vert:",
        type="tertiary",
        help="More: move, duplicate, delete.",
        on_click=chosen,
    )


def more_of(desk: NotebookSession, cell: Cell, *, hidden: bool) -> Menu:
    """What can be done to a cell, beside what can be done to any part."""
    cells = [each.id for each in desk.notebook.cells]
    fold = notebook_acts.folded()
    here = (desk.name, cell.id)
    return {
        "Run to here": lambda: notebook_acts.start(desk, cells[: cells.index(cell.id) + 1]),
        "Show output" if hidden else "Hide output": lambda: fold.discard(here) if hidden else fold.add(here),
        "Rename": lambda: notebook_acts.edit(desk, cell.id, "name"),
        "Link to this cell": lambda: _link(desk, cell),
    }


def _link(desk: NotebookSession, cell: Cell) -> None:
    place.go(place.NotebookState(desk.name, cell.id))
    notebook_acts.notice("The address of this page now leads to that cell. Copy it from the browser's address bar.")
