"""The view of a search cell: the query, variants as columns, explanations of documents, and SQL.

Controls change the cell through `CellView.change`, or the selection in the address; nothing is searched here.
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
from workbench.components import blocks, document, feedback
from workbench.components.url_state import put
from workbench.notebooks.cells.search import SearchCell
from workbench.screens.notebook.cell_views import explanation, search_columns, statement
from workbench.screens.notebook.cell_views.base import CellView, context_of
from workbench.services.search import LONGEST_QUERY

Pick = Literal["worst", "most-different"]


def draw(view: CellView) -> None:
    """All of it; without the collection, the kept results are still drawn."""
    before, hits, after = _parted(view.output.blocks)
    if hits is None or not isinstance(view.spec, SearchCell):
        blocks.draw_all(view.output.blocks, view.key("blocks"))
        return
    try:
        ground, mark = context_of(view.context, view.spec)
        columns = view.spec.columns(view.context, ground)
    except RankbookError as error:
        feedback.draw_error(error)
        blocks.draw_all(view.output.blocks, view.key("blocks"))
        return
    split = None if not ground.labelled.queries else ground.any_split(view.context.split_name(view.spec, ground))
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        key = put(view.key("query"), hits.query)

        def typed() -> None:
            if text := (st.session_state[key] or "").strip():
                _ask(view, query=text)

        st.text_input(
            "Query", hits.query, key=key, max_chars=LONGEST_QUERY, on_change=typed, icon=":material/search:", width=430
        )
        if split is not None:
            _labelled(view, hits, split.queries)
            _steps(view, hits, list(split.queries))
            picks: dict[Pick, tuple[str, str]] = {
                "worst": ("Worst", "The labelled query that the first column does worst on"),
                "most-different": ("Most different", "The labelled query over which the columns' scores differ most"),
            }
            for pick, (label, said) in picks.items():
                st.button(
                    label,
                    help=said,
                    key=view.key(pick),
                    disabled=not bool(relevant_queries(split.grades)),
                    on_click=_ask,
                    args=(view,),
                    kwargs={"pick": pick},
                )
    blocks.draw_all(before, view.key("before"))
    _found(view, hits, ground, mark, columns)
    blocks.draw_all(after, view.key("after"))


def _parted(shown: tuple[Block, ...]) -> tuple[tuple[Block, ...], SearchResults | None, tuple[Block, ...]]:
    """The blocks above the columns, the columns, and the blocks below."""
    at = next((at for at, block in enumerate(shown) if isinstance(block, SearchResults)), None)
    if at is None:
        return (), None, ()
    hits = shown[at]
    return shown[:at], hits if isinstance(hits, SearchResults) else None, shown[at + 1 :]


@st.fragment
def _found(view: CellView, hits: SearchResults, ctx: EvalContext, mark: str, columns: list[Variant]) -> None:
    """A fragment, so that a click on a card redraws nothing around it."""
    with feedback.draw_errors():
        above = st.container()
        asked = explanation.asked(view, hits, columns)
        with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
            explanation.box(view, asked)
            choice = statement.chosen(view, columns)
        account = None
        with feedback.draw_errors():  # the columns are drawn whatever becomes of it
            account = explanation.draw(view, ctx, mark, hits, columns, asked)
        with above:
            search_columns.draw(view, hits, ctx, asked, account)
        if choice is not None:
            statement.draw(view, ctx, mark, choice, hits.query)
        _document(view, ctx, columns)


def _document(view: CellView, ctx: EvalContext, columns: list[Variant]) -> None:
    state = view.selected
    column = next((each for each in columns if each.name == state.variant), None)
    if state.document and column is not None:
        closed: Callable[[], None] = lambda: view.select(document="", variant="")  # noqa: E731
        document.show_document(ctx.store, ctx.view, column.chunks, state.document, closed)


# -- what is asked -----------------------------------------------------------------------------------------------------


def _labelled(view: CellView, hits: SearchResults, queries: Mapping[str, Query]) -> None:
    asked = hits.query_id if hits.query_id in queries else None
    key = put(view.key("labelled"), asked)

    def chosen() -> None:
        if found := st.session_state[key]:
            _ask(view, query_id=found)

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


def _steps(view: CellView, hits: SearchResults, queries: list[str]) -> None:
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
            key=view.key(name),
            disabled=not there,
            on_click=_ask,
            args=(view,),
            kwargs={"query_id": queries[to]} if there else {},
        )


def _ask(view: CellView, **what: Any) -> None:
    """Set another query in the cell."""
    view.change({"query": None, "query_id": None, "pick": None, **what})
