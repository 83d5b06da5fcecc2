"""The query sets of a collection: all of them in a list, one of them chosen, one of them dropped."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Final

import streamlit as st

from core import bridge
from core.store.collections import CollectionView
from core.store.engine import Store
from core.store.trash_entries import retention
from evals.labels import query_sets
from evals.labels.query_sets import QuerySetSummary
from evals.types import DEFAULT_QUERY_SET
from workbench.behind.collections.shown import many
from workbench.ui import deleted, errors, textgrid
from workbench.ui.collections.asking import Question
from workbench.ui.collections.state import chooser, current, go
from workbench.ui.textgrid import Column, Line

WIDTH: Final = 420  # pixels, where there are as many
_dropping: Final = Question("sets.asking", "Drop the query set?")
COLUMNS: Final = (
    Column("query set"),
    Column("queries", right=True),
    Column("labelled", "Queries that have a label: only these can be scored.", right=True),
    Column("labels", "Judgements: a query, a document and a grade.", right=True),
    Column("changed", "Coordinated universal time.", wide=True),
)


def listed(store: Store, view: CollectionView) -> list[QuerySetSummary]:
    return bridge.run(query_sets.summaries(store, view.name))


def chosen() -> str:
    """The set that the address names, or the usual one."""
    return current().set or DEFAULT_QUERY_SET


def draw(sets: Sequence[QuerySetSummary]) -> None:
    """All there are. Opened, one shows its queries."""
    lines = [
        Line(
            each.name,
            (
                each.name,
                f"{each.queries:,}",
                f"{each.labelled:,}",
                f"{each.labels:,}",
                f"{each.changed:%Y-%m-%d %H:%M}",
            ),
        )
        for each in sets
    ]
    textgrid.draw(
        "about.sets",
        "Query sets",
        COLUMNS,
        lines,
        selected=current().set,
        opened=lambda name: go(view="queries", set=name),
        low=True,
    )


def pick(sets: Sequence[QuerySetSummary]) -> QuerySetSummary | None:
    """The choice among them; None where the address names one that is not there, which is said."""
    found = next((each for each in sets if each.name == chosen()), None)
    if found is None and current().set:
        there = ", ".join(f"`{each.name}`" for each in sets) or "none"
        st.html(
            f'<div class="rb-box rb-complaint" role="alert"><strong>There is no such query set</strong><p>'
            f"{errors.as_html(f'{current().set!r} is not among them. There are: {there}.')}</p></div>"
        )
    if sets and (len(sets) > 1 or found is None):
        names = [each.name for each in sets]
        chooser("Query set", "set", names, chosen(), named=_with_counts(sets).__getitem__, width=WIDTH)
    return found


def _with_counts(sets: Sequence[QuerySetSummary]) -> dict[str, str]:
    return {each.name: f"{each.name}: {many(each.queries, 'query', 'queries')}" for each in sets}


def teach() -> None:
    """What it would take to have some."""
    st.html(
        '<div class="rb-nothing">There are no queries, so variants can be looked at but not scored. Write some, make '
        "them of the documents' own words, or bring labels that somebody has.</div>"
    )
    st.button("Add queries or labels", key="sets.teach", icon=":material/add:", on_click=go, kwargs={"view": "ask"})


# -- dropped -----------------------------------------------------------------------------------------------------------


def drop(view: CollectionView, found: QuerySetSummary) -> None:
    """The button, and the question that it asks."""
    st.button(
        "Drop this set",
        key="sets.drop",
        icon=":material/delete:",
        on_click=_dropping.ask,
        args=(f"{view.name}\n{found.name}",),
    )


def draw_question(store: Store, view: CollectionView, found: QuerySetSummary) -> None:
    """Outside of fragments, as a dialog has to be."""
    if _dropping.about == f"{view.name}\n{found.name}":
        _confirm(store, view, found)


@_dropping.dialog
def _confirm(store: Store, view: CollectionView, found: QuerySetSummary) -> None:
    with errors.shown():
        st.html(
            f"<p><strong>{html.escape(found.name)}</strong> of {html.escape(view.name)}: its "
            f"{many(found.queries, 'query', 'queries')} and {many(found.labels, 'label')} go into the trash, and can "
            f"be brought back for <strong>{many(retention().days, 'day')}</strong>; documents, judgements and kept "
            "runs stay.</p>"
        )
        if st.button("Drop it", key="sets.gone", type="primary"):
            entry = bridge.run(query_sets.drop(store, view.name, found.name, by=deleted.person()))
            deleted.note(store, "collections", f"{view.name}: {found.name} is gone.", [entry])
            go(set="")
            _dropping.answered()
