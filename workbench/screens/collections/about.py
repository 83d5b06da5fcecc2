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
from workbench.components.table import DataColumn, DataRow, DataTable
from workbench.screens.collections.state import address, links_of
from workbench.services import collection_jobs, collections, uploads
from workbench.services.collections import LOOKS, OUTCOMES, CollectionSummary, format_bytes, plural

FLAWS_SHOWN: Final = 100
FLAWS: Final = (
    DataColumn("what", "What is wrong, in a sentence.", long=True),
    DataColumn("id", "The document, query or label that it is about."),
    DataColumn("where", "File and line, where the source has such.", long=True),
    DataColumn("what was done"),
)


def draw_flaws(key: str, flaws: Iterable[Mapping[str, Any]], total: int) -> None:
    """The first remarks on an input, row by row."""
    rows = list(flaws)[:FLAWS_SHOWN]
    lines = [
        DataRow(
            str(at),
            (
                str(flaw["message"]),
                str(flaw["subject"]),
                uploads.with_sent_names(str(flaw["place"])),
                OUTCOMES.get(str(flaw["outcome"]), str(flaw["outcome"])),
            ),
        )
        for at, flaw in enumerate(rows)
    ]
    table.draw(key, DataTable("Remarks on the input", FLAWS, lines, empty="Nothing to remark.", tall=True))
    if total > len(rows):
        st.html(f"<p>... and {total - len(rows):,} more. <code>rankbook data show NAME --json</code> has them.</p>")


def flaw_rows(flaws: Iterable[Flaw]) -> list[dict[str, str]]:
    """The first flaws, as rows of the store have them."""
    return [
        {"place": str(flaw.place), "subject": flaw.subject, "outcome": flaw.outcome, "message": flaw.message}
        for flaw in islice(flaws, FLAWS_SHOWN)
    ]


def draw_problem(error: Exception) -> None:
    """An error, in which uploaded files have the names that they were sent with."""
    found = error.flaws if isinstance(error, FewerLabels) else ()
    if isinstance(error, InputError):
        error = InputError(uploads.with_sent_names(str(error)))
    feedback.draw_error(error)
    if found:
        with st.expander(f"{plural(len(found), 'remark')} on the input", expanded=True):
            draw_flaws("problem.flaws", flaw_rows(found), len(found))


WIDTH: Final = 420  # pixels, where there are as many
_dropping: Final = Question("sets.asking", "Drop the query set?")
COLUMNS: Final = (
    DataColumn("query set"),
    DataColumn("queries", right=True),
    DataColumn("labelled", "Queries that have a label: only these can be scored.", right=True),
    DataColumn("labels", "Judgements: a query, a document and a grade.", right=True),
    DataColumn("changed", "Coordinated universal time.", wide=True),
)


def list_sets(store: Store, view: CollectionView) -> list[QuerySetSummary]:
    return bridge.run(query_sets.summaries(store, view.name))


def chosen_set() -> str:
    """The query set of the address, or the default one."""
    return address.current().set or DEFAULT_QUERY_SET


