"""The first page: one query, every leg side by side."""

from __future__ import annotations

import streamlit as st

from core import bridge
from core.store import collections
from core.store.collections import CollectionView
from core.store.engine import Store
from core.store.names import ITEMS
from core.store.resolve_target import search_target
from evals.labels import query_sets
from evals.types import LabelledQueries
from workbench.components import cards, document
from workbench.components.page import Page
from workbench.screens.search import state
from workbench.screens.search.columns import Columns
from workbench.services import search as services_search
from workbench.services.search import Found, LegSearch, QueryLabels

DEMO = "handbook"
SIDE_BY_SIDE = ("vector", "fulltext", "trigram")
AT_ONCE = 0.15  # seconds before the page shows that it is waiting
LABELS_KEPT = 15  # seconds


def render(store: Store) -> None:
    names = [row.name for row in bridge.run(collections.listed(store))]
    if not names:
        _welcome()
        return
    state.default(collection=DEMO if DEMO in names else names[0])
    where = st.container(key="where").columns([5, 2, 2], vertical_alignment="bottom")
    where[0].html('<p class="rb-tagline">One query, three ways to search, side by side.</p>')
    with where[1]:
        chosen = state.chooser("Collection", "collection", names, str, level="", query="")
    if chosen is None:
        bridge.run(collections.get(store, state.current().collection))  # says what there is instead
        return
    view = bridge.run(collections.get(store, chosen))
    with where[2]:
        chunks = _level(view)
    labelled = _labelled(store.where, _store=store, collection=view.name, version=view.row.version)
    state.query_box("Query", f"Search {view.name}")
    cards.draw_chips(
        f"chips.{view.name}", services_search.examples(labelled), lambda text: state.go(query=text, opened="")
    )
    if chunks is None:
        view.chunk_set(state.current().level)
        return
    _results(store, view, chunks, services_search.judged(labelled, state.current().query))
    if opened := state.current().opened:
        document.show_document(store, view, chunks, opened, lambda: state.go(opened=""))
    if model := search_target(store, view, chunks).model:
        services_search.warm(model)  # while the query is being typed


def _welcome() -> None:
    st.html(
        '<div class="rb-welcome"><h2>There is no collection yet</h2><p>A collection is a set of documents, cut into '
        "passages, embedded and indexed, with queries and labels where there are any. The demo is the handbook of a "
        "made-up company: 215 documents and 315 labelled queries. Type this in a terminal, then reload:</p></div>"
    )
    st.code("rankbook data add handbook", language=None)
    st.html("<p>Your own come in the same way: <code>rankbook data add --help</code> shows how.</p>")


def _level(view: CollectionView) -> str | None:
    """The chooser of what is searched; the address names none at first."""
    units = {each.name: each.units for each in view.chunk_sets} or {ITEMS: 0}
    if view.in_parts:  # which are searched whether they stand aside or not
        units = {view.default_chunk_set: units.get(ITEMS, 0)}
    state.default(level=next((name for name in units if name != ITEMS), ITEMS))
    several = len(units) > 2

    def named(name: str) -> str:
        what = "Whole documents" if name == ITEMS else f"Passages: {name}" if several else "Passages"
        return f"{what} ({units[name]:,})" if units[name] else what

    return state.chooser("Search in", "level", list(units), named)


@st.cache_data(ttl=LABELS_KEPT, max_entries=20, show_spinner=False)
def _labelled(where: str, _store: Store, collection: str, version: int) -> LabelledQueries:  # noqa: ARG001 - the cache's key
    return bridge.run(query_sets.load(_store, collection))


def _results(store: Store, view: CollectionView, chunks: str, judged: QueryLabels) -> None:
    """Kept until the query, the level or the collection changes, so that opening a document searches nothing again."""
    query = state.current().query
    columns = Columns(SIDE_BY_SIDE, judged, view.row.fields)
    if not query:
        columns.explain()
        return
    wanted = Found((store.where, view.name, str(view.row.version), chunks, query))
    kept = st.session_state.get("found")
    if not isinstance(kept, Found) or kept.key != wanted.key or kept.failed:  # a failure is worth another try
        st.session_state["found"] = kept = _search(store, view, chunks, wanted, columns)
    columns.draw(kept)


def _search(store: Store, view: CollectionView, chunks: str, wanted: Found, columns: Columns) -> Found:
    search = LegSearch(store, view, wanted.key[-1], chunks, SIDE_BY_SIDE)
    try:
        if not search.wait(AT_ONCE):
            columns.wait(search, wanted)
        return search.found(wanted.key)
    finally:
        search.cancel()  # what is done already stays done


PAGE = Page("Search", ":material/search:", render)
