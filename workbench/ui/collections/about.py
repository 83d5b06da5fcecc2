"""One collection told: what it holds, how it is labelled, what its import found, and what it says of itself."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import streamlit as st

from core import bridge
from core.store.collections import CollectionView
from core.store.engine import Store
from evals.collections import overview
from evals.collections.overview import INTERRUPTED
from evals.labels.query_sets import QuerySetSummary
from evals.types import DEFAULT_QUERY_SET
from workbench.behind.collections import shown as collections_shown
from workbench.behind.collections import work as collections_work
from workbench.behind.collections.shown import LOOKS, CollectionSummary, many, told_bytes
from workbench.ui import textgrid
from workbench.ui.cards import shortened
from workbench.ui.collections import remarks
from workbench.ui.collections import sets as collections_sets
from workbench.ui.collections.refused import asked_for
from workbench.ui.collections.state import current, links_of
from workbench.ui.textgrid import Column, Line

KEPT: Final = 15  # seconds
LONGEST_CARD: Final = 20_000
LONGEST_ORIGIN: Final = 200


def head(store: Store, row: CollectionSummary) -> None:
    """Its name, its state, and where to go with it."""
    with st.container(horizontal=True, vertical_alignment="center", key="collections.title"):
        st.html(f'<h2 class="rb-name">{html.escape(row.name)}</h2>', width="content")
        links_of(row.name, labelled=bool(row.labels), query_set=current().set)
    if row.summary.state == INTERRUPTED:
        go_on = collections_work.refresh if row.attached else collections_work.resume
        st.html(
            '<div class="rb-box rb-note" role="note"><strong>Loading was interrupted</strong><p>What is there is whole '
            "and can be searched; the rest is missing. Going on costs nothing for what is there.</p></div>"
        )
        st.button(
            "Go on",
            key="collections.resume",
            icon=":material/play_arrow:",
            on_click=asked_for(lambda: go_on(store, row.name)),
        )


def draw(store: Store, view: CollectionView, row: CollectionSummary) -> None:
    sets = collections_sets.listed(store, view)
    chosen = collections_sets.chosen()
    told = _described(store.where, view.name, row.version, repr(sets), chosen, _store=store)
    _figures(row)
    _facts(view)
    attached = view.row.attached is not None
    if told["Chunk sets"] and not attached:
        st.html("<h3>Chunk sets and their models</h3>")
        _chunk_sets(told["Chunk sets"])
    _labels(told, sets)
    if sets or not attached:
        looks = LOOKS if chosen == DEFAULT_QUERY_SET and not attached else ("labels",)
        _report(view.name, told["Noted at import"], looks)
    if view.row.card:
        with st.expander("What it says of itself"):
            st.html(f'<pre class="rb-card">{html.escape(view.row.card[:LONGEST_CARD])}</pre>')


@st.cache_data(ttl=KEPT, max_entries=20, show_spinner="Counting")
def _described(where: str, name: str, version: int, sets: str, chosen: str, _store: Store) -> dict[str, Any]:  # noqa: ARG001 - the cache's key
    return bridge.run(overview.describe(_store, name, query_set=chosen))


def _figures(row: CollectionSummary) -> None:
    figures = {
        "documents": f"{row.summary.items:,}",
        "chunks": f"{row.chunks:,}",
        "queries": f"{row.summary.queries:,}",
        "labels": f"{row.labels:,}",
        "on disk": told_bytes(row.bytes),
        "changed (UTC)": f"{row.summary.changed:%Y-%m-%d %H:%M}",
    }
    made = "".join(f"<div><b>{value}</b><span>{name}</span></div>" for name, value in figures.items())
    st.html(f'<div class="rb-figures">{made}</div>')


def _facts(view: CollectionView) -> None:
    facts = {
        "Text search": view.row.language,
        "Fields for filters": ", ".join(view.row.fields) or "none",
        "From": shortened(collections_shown.told_origin(view), LONGEST_ORIGIN),
        "Version": f"{view.row.version:,}",
        **(collections_shown.told_mapping(view) if view.row.attached is not None else {}),
    }
    made = "".join(f"<dt>{html.escape(name)}</dt><dd>{html.escape(value)}</dd>" for name, value in facts.items())
    st.html(f'<dl class="rb-facts">{made}</dl>')


def _chunk_sets(rows: Sequence[Mapping[str, Any]]) -> None:
    columns = (
        Column("chunk set"),
        Column("cut by", long=True),
        Column("texts", "What a search can find.", right=True),
        Column(
            "words a text",
            "Lexemes of the text-search configuration, stop words left out, on average.",
            right=True,
            wide=True,
        ),
        Column("embedded by", long=True),
    )
    lines = [
        Line(
            row["name"],
            (
                row["name"],
                "whole documents" if row["name"] == "items" else _chunker(row["chunker"]),
                f"{row['texts']:,}",
                f"{row['words'] / row['texts']:,.0f}" if row["texts"] else "",
                row["models"] or "no model: no vectors",
            ),
        )
        for row in rows
    ]
    textgrid.draw("about.chunks", "Chunk sets", columns, lines)


def _chunker(written: str) -> str:
    import json

    return collections_shown.told_chunker(json.loads(written))


def _labels(told: Mapping[str, Any], sets: Sequence[QuerySetSummary]) -> None:
    """How queries and labels are spread, or what it would take to have some."""
    st.html("<h3>Queries and labels</h3>")
    if not any(each.queries for each in sets):
        collections_sets.teach()
        return
    collections_sets.draw(sets)
    if len(sets) > 1:
        collections_sets.pick(sets)
    if not told["Queries by kind"]:
        return
    parts = {
        "Queries by split": ("split", "labelled queries"),
        "Queries by kind": ("kind", "queries"),
        "Labels by grade": ("grade", "labels"),
    }
    for column, (title, (name, count)) in zip(st.columns(3), parts.items(), strict=True):
        with column:
            lines = [Line(str(row[name]), (str(row[name]), f"{row[count]:,}")) for row in told[title]]
            empty = "No query has a label yet."
            columns = (Column(name), Column(count, right=True))
            textgrid.draw(f"about.{name}", title, columns, lines, empty=empty, low=True)


def _report(name: str, flaws: Sequence[Mapping[str, Any]], looks: Iterable[str]) -> None:
    st.html("<h3>What the import found</h3>")
    sentences = "".join(f"<li>{html.escape(each)}</li>" for each in collections_shown.told_flaws(flaws, looks))
    st.html(f'<ul class="rb-sentences">{sentences}</ul>')
    if flaws:
        with st.expander(many(len(flaws), "remark")):
            remarks.flaws(f"about.flaws.{name}", flaws, len(flaws))
