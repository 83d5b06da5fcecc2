"""What an attached table lacks: indexes to be made by its owner, and what can be built aside in our own schema."""

from __future__ import annotations

import html
from collections.abc import Iterable

import streamlit as st

from core import bridge
from core.errors import RankbookError
from core.store import attached
from core.store.attached import Advice, Attachment
from core.store.collections import CollectionView
from core.store.engine import Store
from workbench.behind.collections import work as collections_work
from workbench.behind.collections.shown import many
from workbench.ui import errors
from workbench.ui.collections import notes
from workbench.ui.collections.refused import asked_for


def draw(store: Store, view: CollectionView) -> None:
    notes.note(
        "An attached table is only ever read",
        "It gets no chunks and no vectors here. What bm25 and fuzzy search need can be built aside, and its owner can "
        "give it indexes.",
    )
    left, right = st.columns(2, gap="large")
    with left:
        _aside(store, view, Attachment.of(view))
    with right, errors.shown():
        st.html("<h3>Indexes that would help</h3>")
        with st.spinner("Asking the planner"):
            given = bridge.run(attached.advice(store, view))
        advice(given)


def _aside(store: Store, view: CollectionView, attachment: Attachment) -> None:
    st.html(
        "<h3>Aside</h3><p>Lexemes, postings and vocabulary of its rows, in a schema of our own. They stand for the "
        "rows as they were when it was built.</p>"
    )
    there = attachment.aside
    if there is not None:
        st.html(
            f'<p class="rb-summary">Built of {many(there.rows, "row")} on {there.built_at:%Y-%m-%d at %H:%M} UTC.</p>'
        )
        with errors.shown():
            if late := bridge.run(attached.staleness_sentence(store, view)):
                st.html(f'<p class="rb-report">{errors.as_html(late)}</p>')
    with st.container(horizontal=True):
        if there is not None:
            st.button(
                "Refresh",
                key="aside.refresh",
                icon=":material/sync:",
                help="Takes in rows that are new, redoes those that have changed, removes those that are gone.",
                on_click=asked_for(lambda: collections_work.refresh(store, view.name)),
            )
        st.button(
            "Build it again" if there else "Build aside",
            key="aside.build",
            icon=":material/construction:",
            on_click=asked_for(lambda: collections_work.aside(store, view.name)),
        )
        if there is not None:
            with st.popover("Remove it", icon=":material/delete:"):
                st.html("<p>bm25 and fuzzy search do without then. The table stays as it is.</p>")
                st.button("Remove what is aside", key="aside.drop", on_click=_drop, args=(store, view))


def _drop(store: Store, view: CollectionView) -> None:
    try:
        bridge.run(attached.drop_side_tables(store, view))
    except RankbookError as error:
        st.session_state["collections.refused"] = error


def advice(given: Iterable[Advice]) -> None:
    """Statements to copy; none is run here."""
    given = list(given)
    if not given:
        notes.say("None: every search finds an index that serves it.")
    for each in given:
        st.html(f'<p class="rb-report"><strong>{html.escape(each.subject)}</strong>: {errors.as_html(each.why)}</p>')
        if each.statement:
            st.code(each.statement, language="sql", wrap_lines=True)
