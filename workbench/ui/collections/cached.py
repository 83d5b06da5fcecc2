"""The cache of embeddings, which all collections share: what is in it, and the way to empty it."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Final

import streamlit as st

from core import bridge
from core.store.chunk_and_embed import CacheUsage, cache_usage, forget
from core.store.engine import Store
from workbench.behind.collections.shown import many, told_bytes
from workbench.ui import errors, textgrid
from workbench.ui.collections.asking import Question
from workbench.ui.textgrid import Column, Line

KEPT: Final = 30  # seconds
ALL: Final = ""
_forgetting: Final = Question("cached.asking", "Forget cached embeddings?")


def draw(store: Store) -> None:
    rows = _cached(store.where, _store=store)
    if not rows:
        return
    texts = sum(row.texts for row in rows)
    with st.expander(f"Cached embeddings: {many(texts, 'text')}, {told_bytes(sum(row.bytes for row in rows))}"):
        st.html(
            "<p>A text that was embedded once is not embedded again, in whatever collection. Collections keep their "
            "vectors when the cache goes; adding the same texts again takes longer.</p>"
        )
        columns = (Column("model", long=True), Column("texts", right=True), Column("size", right=True))
        lines = [Line(row.model, (row.model, f"{row.texts:,}", told_bytes(row.bytes))) for row in rows]
        textgrid.draw("cached.models", "Cached embeddings", columns, lines, low=True)
        with st.container(horizontal=True, vertical_alignment="bottom"):
            model = st.selectbox(
                "Of", [ALL, *(row.model for row in rows)], key="cached.model", format_func=lambda name: name or "all"
            )
            st.button(
                "Forget them", key="cached.forget", icon=":material/delete:", on_click=_forgetting.ask, args=(model,)
            )
    if (about := _forgetting.about) is not None:
        _confirm(store, about, rows)


@st.cache_data(ttl=KEPT, max_entries=5, show_spinner="Counting what is cached")
def _cached(where: str, _store: Store) -> list[CacheUsage]:  # noqa: ARG001 - the cache's key
    return bridge.run(cache_usage(_store))


@_forgetting.dialog
def _confirm(store: Store, model: str, rows: Sequence[CacheUsage]) -> None:
    with errors.shown():
        texts = sum(row.texts for row in rows if model in (ALL, row.model))
        of = f"by <strong>{html.escape(model)}</strong>" if model else "by all models"
        st.html(f"<p>Embeddings of {many(texts, 'text')} {of}. What a paid endpoint made would be paid for again.</p>")
        if st.button("Forget them for good", key="cached.gone", type="primary"):
            with st.spinner("Forgetting"):
                bridge.run(forget(store, model or None))
            _cached.clear()
            _forgetting.answered()
