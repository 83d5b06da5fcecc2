"""What can be built beside what there is (a chunk set, another model), measured, taken along, and thrown away."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Final

import streamlit as st

from core import bridge
from core.store.attached import Attachment
from core.store.collections import CollectionView
from core.store.engine import Store
from core.store.names import ITEMS
from core.store.trash_entries import retention
from evals.collections import load
from evals.types import DEFAULT_QUERY_SET
from workbench.components import deleted, feedback
from workbench.components.feedback import Question, start_or_refuse
from workbench.screens.collections import about as collections_sets
from workbench.screens.collections import add as collections_chunker
from workbench.screens.collections import attach as collections_aside
from workbench.screens.collections.state import chooser, go
from workbench.services import collection_jobs as collections_work
from workbench.services import cost_notice
from workbench.services.collections import CollectionSummary, known_models, many

MOST_QUERIES: Final = 10_000
_dropping: Final = Question("out.asking", "Drop the collection?")


def extend(store: Store, view: CollectionView, shelf: Sequence[CollectionSummary]) -> None:
    """Chunk once more, embed once more: a collection has as many as one wants to compare."""
    if view.row.attached is not None:
        collections_aside.draw_aside(store, view)
        return
    left, right = st.columns(2, gap="large")
    with left:
        _chunk(store, view)
    with right:
        _embed(store, view, known_models(shelf))


def _chunk(store: Store, view: CollectionView) -> None:
    st.html("<h3>Another chunk set</h3><p>Beside those there are, embedded with every model of the collection.</p>")
    name = st.text_input("Name", key="extend.name", placeholder="small", max_chars=60)
    chunker = collections_chunker.draw_chunker("extend")
    if not chunker:
        return
    there = [each.name for each in view.chunk_sets]
    if name in there:
        st.html(f"<p>There is a chunk set <code>{html.escape(name)}</code> already. Give this one another name.</p>")
    st.button(
        "Make the chunk set",
        key="extend.chunk",
        icon=":material/content_cut:",
        disabled=not name.strip() or name in there,
        on_click=start_or_refuse(lambda: collections_work.chunk(store, view, name.strip(), chunker)),
    )


def _embed(store: Store, view: CollectionView, known: list[str]) -> None:
    st.html("<h3>Another model</h3><p>Beside those there are. A text that was embedded once is not embedded again.</p>")
    model = st.selectbox(
        "Model",
        known,
        key="extend.model",
        index=None,
        accept_new_options=True,
        placeholder="Choose, or type a name",
        help="A sentence-transformers name, a folder, or openai:NAME for the endpoint at RANKBOOK_EMBEDDING_URL.",
    )
    sets = [each.name for each in view.chunk_sets]
    over = st.multiselect("Over", sets, default=sets, key="extend.over", format_func=_level)
    feedback.endpoint_note(cost_notice.for_embedding((model or "").strip(), cost_notice.texts_of(view, over)))
    st.button(
        "Embed",
        key="extend.embed",
        icon=":material/scatter_plot:",
        disabled=not (model and over),
        on_click=start_or_refuse(lambda: collections_work.embed(store, view, str(model).strip(), tuple(over))),
    )


def _level(name: str) -> str:
    return "whole documents" if name == ITEMS else name


# -- checks ------------------------------------------------------------------------------------------------------------


def check(store: Store, view: CollectionView) -> None:
    left, right = st.columns(2, gap="large")
    with left:
        st.html(
            "<h3>Is it whole?</h3><p>Compares what should stand in its tables with what does: chunks, words, vectors, "
            "statistics, indexes.</p>"
        )
        nothing = view.row.attached is not None and Attachment.of(view).aside is None
        if nothing:
            st.html("<p>An attached table has no tables here to verify, as nothing is built aside.</p>")
        begin = start_or_refuse(lambda: collections_work.check(store, view))
        st.button("Verify", key="check.verify", icon=":material/fact_check:", on_click=begin, disabled=nothing)
    with right:
        _recall(store, view)


def _recall(store: Store, view: CollectionView) -> None:
    st.html(
        "<h3>What does the vector index miss?</h3><p>How many of the true nearest, by comparing with every vector, its "
        "HNSW index brings up, measured on the collection's own queries.</p>"
    )
    sets = {each.key: each.name for each in view.chunk_sets if view.embedding_set(each)}
    if not sets and view.row.attached is None:
        st.html('<div class="rb-nothing">There are no vectors yet: embed the collection first, under Extend.</div>')
        return
    levels = list(sets.values()) or [ITEMS]
    chunks = st.selectbox("Vectors of", levels, key="check.chunks", format_func=_level, index=min(1, len(levels) - 1))
    key = next((key for key, name in sets.items() if name == chunks), 0)
    models = [each.model for each in view.embedding_sets if each.chunk_set == key]
    model = st.selectbox("Model", models, key="check.model") if len(models) > 1 else None
    with st.container(horizontal=True):
        queries = st.number_input("Queries", 1, MOST_QUERIES, 100, key="check.queries", help="In the order of ids.")
        depth = st.number_input(
            "Neighbours", 1, 1000, 10, key="check.depth", help="How many of the nearest are looked at."
        )
    begin = start_or_refuse(lambda: collections_work.recall(store, view, chunks, model, int(queries), int(depth)))
    st.button("Measure", key="check.recall", icon=":material/speed:", on_click=begin)


# -- out ---------------------------------------------------------------------------------------------------------------


def out(store: Store, view: CollectionView, row: CollectionSummary) -> None:
    left, right = st.columns(2, gap="large")
    with left:
        st.html(
            "<h3>Take it along</h3><p>Documents, queries and labels as a BEIR archive, which any harness reads and "
            "which can be added here again. Chunks and vectors are not in it: they are made anew.</p>"
        )
        sets = [each.name for each in collections_sets.list_sets(store, view)]
        chosen = collections_sets.chosen_set() if collections_sets.chosen_set() in sets else DEFAULT_QUERY_SET
        if len(sets) > 1:
            chooser("Queries and labels of", "set", sets, chosen)
        begin = start_or_refuse(lambda: collections_work.export(store, view, chosen))
        st.button("Export as BEIR", key="out.export", icon=":material/archive:", on_click=begin)
    with right:
        st.html("<h3>Drop it</h3><p>With its labels, into the trash: it can be brought back from there.</p>")
        st.button("Drop the collection", key="out.drop", icon=":material/delete:", on_click=_ask, args=(view.name,))
    if _dropping.about == view.name:
        _confirm(store, view, row)


def _ask(name: str) -> None:
    st.session_state.pop("out.typed", None)
    _dropping.ask(name)


@_dropping.dialog
def _confirm(store: Store, view: CollectionView, row: CollectionSummary) -> None:
    with feedback.draw_errors():
        attached = view.row.attached is not None
        what = (
            "the mapping goes into the trash, and what was built aside is removed; the table itself stays as it is"
            if attached
            else f"its {row.summary.items:,} documents with chunks and vectors, {row.summary.queries:,} queries and "
            f"{row.labels:,} labels go into the trash"
        )
        st.html(
            f"<p><strong>{html.escape(view.name)}</strong>: {what}. It can be brought back from there for "
            f"<strong>{many(retention().days, 'day')}</strong>, and takes its room on disk until then. Its "
            "judgements and kept runs stay.</p>"
        )
        if st.button("Export it first", key="out.export.first", icon=":material/archive:"):
            collections_work.export(store, view)
            _dropping.answered()
        typed = st.text_input("Type its name to confirm", key="out.typed", autocomplete="off")
        gone = st.button("Drop it", key="out.gone", type="primary", disabled=typed.strip() != view.name.strip())
        if gone and typed.strip() == view.name.strip():
            entry = bridge.run(load.drop(store, view.name, by=deleted.person()))
            deleted.note(store, "collections", f"{view.name} is gone.", [entry])
            go(collection="")
            _dropping.answered()
