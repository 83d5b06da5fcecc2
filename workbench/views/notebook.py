"""The notebook page: a Markdown file whose cells search, score and compare, in a column."""

from __future__ import annotations

import streamlit as st

from core.errors import RankbookError
from core.store.engine import Store
from evals.presentation import palette
from workbench.behind.search import finding
from workbench.notebooks import files, session
from workbench.notebooks.files import shelf
from workbench.notebooks.session import NotebookSession
from workbench.ui import errors, may, place
from workbench.ui.notebook import acts as notebook_acts
from workbench.ui.notebook import add as notebook_add
from workbench.ui.notebook import bar as notebook_bar
from workbench.ui.notebook import cell as notebook_cell
from workbench.ui.notebook import keys as notebook_keys
from workbench.ui.notebook import said as notebook_said
from workbench.ui.outputs import colours
from workbench.ui.theme import read

FIRST = "tour"
AT_ONCE = 0.15  # seconds before the page says that it looks up what was computed before


def render(store: Store) -> None:
    st.html(f"<style>{read('notebook/notebook.css')}</style>")
    desk = _desk(store)
    if desk is None:
        return
    with st.empty(), st.spinner("Looking up what was computed before"):
        desk.look()
    said = notebook_said.waiting(desk)
    notebook_acts.drawn(desk)
    _at()
    notebook_bar.draw(desk, said)
    colours.in_view(palette.styles_of(result.output for result in desk.results()))
    with st.container(key="book"):
        _where(desk)
        for part in desk.notebook.shown:
            if may.edit(store):
                notebook_add.between(desk, part.id)
            notebook_cell.draw(desk, part)
        if not desk.notebook.cells:
            _teach()
        if may.edit(store):
            notebook_add.between(desk, None)
    notebook_keys.listen(desk)
    notebook_keys.dialogs(desk)
    notebook_keys.follow()
    if desk.stale and (model := desk.model):
        finding.warm(model)  # while one reads what there is to run


def _desk(store: Store) -> NotebookSession | None:
    """The notebook that the address names."""
    wanted = place.current().notebook or FIRST
    try:
        return session.at(store, shelf().find(wanted))
    except RankbookError as error:
        errors.draw(error)
        names = [*shelf().own(), *files.shipped_names()]
        st.selectbox(
            "Notebook",
            names,
            index=None,
            key="book.other",
            placeholder="Choose another",
            on_change=lambda: place.go(place.NotebookState(st.session_state["book.other"] or "")),
        )
        return None


def _at() -> None:
    """Mark the part one is at. Always one element, so that nothing below it is drawn anew."""
    name = notebook_cell.css_name(place.current().cell or "-")
    st.html(f"<style>.st-key-part-{name} {{ --rb-at: light-dark(#33475f, #a9bdd6); }}</style>")


def _where(desk: NotebookSession) -> None:
    if not may.edit(desk.store):
        said = (
            "You may run all of this. What it comes to is shared with the others who only look, and is not kept. "
            "Editors change notebooks."
        )
        st.html(f'<p class="rb-draft">{said}</p>')
    elif desk.shipped and not shelf().own():
        said = "You have no notebook of your own yet. Run this one as it is; what you change in it is kept in a copy."
        st.html(f'<p class="rb-draft">{said}</p>')


def _teach() -> None:
    st.html(
        '<div class="rb-nothing">There are no cells yet. A <b>search</b> cell asks one query of several variants side '
        "by side; an <b>evaluate</b> cell scores variants over all labelled queries; <b>fusion</b> looks for weights. "
        "Add one with the plus below.</div>"
    )