def draw_sets(sets: Sequence[QuerySetSummary]) -> None:
    """All query sets; a click shows the queries of one."""
    lines = [
        DataRow(
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
        DataTable("Query sets", COLUMNS, lines, selected=address.current().set, tall=True),
        on_open=lambda name: address.go(view="queries", set=name),
    )


def pick_set(sets: Sequence[QuerySetSummary]) -> QuerySetSummary | None:
    """A chooser of the query set; None, with an error, where the address names one that does not exist."""
    found = next((each for each in sets if each.name == chosen_set()), None)
    if found is None and address.current().set:
        there = ", ".join(f"`{each.name}`" for each in sets) or "none"
        st.html(
            f'<div class="rb-box rb-complaint" role="alert"><strong>There is no such query set</strong><p>'
            f"{feedback.as_html(f'{address.current().set!r} is not among them. There are: {there}.')}</p></div>"
        )
    if sets and (len(sets) > 1 or found is None):
        names = [each.name for each in sets]
        address.select("Query set", "set", names, chosen_set(), named=_with_counts(sets).__getitem__, width=WIDTH)
    return found


def _with_counts(sets: Sequence[QuerySetSummary]) -> dict[str, str]:
    return {each.name: f"{each.name}: {plural(each.queries, 'query', 'queries')}" for each in sets}


def no_queries_note() -> None:
    """How to get queries."""
    st.html(
        '<div class="rb-nothing">There are no queries, so variants can be looked at but not scored. Write some, make '
        "them of the documents' own words, or bring labels that somebody has.</div>"
    )
    st.button(
        "Add queries or labels", key="sets.teach", icon=":material/add:", on_click=address.go, kwargs={"view": "ask"}
    )


# -- dropped -----------------------------------------------------------------------------------------------------------


def drop_button(view: CollectionView, query_set: QuerySetSummary) -> None:
    """The button that asks for confirmation."""
    st.button(
        "Drop this set",
        key="sets.drop",
        icon=":material/delete:",
        on_click=_dropping.ask,
        args=(f"{view.name}\n{query_set.name}",),
    )


def draw_drop_question(store: Store, view: CollectionView, query_set: QuerySetSummary) -> None:
    """The confirmation, outside of fragments, as a dialog has to be."""
    if _dropping.about == f"{view.name}\n{query_set.name}":
        _confirm(store, view, query_set)


@_dropping.dialog
def _confirm(store: Store, view: CollectionView, query_set: QuerySetSummary) -> None:
    with feedback.draw_errors():
        st.html(
            f"<p><strong>{html.escape(query_set.name)}</strong> of {html.escape(view.name)}: its "
            f"{plural(query_set.queries, 'query', 'queries')} and {plural(query_set.labels, 'label')} go into the "
            f"trash, and can be brought back for <strong>{plural(retention().days, 'day')}</strong>; documents, "
            "judgements and kept runs stay.</p>"
        )
        if st.button("Drop it", key="sets.gone", type="primary"):
            entry = bridge.run(query_sets.drop(store, view.name, query_set.name, by=deleted.person()))
            deleted.announce(store, "collections", f"{view.name}: {query_set.name} is gone.", [entry])
            address.go(set="")
            _dropping.answered()


KEPT: Final = 15  # seconds
LONGEST_CARD: Final = 20_000
LONGEST_ORIGIN: Final = 200


def head(store: Store, row: CollectionSummary) -> None:
    """Name, state, and links."""
    with st.container(horizontal=True, vertical_alignment="center", key="collections.title"):
        st.html(f'<h2 class="rb-name">{html.escape(row.name)}</h2>', width="content")
        links_of(row.name, labelled=bool(row.labels), query_set=address.current().set)
    if row.summary.state == INTERRUPTED:
        go_on = "refresh" if row.attached else "resume"
        st.html(
            '<div class="rb-box rb-note" role="note"><strong>Loading was interrupted</strong><p>What is there is whole '
            "and can be searched; the rest is missing. Going on costs nothing for what is there.</p></div>"
        )
        st.button(
            "Go on",
            key="collections.resume",
            icon=":material/play_arrow:",
            on_click=start_or_refuse(lambda: collection_jobs.start(store, go_on, row.name)),
        )


def draw(store: Store, view: CollectionView, row: CollectionSummary) -> None:
    sets = list_sets(store, view)
    chosen = chosen_set()
    told = _described(store.where, view.name, row.version, repr(sets), chosen, _store=store)
    figures = {
        "documents": f"{row.summary.items:,}",
        "chunks": f"{row.chunks:,}",
        "queries": f"{row.summary.queries:,}",
        "labels": f"{row.labels:,}",
        "on disk": format_bytes(row.bytes),
        "changed (UTC)": f"{row.summary.changed:%Y-%m-%d %H:%M}",
    }
    made = "".join(f"<div><b>{value}</b><span>{name}</span></div>" for name, value in figures.items())
    st.html(f'<div class="rb-figures">{made}</div>')
    _facts(view)
    attached = view.row.attached is not None
    if told["Chunk sets"] and not attached:
        st.html("<h3>Chunk sets and their models</h3>")
        _chunk_sets(told["Chunk sets"])
    _labels(told, sets)
    if sets or not attached:
        looks = LOOKS if chosen == DEFAULT_QUERY_SET and not attached else ("labels",)
        flaws = told["Noted at import"]
        st.html("<h3>What the import found</h3>")
        sentences = "".join(f"<li>{html.escape(each)}</li>" for each in collections.flaw_sentences(flaws, looks))
        st.html(f'<ul class="rb-sentences">{sentences}</ul>')
        if flaws:
            with st.expander(plural(len(flaws), "remark")):
                draw_flaws(f"about.flaws.{view.name}", flaws, len(flaws))
    if view.row.card:
        with st.expander("What it says of itself"):
            st.html(f'<pre class="rb-card">{html.escape(view.row.card[:LONGEST_CARD])}</pre>')


@st.cache_data(ttl=KEPT, max_entries=20, show_spinner="Counting")
def _described(where: str, name: str, version: int, sets: str, chosen: str, _store: Store) -> dict[str, Any]:  # noqa: ARG001 - the cache's key
    return bridge.run(overview.describe(_store, name, query_set=chosen))


def _facts(view: CollectionView) -> None:
    facts = {
        "Text search": view.row.language,
        "Fields for filters": ", ".join(view.row.fields) or "none",
        "From": shortened(collections.origin_text(view), LONGEST_ORIGIN),
        "Version": f"{view.row.version:,}",
        **(collections.mapping_facts(view) if view.row.attached is not None else {}),
    }
    made = "".join(f"<dt>{html.escape(name)}</dt><dd>{html.escape(value)}</dd>" for name, value in facts.items())
    st.html(f'<dl class="rb-facts">{made}</dl>')


def _chunk_sets(rows: Sequence[Mapping[str, Any]]) -> None:
    columns = (
        DataColumn("chunk set"),
        DataColumn("cut by", long=True),
        DataColumn("texts", "What a search can find.", right=True),
        DataColumn(
            "words a text",
            "Lexemes of the text-search configuration, stop words left out, on average.",
            right=True,
            wide=True,
        ),
        DataColumn("embedded by", long=True),
    )
    lines = [
        DataRow(
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
    table.draw("about.chunks", DataTable("Chunk sets", columns, lines))


def _chunker(written: str) -> str:
    import json

    return collections.chunker_text(json.loads(written))


def _labels(described: Mapping[str, Any], sets: Sequence[QuerySetSummary]) -> None:
    """The distribution of queries and labels, or how to get some."""
    st.html("<h3>Queries and labels</h3>")
    if not any(each.queries for each in sets):
        no_queries_note()
        return
    draw_sets(sets)
    if len(sets) > 1:
        pick_set(sets)
    if not described["Queries by kind"]:
        return
    parts = {
        "Queries by split": ("split", "labelled queries"),
        "Queries by kind": ("kind", "queries"),
        "Labels by grade": ("grade", "labels"),
    }
    for column, (title, (name, count)) in zip(st.columns(3), parts.items(), strict=True):
        with column:
            lines = [DataRow(str(row[name]), (str(row[name]), f"{row[count]:,}")) for row in described[title]]
            empty = "No query has a label yet."
            columns = (DataColumn(name), DataColumn(count, right=True))
            table.draw(f"about.{name}", DataTable(title, columns, lines, empty=empty, tall=True))
