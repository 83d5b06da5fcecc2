"""How the open variant differs from another, by options and by lines; and its SQL."""

from __future__ import annotations

import asyncio
import html
from collections.abc import Sequence
from functools import partial

import streamlit as st

from core import bridge
from core.context import RequestContext
from core.pipeline.cost_estimate import embedded_at
from core.progress import Listener
from core.sql_export import ExportedSql, export_sql, vector_of
from core.store import collections
from core.store.engine import Store
from core.variant import Variant
from evals.display import Table
from evals.presentation.types import Text
from workbench.components import blocks, job_progress
from workbench.screens.variants.state import VariantsState, address
from workbench.services import variants
from workbench.services.cost_notice import ConsentNeeded
from workbench.services.variants import VariantEntry

LONGEST_LINE = 500


def difference(mine: VariantEntry, variant: Variant, others: Sequence[str], other: VariantEntry | None) -> None:
    """By options and by lines. `mine` is the text being edited."""
    address.select("Held against", "beside", others, other.name if other else "", empty="Choose another variant")
    if other is None:
        st.html(
            '<div class="rb-nothing">Choose another variant, and see in which options the two differ, those left at '
            "their defaults too.</div>"
        )
        return
    rows = variants.differences(variants.read(other.text), variant)
    if not rows:
        blocks.draw(Text(text="They are the same in every option."), "variants.same")
    else:
        table = Table.of(
            "Options", ("option", other.name, mine.name), [(row.where, row.one, row.other) for row in rows]
        )
        blocks.draw(table, "variants.rows")
    lines = variants.lines_between(other.text, mine.text)
    marks = {" ": "", "-": "gone", "+": "new"}
    shown = "".join(
        f'<span class="{marks[each.mark]}"><i>{each.mark}</i>{html.escape(each.text[:LONGEST_LINE]) or " "}</span>'
        for each in lines
    )
    st.html(f'<h4 class="rb-part">TOML, from {html.escape(other.name)}</h4><pre class="rb-lines">{shown}</pre>')


def sql(store: Store, variant: Variant, state: VariantsState, names: Sequence[str]) -> None:
    """The statement over a collection, as `rankbook sql` prints it."""
    if not names:
        st.html('<div class="rb-nothing">A statement is over a collection, and there is none yet.</div>')
        return
    where = st.columns([1, 2], vertical_alignment="bottom")
    with where[0]:
        address.select("Over the collection", "collection", names, state.collection)
    with where[1]:
        address.text(
            "With the query filled in",
            "query",
            state.query,
            placeholder="left empty, the statement has numbered parameters, as a service sends them",
        )
    query = state.query.strip()
    with st.spinner("Writing the statement", show_time=False):
        context = RequestContext(store, bridge.run(collections.get(store, state.collection)))
        made = bridge.run(export_sql(store, context.view, variant, query=query or None))
    for each in made.outside:
        blocks.draw(Text(text=f"Done outside the statement: {each}", tone="note"), "variants.outside")
    st.code(_filled(context, made, query) if query else made.script, language="sql", height=620)


def _filled(context: RequestContext, made: ExportedSql, query: str) -> str:
    """With the query filled in, once its vector is there."""
    if not made.needs_vector or made.model is None:
        return made.filled(query)
    key = ("query vector", context.store.where, context.view.name, made.model, query)
    work = partial(_embedded, context, made, query)
    vector = job_progress.result_with_consent("variants.sql", key, "Embedding the query", work)
    return made.script if vector is None else made.filled(query, vector)


async def _embedded(
    context: RequestContext,
    made: ExportedSql,
    query: str,
    _listener: Listener,
    _token: asyncio.Event,
    *,
    allowed: bool,
) -> Sequence[float] | ConsentNeeded | None:
    """A link must not send its query: only whoever presses the button does."""
    sends = embedded_at(context, made.model or "")
    if sends is not None and not allowed:
        return ConsentNeeded((str(sends),))
    return await vector_of(context, made, query)
