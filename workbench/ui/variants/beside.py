"""What the open variant differs in from another, option by option and line by line; and its SQL."""

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
from core.sql_export import ExportedSql, export, vector_of
from core.store import collections
from core.store.engine import Store
from core.variant import Variant
from evals.display import Table
from evals.presentation.types import Text
from workbench.behind.sending import ConsentNeeded
from workbench.behind.variants import text as variant_text
from workbench.behind.variants.asked import Entry, VariantsState
from workbench.ui import address, blocks, sending

PAGE = "variants"
LONGEST_LINE = 500


def difference(mine: Entry, variant: Variant, others: Sequence[str], other: Entry | None) -> None:
    """Both ways to see it. `mine` is the text in hand, saved or not."""
    address.chooser(PAGE, "Held against", "beside", others, other.name if other else "", empty="Choose another variant")
    if other is None:
        st.html(
            '<div class="rb-nothing">Choose another variant, and see in which options the two differ, those left at '
            "their defaults too.</div>"
        )
        return
    rows = variant_text.differing(variant_text.read(other.text), variant)
    if not rows:
        blocks.draw(Text(text="They are the same in every option."), "variants.same")
    else:
        table = Table.of(
            "Options", ("option", other.name, mine.name), [(row.where, row.one, row.other) for row in rows]
        )
        blocks.draw(table, "variants.rows")
    lines = variant_text.lines_between(other.text, mine.text)
    marks = {" ": "", "-": "gone", "+": "new"}
    shown = "".join(
        f'<span class="{marks[each.mark]}"><i>{each.mark}</i>{html.escape(each.text[:LONGEST_LINE]) or " "}</span>'
        for each in lines
    )
    st.html(f'<h4 class="rb-part">TOML, from {html.escape(other.name)}</h4><pre class="rb-lines">{shown}</pre>')


def sql(store: Store, variant: Variant, asked: VariantsState, names: Sequence[str]) -> None:
    """The statement over a collection, as `rankbook sql` prints it."""
    if not names:
        st.html('<div class="rb-nothing">A statement is over a collection, and there is none yet.</div>')
        return
    where = st.columns([1, 2], vertical_alignment="bottom")
    with where[0]:
        address.chooser(PAGE, "Over the collection", "collection", names, asked.collection)
    with where[1]:
        address.text(
            PAGE,
            "With the query filled in",
            "query",
            asked.query,
            placeholder="left empty, the statement has numbered parameters, as a service sends them",
        )
    query = asked.query.strip()
    with st.spinner("Writing the statement", show_time=False):
        context = RequestContext(store, bridge.run(collections.get(store, asked.collection)))
        made = bridge.run(export(store, context.view, variant, query=query or None))
    for each in made.outside:
        blocks.draw(Text(text=f"Done outside the statement: {each}", tone="note"), "variants.outside")
    st.code(_filled(context, made, query) if query else made.script, language="sql", height=620)


def _filled(context: RequestContext, made: ExportedSql, query: str) -> str:
    """With the query filled in, as soon as there is the vector that the statement wants."""
    if not made.needs_vector or made.model is None:
        return made.filled(query)
    key = ("query vector", context.store.where, context.view.name, made.model, query)
    work = partial(_embedded, context, made, query)
    vector = sending.answered("variants.sql", key, "Embedding the query", work)
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
    """A link is nobody's wish to send its query. Whoever presses may, as whoever searches."""
    sends = embedded_at(context, made.model or "")
    if sends is not None and not allowed:
        return ConsentNeeded((str(sends),))
    return await vector_of(context, made, query)
