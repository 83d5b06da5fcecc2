"""The page Notebook: a Markdown file whose cells search, score and compare, in a column."""

from __future__ import annotations

import streamlit as st

from core.errors import RankbookError
from core.store.engine import Store
from evals.presentation import palette
from workbench.components import feedback, theme
from workbench.components.page import WorkbenchPage
from workbench.components.theme import asset
from workbench.notebooks import files, session
from workbench.notebooks.files import own_folder
from workbench.notebooks.session import NotebookSession
from workbench.screens.notebook import actions, cell, keyboard, state, toolbar
from workbench.services import permissions, search

FIRST = "tour"
AT_ONCE = 0.15  # seconds before the page says that it looks up what was computed before


def render(store: Store) -> None:
    st.html(f"<style>{asset('screens/notebook/notebook.css')}</style>")
    session = _desk(store)
    if session is None:
        return
    with st.empty(), st.spinner("Looking up what was computed before"):
        session.look()
    said = toolbar.waiting(session)
    actions.drawn(session)
    name = cell.css_name(state.current().cell or "-")
    st.html(f"<style>.st-key-part-{name} {{ --rb-at: light-dark(#33475f, #a9bdd6); }}</style>")
    toolbar.draw(session, said)
    theme.in_view(palette.styles_of(state.output for state in session.states()))
    with st.container(key="book"):
        _where(session)
        for part in session.notebook.shown:
            if permissions.may_edit(store):
                keyboard.between(session, part.id)
            cell.draw(session, part)
        if not session.notebook.cells:
            st.html(
                '<div class="rb-nothing">There are no cells yet. A <b>search</b> cell asks one query of several '
                "variants side by side; an <b>evaluate</b> cell scores variants over all labelled queries; "
                "<b>fusion</b> looks for weights. Add one with the plus below.</div>"
            )
        if permissions.may_edit(store):
            keyboard.between(session, None)
    keyboard.listen(session)
    keyboard.dialogs(session)
    keyboard.follow()
    if session.stale and (model := session.model):
        search.preload_model(model)  # while one reads what there is to run


def _desk(store: Store) -> NotebookSession | None:
    """The notebook that the address names."""
    wanted = state.current().notebook or FIRST
    try:
        return session.session_for(store, own_folder().find(wanted))
    except RankbookError as error:
        feedback.draw_error(error)
        names = [*own_folder().own(), *files.shipped_names()]
        st.selectbox(
            "Notebook",
            names,
            index=None,
            key="book.other",
            placeholder="Choose another",
            on_change=lambda: state.go(state.NotebookState(st.session_state["book.other"] or "")),
        )
        return None


def _where(session: NotebookSession) -> None:
    if not permissions.may_edit(session.store):
        said = (
            "You may run all of this. What it comes to is shared with the others who only look, and is not kept. "
            "Editors change notebooks."
        )
        st.html(f'<p class="rb-draft">{said}</p>')
    elif session.shipped and not own_folder().own():
        said = "You have no notebook of your own yet. Run this one as it is; what you change in it is kept in a copy."
        st.html(f'<p class="rb-draft">{said}</p>')


PAGE = WorkbenchPage("Notebook", ":material/menu_book:", render)
