"""What the open variant differs in from another, option by option and line by line; and its SQL."""

from __future__ import annotations

import html
from collections.abc import Sequence

import streamlit as st

from core import bridge
from core.retriever import RequestContext
from core.sql_export import Exported, export, vector_of
from core.store import collections
from core.store.collections import View
from core.store.engine import Store
from core.variant import Variant
from workbench.behind.variants import text as variant_text
from workbench.behind.variants.asked import Asked, Entry
from workbench.book.output import Said, Table
from workbench.ui import address, blocks

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
        blocks.draw(Said(text="They are the same in every option."), "variants.same")
    else:
        table = Table.made(
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


def sql(store: Store, variant: Variant, asked: Asked, names: Sequence[str]) -> None:
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
    with st.spinner("Writing the statement", show_time=False):
        made, script = written(store, asked.collection, variant, asked.query.strip())
    for each in made.outside:
        blocks.draw(Said(text=f"Done outside the statement: {each}", tone="note"), "variants.outside")
    st.code(script, language="sql", height=620)


def written(store: Store, collection: str, variant: Variant, query: str) -> tuple[Exported, str]:
    view = bridge.run(collections.get(store, collection))
    return bridge.run(_written(store, view, variant, query))


async def _written(store: Store, view: View, variant: Variant, query: str) -> tuple[Exported, str]:
    made = await export(store, view, variant, query=query or None)
    if not query:
        return made, made.script
    return made, made.filled(query, await vector_of(RequestContext(store, view), made, query))
