"""The notebook page: a Markdown file whose cells search, score and compare, in a column."""

from __future__ import annotations

import streamlit as st

from core.errors import RankbookError
from core.store.engine import Store
from workbench.components import feedback, theme
from workbench.components.page import Page
from workbench.components.theme import asset
from workbench.notebooks import files, named, session
from workbench.notebooks.files import shelf
from workbench.notebooks.session import NotebookSession
from workbench.screens.notebook import actions as notebook_acts
from workbench.screens.notebook import cell as notebook_cell
from workbench.screens.notebook import keyboard as notebook_add
from workbench.screens.notebook import keyboard as notebook_keys
from workbench.screens.notebook import state
from workbench.screens.notebook import toolbar as notebook_bar
from workbench.screens.notebook import toolbar as notebook_said
from workbench.services import permissions, search

FIRST = "tour"
AT_ONCE = 0.15  # seconds before the page says that it looks up what was computed before


def render(store: Store) -> None:
    st.html(f"<style>{asset('screens/notebook/notebook.css')}</style>")
    desk = _desk(store)
    if desk is None:
        return
    with st.empty(), st.spinner("Looking up what was computed before"):
        desk.look()
    said = notebook_said.waiting(desk)
    notebook_acts.drawn(desk)
    _at()
    notebook_bar.draw(desk, said)
    theme.in_view(named.styles(result.output for result in desk.results()))
    with st.container(key="book"):
        _where(desk)
        for part in desk.notebook.shown:
            if permissions.may_edit(store):
                notebook_add.between(desk, part.id)
            notebook_cell.draw(desk, part)
        if not desk.notebook.cells:
            _teach()
        if permissions.may_edit(store):
            notebook_add.between(desk, None)
    notebook_keys.listen(desk)
    notebook_keys.dialogs(desk)
    notebook_keys.follow()
    if desk.stale and (model := desk.model):
        search.warm(model)  # while one reads what there is to run


def _desk(store: Store) -> NotebookSession | None:
    """The notebook that the address names."""
    wanted = state.current().notebook or FIRST
    try:
        return session.at(store, shelf().find(wanted))
    except RankbookError as error:
        feedback.draw_error(error)
        names = [*shelf().own(), *files.shipped_names()]
        st.selectbox(
            "Notebook",
            names,
            index=None,
            key="book.other",
            placeholder="Choose another",
            on_change=lambda: state.go(state.NotebookState(st.session_state["book.other"] or "")),
        )
        return None


def _at() -> None:
    """Mark the part one is at. Always one element, so that nothing below it is drawn anew."""
    name = notebook_cell.css_name(state.current().cell or "-")
    st.html(f"<style>.st-key-part-{name} {{ --rb-at: light-dark(#33475f, #a9bdd6); }}</style>")


def _where(desk: NotebookSession) -> None:
    if not permissions.may_edit(desk.store):
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


PAGE = Page("Notebook", ":material/menu_book:", render)
