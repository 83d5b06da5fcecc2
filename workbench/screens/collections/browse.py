"""Documents and queries of a collection: filtered while one types, page by page, and opened in full."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any, Final

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from core import bridge
from core.store.browse import Page, TextPiece, list_documents, read_document
from core.store.collections import CollectionView
from core.store.engine import Store
from core.store.names import ITEMS
from evals.labels.browse import (
    LabelEntry,
    labels_of_document,
    list_queries,
    read_query,
    relevant_counts,
)
from workbench.components import document as document_view
from workbench.components import feedback, table
from workbench.components.table import DataColumn, DataFilter, DataRow, DataTable
from workbench.screens.collections import about, corrections
from workbench.screens.collections.state import address, links
from workbench.services import permissions

DOCUMENTS: Final = (
    DataColumn("document", long=True),
    DataColumn("id", wide=True),
    DataColumn("answers", "Queries whose labels call this document relevant.", right=True),
)
QUERIES: Final = (
    DataColumn("query", long=True),
    DataColumn("kind", wide=True),
    DataColumn("id", wide=True),
    DataColumn("relevant", "Documents judged with a grade above 0.", right=True),
    DataColumn("judged", "Documents judged at all.", right=True, wide=True),
)


@st.fragment
def documents(store: Store, view: CollectionView) -> None:
    """A fragment, so that typing in the filter redraws nothing above it."""
    state = address.current()
    if state.shown != "documents":
        st.rerun()  # a click in here led elsewhere, which the page has to draw
    with feedback.draw_errors():
        of_set = about.chosen_set()
        found = bridge.run(list_documents(store, view, state.find, state.number))
        answers = bridge.run(relevant_counts(store, view.name, [row.id for row in found.rows], name=of_set))
        lines = [
            DataRow(row.id, (row.title.strip() or row.id, row.id, f"{answers.get(row.id, 0):,}")) for row in found.rows
        ]
        listed, opened = _beside(state.document)
        with listed:
            table.draw(
                "browse.documents",
                DataTable(
                    "Documents",
                    DOCUMENTS,
                    lines,
                    selected=state.document,
                    empty=_nothing(state.find, "document", "id or title"),
                    filter=_filter(found, "Filter by id or title"),
                ),
                on_open=lambda value: address.go(document=value),
                on_find=lambda value: address.go(find=value),
                on_page=lambda value: address.go(page=value),
            )
        if state.document:
            with opened:
                _document(store, view, state.document)


def queries(store: Store, view: CollectionView) -> None:
    """One query set of the collection, chosen above the list."""
    sets = about.list_sets(store, view)
    if not sets:
        about.no_queries_note()
        return
    with st.container(horizontal=True, vertical_alignment="bottom", key="browse.set"):
        chosen = about.pick_set(sets)
        if chosen is not None and permissions.may_edit(store):
            about.drop_button(view, chosen)
    if chosen is not None:
        about.draw_drop_question(store, view, chosen)
        with feedback.draw_errors():
            corrections.draw(store, view, chosen.name)
        _queries(store, view, chosen.name)


@st.fragment
def _queries(store: Store, view: CollectionView, of_set: str) -> None:
    state = address.current()
    if state.shown != "queries" or about.chosen_set() != of_set or corrections.has_outcome(view, of_set):
        st.rerun()
    with feedback.draw_errors():
        found = bridge.run(list_queries(store, view.name, state.find, state.number, name=of_set))
        lines = [
            DataRow(
                row.query.id, (row.query.text, row.query.kind, row.query.id, f"{row.relevant:,}", f"{row.judged:,}")
            )
            for row in found.rows
        ]
        listed, opened = _beside(state.query)
        with listed:
            table.draw(
                "browse.queries",
                DataTable(
                    "Queries",
                    QUERIES,
                    lines,
                    selected=state.query,
                    empty=_nothing(state.find, "query", "text, kind or id"),
                    filter=_filter(found, "Filter by text, kind or id"),
                ),
                on_open=lambda value: address.go(query=value),
                on_find=lambda value: address.go(find=value),
                on_page=lambda value: address.go(page=value),
            )
        if state.query:
            with opened:
                _query(store, view, state.query)


def _beside(opened: str) -> Sequence[DeltaGenerator]:
    """The columns for the list and for what is open.

    Two also while nothing is open: elsewhere the list would be drawn anew, and its filter lose the cursor.
    """
    with st.container(key="browse.pair"):
        return st.columns([5, 7] if opened else [1000, 1], gap="medium")


def _filter(page: Page[Any], asks: str) -> DataFilter:
    return DataFilter(address.current().find.strip(), asks, page.range_text, page.number, page.pages)


def _nothing(find: str, what: str, where: str) -> str:
    if find.strip():
        return f"No {what} has \u201c{find.strip()}\u201d in its {where}."
    return f"There is no {what} here."


# -- in full -----------------------------------------------------------------------------------------------------------


def _document(store: Store, view: CollectionView, item_id: str) -> None:
    sets = [each.name for each in view.chunk_sets if each.key]
    chosen = address.current().chunks if address.current().chunks in sets else (sets[0] if sets else ITEMS)
    with st.container(border=True, key="browse.document"):
        with st.container(horizontal=True, vertical_alignment="bottom"):
            if sets:
                address.select("Chunks of", "chunks", sets, chosen)
            st.button(
                "Close", key="browse.close", icon=":material/close:", on_click=address.go, kwargs={"document": ""}
            )
        with feedback.draw_errors():
            document = bridge.run(read_document(store, view, item_id, chosen))
            judged = bridge.run(labels_of_document(store, view.name, item_id, name=about.chosen_set()))
            pieces = document.pieces(document_view.LONGEST_TEXT)
            document_view.draw_text("browse.text", document, pieces)
            st.html(f'<p class="rb-summary">{_said(pieces, len(document.chunks), chosen if sets else "")}</p>')
            _answers(judged)


def _said(pieces: Sequence[TextPiece], count: int, chunks: str) -> str:
    if not chunks:
        return "There is no chunk set: the document is searched as a whole."
    overlap = any(len(piece.within) > 1 for piece in pieces)
    hatched = " Hatched text is in two chunks or more." if overlap else ""
    return (
        f"{count:,} chunks in <code>{html.escape(chunks)}</code>, each with its number where it begins; point at "
        f"a number for its place and headings. Text without a band is in no chunk.{hatched}"
    )


def _answers(judged: Sequence[LabelEntry]) -> None:
    """The queries that the document was judged for."""
    table.draw(
        "browse.answers",
        DataTable(
            "Queries that this document was judged for",
            (
                DataColumn("query it was judged for", long=True),
                DataColumn("kind", wide=True),
                DataColumn("split", wide=True),
                DataColumn("grade", "0 is not relevant; the more, the better.", right=True),
            ),
            [_judgement(each, each.text, each.kind) for each in judged],
            empty="Nobody has judged this document for any query.",
            tall=True,
        ),
        on_open=lambda at: address.go(view="queries", query=_id_of(at)),
    )


def _query(store: Store, view: CollectionView, query_id: str) -> None:
    with st.container(border=True, key="browse.query"), feedback.draw_errors():
        head = st.container(horizontal=True, vertical_alignment="center")
        head.button("Close", key="browse.close", icon=":material/close:", on_click=address.go, kwargs={"query": ""})
        found, judged = bridge.run(read_query(store, view, query_id, name=about.chosen_set()))
        with head:
            links({"Search it": ("", {"collection": view.name, "query": found.text})})
        st.html(f'<h3 class="rb-name">{html.escape(found.text)}</h3>{_facts(found.id, found.kind, found.tags)}')
        table.draw(
            "browse.judged",
            DataTable(
                "Documents judged for this query",
                (
                    DataColumn("document that was judged", long=True),
                    DataColumn("id", wide=True),
                    DataColumn("split", wide=True),
                    DataColumn("grade", "0 is not relevant; the more, the better.", right=True),
                ),
                [_judgement(each, each.text.strip() or each.id, each.id) for each in judged],
                empty="No document has been judged for this query: nothing can be scored by it.",
                tall=True,
            ),
            on_open=lambda at: address.go(view="documents", document=_id_of(at)),
        )
        corrections.correct(store, view, about.chosen_set(), query_id, judged)


def _facts(query_id: str, kind: str, tags: tuple[str, ...]) -> str:
    facts = {"id": query_id, "kind": kind, "tags": ", ".join(tags)}
    made = " \u00b7 ".join(f"{name} {html.escape(value)}" for name, value in facts.items() if value)
    return f'<p class="rb-summary">{made}</p>'


def _judgement(each: LabelEntry, first: str, second: str) -> DataRow:
    """Split and id together identify a row: a document may be judged in several splits."""
    return DataRow(f"{each.split}\n{each.id}", (first, second, each.split, str(each.grade)))


def _id_of(row: str) -> str:
    return row.partition("\n")[2]
