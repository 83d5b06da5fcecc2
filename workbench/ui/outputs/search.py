"""The view of a search cell: what is asked, variants as columns, why a document is where it is, and each one's SQL.

Owns the controls around the columns. They change the cell through `Shown.change`, or say in the address what is looked
at; nothing is searched here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import streamlit as st

from core.errors import RankbookError
from core.types import Query
from core.variant import Variant
from evals.evaluation.context import EvalContext
from evals.metrics.scoring import relevant_queries
from evals.presentation.types import Block, SearchResults
from evals.types import QuerySplit
from workbench.notebooks.cells.search import SearchCell
from workbench.ui import blocks, document, errors
from workbench.ui.address import put
from workbench.ui.outputs import search_columns, search_sql, search_why
from workbench.ui.outputs.base import CellView
from workbench.ui.outputs.grounds import ground_of
from workbench.ui.state import LONGEST_QUERY

Pick = Literal["worst", "most-different"]


def draw(shown: CellView) -> None:
    """All of it; where the collection is gone, what was found is still there to be read."""
    before, hits, after = _parted(shown.output.blocks)
    if hits is None or not isinstance(shown.spec, SearchCell):
        blocks.draw_all(shown.output.blocks, shown.key("blocks"))
        return
    try:
        ground, mark = ground_of(shown.context, shown.spec)
        columns = shown.spec.columns(shown.context, ground)
    except RankbookError as error:
        errors.draw(error)
        blocks.draw_all(shown.output.blocks, shown.key("blocks"))
        return
    _asking(shown, hits, ground)
    blocks.draw_all(before, shown.key("before"))
    _found(shown, hits, ground, mark, columns)
    blocks.draw_all(after, shown.key("after"))


def _parted(shown: tuple[Block, ...]) -> tuple[tuple[Block, ...], SearchResults | None, tuple[Block, ...]]:
    """What stands above the columns, the columns, and what stands below."""
    at = next((at for at, block in enumerate(shown) if isinstance(block, SearchResults)), None)
    if at is None:
        return (), None, ()
    hits = shown[at]
    return shown[:at], hits if isinstance(hits, SearchResults) else None, shown[at + 1 :]


@st.fragment
def _found(shown: CellView, hits: SearchResults, ground: EvalContext, mark: str, columns: list[Variant]) -> None:
    """What a click on a card has to answer at once: nothing around it is drawn again."""
    with errors.shown():
        above = st.container()
        asked = search_why.asked(shown, hits, columns)
        with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
            search_why.box(shown, asked)
            choice = search_sql.chosen(shown, columns)
        account = None
        with errors.shown():  # the columns are drawn whatever becomes of it
            account = search_why.draw(shown, ground, mark, hits, columns, asked)
        with above:
            search_columns.draw(shown, hits, ground, asked, account)
        if choice is not None:
            search_sql.draw(shown, ground, mark, choice, hits.query)
        _document(shown, ground, columns)


def _document(shown: CellView, ground: EvalContext, columns: list[Variant]) -> None:
    place = shown.selected
    column = next((each for each in columns if each.name == place.variant), None)
    if place.document and column is not None:
        closed: Callable[[], None] = lambda: shown.select(document="", variant="")  # noqa: E731
        document.show(ground.store, ground.view, column.chunks, place.document, closed)


# -- what is asked -----------------------------------------------------------------------------------------------------


def _asking(shown: CellView, hits: SearchResults, ground: EvalContext) -> None:
    split = _split(shown, ground)
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        _free(shown, hits)
        if split is not None:
            _labelled(shown, hits, split.queries)
            _steps(shown, hits, list(split.queries))
            _picks(shown, bool(relevant_queries(split.grades)))


def _split(shown: CellView, ground: EvalContext) -> QuerySplit | None:
    """The queries to leaf through; None where the collection has none."""
    if not ground.labelled.queries:
        return None
    return ground.any_split(shown.context.split_name(shown.spec, ground))


def _free(shown: CellView, hits: SearchResults) -> None:
    key = put(shown.key("query"), hits.query)

    def typed() -> None:
        if text := (st.session_state[key] or "").strip():
            _ask(shown, query=text)

    st.text_input(
        "Query", hits.query, key=key, max_chars=LONGEST_QUERY, on_change=typed, icon=":material/search:", width=430
    )


def _labelled(shown: CellView, hits: SearchResults, queries: Mapping[str, Query]) -> None:
    asked = hits.query_id if hits.query_id in queries else None
    key = put(shown.key("labelled"), asked)

    def chosen() -> None:
        if found := st.session_state[key]:
            _ask(shown, query_id=found)

    st.selectbox(
        f"Labelled queries ({len(queries):,})",
        list(queries),
        None if asked is None else list(queries).index(asked),
        format_func=lambda each: queries[each].text,
        key=key,
        placeholder="Choose a labelled query",
        on_change=chosen,
        width=330,
    )


def _steps(shown: CellView, hits: SearchResults, queries: list[str]) -> None:
    at = queries.index(hits.query_id) if hits.query_id in queries else None
    for name, icon, said, to in (
        (
            "previous",
            ":material/chevron_left:",
            "The labelled query before",
            len(queries) - 1 if at is None else at - 1,
        ),
        ("next", ":material/chevron_right:", "The next labelled query", 0 if at is None else at + 1),
    ):
        there = 0 <= to < len(queries)
        st.button(
            "",
            icon=icon,
            help=said,
            key=shown.key(name),
            disabled=not there,
            on_click=_ask,
            args=(shown,),
            kwargs={"query_id": queries[to]} if there else {},
        )


def _picks(shown: CellView, scorable: bool) -> None:
    picks: dict[Pick, tuple[str, str]] = {
        "worst": ("Worst", "The labelled query that the first column does worst on"),
        "most-different": ("Most different", "The labelled query over which the columns' scores differ most"),
    }
    for pick, (label, said) in picks.items():
        st.button(
            label,
            help=said,
            key=shown.key(pick),
            disabled=not scorable,
            on_click=_ask,
            args=(shown,),
            kwargs={"pick": pick},
        )


def _ask(shown: CellView, **what: Any) -> None:
    """Another query in the cell, in the place of whatever it asks now."""
    shown.change({"query": None, "query_id": None, "pick": None, **what})
