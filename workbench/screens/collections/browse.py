"""Documents and queries of a collection: found while one types, turned over page by page, opened in full."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any, Final

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from core import bridge
from core.store.collections import CollectionView
from core.store.engine import Store
from core.store.names import ITEMS
from workbench.components import document as collections_text
from workbench.components import feedback, table
from workbench.components.table import Column, Filter, Line
from workbench.screens.collections import about as collections_sets
from workbench.screens.collections import corrections as collections_changes
from workbench.screens.collections.state import chooser, current, go, goes, links
from workbench.services import browse as collections_browsed
from workbench.services import permissions
from workbench.services.browse import Judgement, Page, Read

DOCUMENTS: Final = (
    Column("document", long=True),
    Column("id", wide=True),
    Column("answers", "Queries whose labels call this document relevant.", right=True),
)
QUERIES: Final = (
    Column("query", long=True),
    Column("kind", wide=True),
    Column("id", wide=True),
    Column("relevant", "Documents judged with a grade above 0.", right=True),
    Column("judged", "Documents judged at all.", right=True, wide=True),
)


@st.fragment
def documents(store: Store, view: CollectionView) -> None:
    """What answers while somebody types: nothing above it is drawn again."""
    asked = current()
    if asked.shown != "documents":
        st.rerun()  # a click in here led elsewhere, which the page has to draw
    with feedback.draw_errors():
        of_set = collections_sets.chosen_set()
        found = bridge.run(collections_browsed.documents(store, view, asked.find, asked.number, of_set))
        lines = [Line(row.id, (row.title.strip() or row.id, row.id, f"{row.answers:,}")) for row in found.rows]
        listed, opened = _beside(asked.document)
        with listed:
            table.draw(
                "browse.documents",
                "Documents",
                DOCUMENTS,
                lines,
                selected=asked.document,
                opened=goes("document"),
                filtered=_filter(found, "Filter by id or title"),
                found=goes("find"),
                turned=goes("page"),
                empty=_nothing(asked.find, "document", "id or title"),
            )
        if asked.document:
            with opened:
                _document(store, view, asked.document)


def queries(store: Store, view: CollectionView) -> None:
    """One query set of the collection, chosen above the list."""
    sets = collections_sets.list_sets(store, view)
    if not sets:
        collections_sets.no_queries_note()
        return
    with st.container(horizontal=True, vertical_alignment="bottom", key="browse.set"):
        chosen = collections_sets.pick_set(sets)
        if chosen is not None and permissions.may_edit(store):
            collections_sets.drop_button(view, chosen)
    if chosen is not None:
        collections_sets.draw_drop_question(store, view, chosen)
        with feedback.draw_errors():
            collections_changes.draw(store, view, chosen.name)
        _queries(store, view, chosen.name)


@st.fragment
def _queries(store: Store, view: CollectionView, of_set: str) -> None:
    asked = current()
    if (
        asked.shown != "queries"
        or collections_sets.chosen_set() != of_set
        or collections_changes.has_outcome(view, of_set)
    ):
        st.rerun()
    with feedback.draw_errors():
        found = bridge.run(collections_browsed.queries(store, view.name, asked.find, asked.number, of_set))
        lines = [
            Line(row.query.id, (row.query.text, row.query.kind, row.query.id, f"{row.relevant:,}", f"{row.judged:,}"))
            for row in found.rows
        ]
        listed, opened = _beside(asked.query)
        with listed:
            table.draw(
                "browse.queries",
                "Queries",
                QUERIES,
                lines,
                selected=asked.query,
                opened=goes("query"),
                filtered=_filter(found, "Filter by text, kind or id"),
                found=goes("find"),
                turned=goes("page"),
                empty=_nothing(asked.find, "query", "text, kind or id"),
            )
        if asked.query:
            with opened:
                _query(store, view, asked.query)


def _beside(opened: str) -> Sequence[DeltaGenerator]:
    """The places of the list and of what is open: side by side, or one below the other on a phone.

    Two also while nothing is open: in another place the list would be drawn anew, and its filter lose the cursor.
    """
    with st.container(key="browse.pair"):
        return st.columns([5, 7] if opened else [1000, 1], gap="medium")


def _filter(found: Page[Any], asks: str) -> Filter:
    return Filter(current().find.strip(), asks, found.told, found.number, found.pages)


def _nothing(find: str, what: str, where: str) -> str:
    if find.strip():
        return f"No {what} has \u201c{find.strip()}\u201d in its {where}."
    return f"There is no {what} here."


# -- in full -----------------------------------------------------------------------------------------------------------


def _document(store: Store, view: CollectionView, item_id: str) -> None:
    sets = [each.name for each in view.chunk_sets if each.key]
    chosen = current().chunks if current().chunks in sets else (sets[0] if sets else ITEMS)
    with st.container(border=True, key="browse.document"):
        with st.container(horizontal=True, vertical_alignment="bottom"):
            if sets:
                chooser("Chunks of", "chunks", sets, chosen)
            st.button("Close", key="browse.close", icon=":material/close:", on_click=go, kwargs={"document": ""})
        with feedback.draw_errors():
            read = bridge.run(collections_browsed.document(store, view, item_id, chosen, collections_sets.chosen_set()))
            collections_text.draw_text("browse.text", read)
            st.html(f'<p class="rb-summary">{_said(read, chosen if sets else "")}</p>')
            _answers(read)


def _said(read: Read, chunks: str) -> str:
    if not chunks:
        return "There is no chunk set: the document is searched as a whole."
    overlap = any(len(piece.within) > 1 for piece in read.pieces)
    hatched = " Hatched text is in two chunks or more." if overlap else ""
    return (
        f"{read.chunks:,} chunks in <code>{html.escape(chunks)}</code>, each with its number where it begins; point at "
        f"a number for its place and headings. Text without a band is in no chunk.{hatched}"
    )


def _answers(read: Read) -> None:
    """The queries that it was judged for."""
    table.draw(
        "browse.answers",
        "Queries that this document was judged for",
        (
            Column("query it was judged for", long=True),
            Column("kind", wide=True),
            Column("split", wide=True),
            Column("grade", "0 is not relevant; the more, the better.", right=True),
        ),
        [_judgement(each, each.text, each.kind) for each in read.judged],
        opened=lambda at: go(view="queries", query=_id_of(at)),
        empty="Nobody has judged this document for any query.",
        low=True,
    )


def _query(store: Store, view: CollectionView, query_id: str) -> None:
    with st.container(border=True, key="browse.query"), feedback.draw_errors():
        head = st.container(horizontal=True, vertical_alignment="center")
        head.button("Close", key="browse.close", icon=":material/close:", on_click=go, kwargs={"query": ""})
        found, judged = bridge.run(collections_browsed.query(store, view, query_id, collections_sets.chosen_set()))
        with head:
            links({"Search it": ("", {"collection": view.name, "query": found.text})})
        st.html(f'<h3 class="rb-name">{html.escape(found.text)}</h3>{_facts(found.id, found.kind, found.tags)}')
        table.draw(
            "browse.judged",
            "Documents judged for this query",
            (
                Column("document that was judged", long=True),
                Column("id", wide=True),
                Column("split", wide=True),
                Column("grade", "0 is not relevant; the more, the better.", right=True),
            ),
            [_judgement(each, each.text.strip() or each.id, each.id) for each in judged],
            opened=lambda at: go(view="documents", document=_id_of(at)),
            empty="No document has been judged for this query: nothing can be scored by it.",
            low=True,
        )
        collections_changes.correct(store, view, collections_sets.chosen_set(), query_id, judged)


def _facts(query_id: str, kind: str, tags: tuple[str, ...]) -> str:
    facts = {"id": query_id, "kind": kind, "tags": ", ".join(tags)}
    made = " \u00b7 ".join(f"{name} {html.escape(value)}" for name, value in facts.items() if value)
    return f'<p class="rb-summary">{made}</p>'


def _judgement(each: Judgement, first: str, second: str) -> Line:
    """Split and id together name the row: a document may be judged in several splits."""
    return Line(f"{each.split}\n{each.id}", (first, second, each.split, str(each.grade)))


def _id_of(row: str) -> str:
    return row.partition("\n")[2]
