"""What came of attaching a table, and of queries and labels that were brought to a collection."""

from __future__ import annotations

import html
from collections.abc import Sequence

import streamlit as st

from core.store.attached import Attachment, TableDifference
from core.store.collections import CollectionView
from core.types import Flaw
from evals.collections.load_labels import LoadReport
from evals.labels.query_generation import AddedQueries
from workbench.behind.collections.asking import Made
from workbench.behind.collections.attaching import Attached, told_difference
from workbench.behind.collections.shown import many
from workbench.ui import textgrid
from workbench.ui.collections import aside as collections_aside
from workbench.ui.collections.remarks import flaws, plain
from workbench.ui.collections.state import go
from workbench.ui.textgrid import Column, Line


def attached(name: str, result: Attached) -> None:
    labels = ""
    if result.labels is not None:
        labels = f" {many(result.labels.queries, 'query', 'queries')}, {many(result.labels.labels, 'label')}."
    _say(f"{result.name} is attached to {result.table}.{labels}")
    st.button(
        "Show it", key=f"show.attached.{name}", on_click=go, kwargs={"collection": name}, icon=":material/visibility:"
    )
    if result.labels is not None:
        _remarks("attached", name, result.labels.flaws)
    if result.advice:
        with st.expander(f"{many(len(result.advice), 'index', 'indexes')} would help"):
            collections_aside.advice(result.advice)


def built(_: str, view: CollectionView) -> None:
    there = Attachment.of(view).aside
    _say(f"Built of {many(there.rows, 'row')}: bm25 and fuzzy search work now." if there else "There is none.")


def refreshed(_: str, result: tuple[CollectionView, TableDifference]) -> None:
    _say(told_difference(*result))


def labelled(name: str, added: LoadReport) -> None:
    splits = ", ".join(f"{split} {count:,}" for split, count in added.splits.items())
    _say(
        f"{many(added.queries, 'query', 'queries')}, {many(added.labels, 'label')}"
        f"{f' (labelled queries by split: {splits})' if splits else ''}."
    )
    if added.change is not None and added.change.before.queries:
        _say(f"{added.change.sentence}. Under Queries this can be undone.")
    _remarks("labelled", name, added.flaws)


def written(name: str, result: AddedQueries) -> None:
    _say(f"{many(result.added, 'query', 'queries')} added; {result.queries:,} in {result.name}.")
    _show("written", name, result.name)
    _remarks("written", name, result.flaws)


def made(name: str, result: Made) -> None:
    queries, unfit = result.made.labelled.queries, result.made.unfit
    left_out = f" {many(unfit, 'document')} had not the words for one." if unfit else ""
    _say(f"{many(len(queries), 'query', 'queries')} in {result.query_set}.{left_out}")
    _show("made", name, result.query_set)
    lines = [Line(query.id, (query.text, query.id)) for query in result.first]
    columns = (Column("the first queries", long=True), Column("id", wide=True))
    with st.expander("The first of them"):
        textgrid.draw(f"made.{name}", "The first queries", columns, lines, low=True)


def _say(sentence: str) -> None:
    st.html(f'<p class="rb-report">{html.escape(sentence)}</p>')


def _show(how: str, name: str, query_set: str) -> None:
    st.button(
        "Show them",
        key=f"show.{how}.{name}",
        on_click=_shown,
        args=(name, query_set),
        icon=":material/visibility:",
    )


def _shown(name: str, query_set: str) -> None:
    go(collection=name)
    go(view="queries", set=query_set)


def _lost(found: Sequence[Flaw]) -> bool:
    return any(flaw.outcome == "quarantined" for flaw in found)


def _remarks(how: str, name: str, found: Sequence[Flaw]) -> None:
    if found:
        with st.expander(f"{many(len(found), 'remark')} on the input", expanded=_lost(found)):
            flaws(f"remarks.{how}.{name}", plain(found), len(found))
