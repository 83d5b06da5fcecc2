"""Every collection as a row, to be chosen; and what there is to do where there is none."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Final

import streamlit as st

from core import bridge
from core.store import collections
from core.store.engine import Store
from workbench.behind.collections import shown as collections_shown
from workbench.behind.collections import work as collections_work
from workbench.behind.collections.shown import CollectionSummary, told_bytes
from workbench.ui import textgrid
from workbench.ui.collections.state import current, go, goes
from workbench.ui.textgrid import Column, Line

KEPT: Final = 10  # seconds that sizes and counts may be old; versions are never
COLUMNS: Final = (
    Column("collection"),
    Column("documents", right=True),
    Column("chunks", "What a search can find of all chunk sets; parents are not counted.", right=True),
    Column("chunk sets", right=True, wide=True),
    Column("embedding sets", "One for each model and chunk set, whole documents included.", right=True, wide=True),
    Column("queries", "Those of the query set `default`.", right=True),
    Column("labels", "Judgements of all query sets: a query, a document and a grade.", right=True, wide=True),
    Column("on disk", "Tables with their indexes; of an attached table, what was built aside.", right=True),
    Column("changed", "Coordinated universal time.", wide=True),
    Column("kind", "Own: loaded, and kept here. Attached: somebody's table, only ever read.", wide=True),
    Column("state", wide=True),
)


def shelf(store: Store) -> list[CollectionSummary]:
    """Every collection; looked at anew as soon as one of them changed, or work on them began or ended."""
    state = [(row.name, row.version, str(row.loaded_at)) for row in bridge.run(collections.listed(store))]
    work = [(doing.key, doing.job.ended) for doing in collections_work.begun(store)]
    return _shelf(store.where, [*state, *work], _store=store)


@st.cache_data(ttl=KEPT, max_entries=20, show_spinner=False)
def _shelf(where: str, state: Sequence[object], _store: Store) -> list[CollectionSummary]:  # noqa: ARG001 - the cache's key
    return bridge.run(collections_shown.shelf(_store))


def draw(rows: Sequence[CollectionSummary]) -> None:
    textgrid.draw(
        "collections.list",
        "Collections",
        COLUMNS,
        [_line(row) for row in rows],
        selected=current().collection,
        opened=goes("collection"),
    )


def _line(row: CollectionSummary) -> Line:
    glance = row.summary
    counts = (glance.items, row.chunks, row.chunk_sets, row.embedding_sets, glance.queries, row.labels)
    return Line(
        row.name,
        (
            row.name,
            *(f"{count:,}" for count in counts),
            told_bytes(row.bytes),
            f"{glance.changed:%Y-%m-%d %H:%M}",
            "attached" if row.attached else "own",
            glance.state,
        ),
    )


def head(*, adding: bool, offered: bool = True) -> None:
    """What the page is for, and the way to a new collection."""
    with st.container(horizontal=True, vertical_alignment="bottom", key="collections.head"):
        st.html('<p class="rb-tagline">What can be searched: documents, their chunks, queries and labels.</p>')
        if not offered:
            return
        if adding:
            st.button(
                "Close the form", key="collections.close", icon=":material/close:", on_click=go, kwargs={"add": ""}
            )
        else:
            st.button(
                "Add a collection",
                key="collections.new",
                icon=":material/add:",
                type="primary",
                on_click=go,
                kwargs={"add": "path"},
            )


def welcome(*, offered: bool = True) -> None:
    st.html(
        '<div class="rb-welcome"><h2>There is no collection yet</h2><p>A collection is a set of documents, cut into '
        "passages, embedded and indexed, with queries and labels where there are any. Add the demo, the handbook of a "
        "made-up company with 315 labelled queries, or documents of your own: a folder of Markdown, a CSV, JSONL or "
        "Parquet table, a BEIR archive.</p></div>"
    )
    if not offered:
        return
    with st.container(horizontal=True):
        ways = {"Add the demo": "public", "Add a folder or file": "path", "Upload files": "upload"}
        for words, way in ways.items():
            st.button(words, key=f"collections.welcome.{way}", on_click=go, kwargs={"add": way})
    st.html(f"<p>{html.escape('In a terminal:')} <code>rankbook data add handbook</code></p>")
