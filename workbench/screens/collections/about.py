"""A collection described: its figures, chunk sets, embedding sets and labels, and what its checks found."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Final

import streamlit as st

from core import bridge
from core.errors import InputError
from core.store.collections import CollectionView
from core.store.engine import Store
from core.store.trash_entries import retention
from core.types import Flaw
from evals.collections import overview
from evals.collections.overview import INTERRUPTED
from evals.labels import query_sets
from evals.labels.query_sets import QuerySetSummary
from evals.labels.revisions import FewerLabels
from evals.types import DEFAULT_QUERY_SET
from workbench.components import deleted, feedback, table
from workbench.components.cards import shortened
from workbench.components.feedback import Question, start_or_refuse
from workbench.components.table import Column, Line
from workbench.screens.collections.state import chooser, current, go, links_of
from workbench.services import collection_jobs as collections_work
from workbench.services import collections as collections_shown
from workbench.services import uploads
from workbench.services.collections import LOOKS, OUTCOMES, CollectionSummary, many, told_bytes

FLAWS_SHOWN: Final = 100
FLAWS: Final = (
    Column("what", "What is wrong, in a sentence.", long=True),
    Column("id", "The document, query or label that it is about."),
    Column("where", "File and line, where the source has such.", long=True),
    Column("what was done"),
)


def draw_flaws(key: str, found: Iterable[Mapping[str, Any]], total: int) -> None:
    """Remarks row by row, the first of them."""
    rows = list(found)[:FLAWS_SHOWN]
    lines = [
        Line(
            str(at),
            (
                str(flaw["message"]),
                str(flaw["subject"]),
                uploads.told(str(flaw["place"])),
                OUTCOMES.get(str(flaw["outcome"]), str(flaw["outcome"])),
            ),
        )
        for at, flaw in enumerate(rows)
    ]
    table.draw(key, "Remarks on the input", FLAWS, lines, empty="Nothing to remark.", low=True)
    if total > len(rows):
        st.html(f"<p>... and {total - len(rows):,} more. <code>rankbook data show NAME --json</code> has them.</p>")


def flaw_rows(found: Iterable[Flaw]) -> list[dict[str, str]]:
    """The first of them, as they are kept in the store."""
    return [
        {"place": str(flaw.place), "subject": flaw.subject, "outcome": flaw.outcome, "message": flaw.message}
        for flaw in islice(found, FLAWS_SHOWN)
    ]


def draw_problem(error: Exception) -> None:
    """What went wrong, uploaded files under the names that they were sent by."""
    found = error.flaws if isinstance(error, FewerLabels) else ()
    if isinstance(error, InputError):
        error = InputError(uploads.told(str(error)))
    feedback.draw_error(error)
    if found:
        with st.expander(f"{many(len(found), 'remark')} on the input", expanded=True):
            draw_flaws("problem.flaws", flaw_rows(found), len(found))


WIDTH: Final = 420  # pixels, where there are as many
_dropping: Final = Question("sets.asking", "Drop the query set?")
COLUMNS: Final = (
    Column("query set"),
    Column("queries", right=True),
    Column("labelled", "Queries that have a label: only these can be scored.", right=True),
    Column("labels", "Judgements: a query, a document and a grade.", right=True),
    Column("changed", "Coordinated universal time.", wide=True),
)


def list_sets(store: Store, view: CollectionView) -> list[QuerySetSummary]:
    return bridge.run(query_sets.summaries(store, view.name))


def chosen_set() -> str:
    """The set that the address names, or the usual one."""
    return current().set or DEFAULT_QUERY_SET


def draw_sets(sets: Sequence[QuerySetSummary]) -> None:
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
    table.draw(
        "about.sets",
        "Query sets",
        COLUMNS,
        lines,
        selected=current().set,
        opened=lambda name: go(view="queries", set=name),
        low=True,
    )


def pick_set(sets: Sequence[QuerySetSummary]) -> QuerySetSummary | None:
    """The choice among them; None where the address names one that is not there, which is said."""
    found = next((each for each in sets if each.name == chosen_set()), None)
    if found is None and current().set:
        there = ", ".join(f"`{each.name}`" for each in sets) or "none"
        st.html(
            f'<div class="rb-box rb-complaint" role="alert"><strong>There is no such query set</strong><p>'
            f"{feedback.as_html(f'{current().set!r} is not among them. There are: {there}.')}</p></div>"
        )
    if sets and (len(sets) > 1 or found is None):
        names = [each.name for each in sets]
        chooser("Query set", "set", names, chosen_set(), named=_with_counts(sets).__getitem__, width=WIDTH)
    return found


def _with_counts(sets: Sequence[QuerySetSummary]) -> dict[str, str]:
    return {each.name: f"{each.name}: {many(each.queries, 'query', 'queries')}" for each in sets}


def no_queries_note() -> None:
    """What it would take to have some."""
    st.html(
        '<div class="rb-nothing">There are no queries, so variants can be looked at but not scored. Write some, make '
        "them of the documents' own words, or bring labels that somebody has.</div>"
    )
    st.button("Add queries or labels", key="sets.teach", icon=":material/add:", on_click=go, kwargs={"view": "ask"})


# -- dropped -----------------------------------------------------------------------------------------------------------


def drop_button(view: CollectionView, found: QuerySetSummary) -> None:
    """The button, and the question that it asks."""
    st.button(
        "Drop this set",
        key="sets.drop",
        icon=":material/delete:",
        on_click=_dropping.ask,
        args=(f"{view.name}\n{found.name}",),
    )


def draw_drop_question(store: Store, view: CollectionView, found: QuerySetSummary) -> None:
    """Outside of fragments, as a dialog has to be."""
    if _dropping.about == f"{view.name}\n{found.name}":
        _confirm(store, view, found)


@_dropping.dialog
def _confirm(store: Store, view: CollectionView, found: QuerySetSummary) -> None:
    with feedback.draw_errors():
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
            on_click=start_or_refuse(lambda: go_on(store, row.name)),
        )


def draw(store: Store, view: CollectionView, row: CollectionSummary) -> None:
    sets = list_sets(store, view)
    chosen = chosen_set()
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
        "From": shortened(collections_shown.told_origin(view.row), LONGEST_ORIGIN),
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
    table.draw("about.chunks", "Chunk sets", columns, lines)


def _chunker(written: str) -> str:
    import json

    return collections_shown.told_chunker(json.loads(written))


def _labels(told: Mapping[str, Any], sets: Sequence[QuerySetSummary]) -> None:
    """How queries and labels are spread, or what it would take to have some."""
    st.html("<h3>Queries and labels</h3>")
    if not any(each.queries for each in sets):
        no_queries_note()
        return
    draw_sets(sets)
    if len(sets) > 1:
        pick_set(sets)
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
            table.draw(f"about.{name}", title, columns, lines, empty=empty, low=True)


def _report(name: str, flaws: Sequence[Mapping[str, Any]], looks: Iterable[str]) -> None:
    st.html("<h3>What the import found</h3>")
    sentences = "".join(f"<li>{html.escape(each)}</li>" for each in collections_shown.told_flaws(flaws, looks))
    st.html(f'<ul class="rb-sentences">{sentences}</ul>')
    if flaws:
        with st.expander(many(len(flaws), "remark")):
            draw_flaws(f"about.flaws.{name}", flaws, len(flaws))
