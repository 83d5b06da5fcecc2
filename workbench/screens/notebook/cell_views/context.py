"""The view of a context cell: its budget, the packed passages, what was left out, and the gain.

Packing is done by the cell; another budget is a change of the cell.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import streamlit as st

from core.errors import RankbookError
from evals.evaluation.context import EvalContext
from evals.presentation.types import Block, Chart, Code, Text
from workbench.components import blocks, document, feedback
from workbench.components.cards import badge_of
from workbench.components.theme import asset
from workbench.components.url_state import put
from workbench.notebooks.cells.base import find_query
from workbench.notebooks.cells.context import ContextCell
from workbench.screens.notebook.cell_views.base import CellView, context_of
from workbench.services.search import QueryLabels

LEAST, MOST, STEP = 50, 8000, 50  # tokens, for the slider; the box beside it takes any number
OVER: Final = 25  # labelled queries, over which the gain is shown where somebody asks for it
MOST_OVER: Final = 1000

_component = st.components.v2.component(
    "rankbook.context",
    html=asset("screens/notebook/cell_views/context.html"),
    css=f"{asset('components/assets/shared.css')}\n{asset('screens/notebook/cell_views/context.css')}",
    js=asset("screens/notebook/cell_views/context.js"),
)


def draw(view: CellView) -> None:
    """All of it. Outputs of older versions are drawn block by block."""
    spec, values = view.spec, view.output.values
    if not isinstance(spec, ContextCell) or "passages" not in values:
        blocks.draw_all(view.output.blocks, view.key("blocks"))
        return
    _budget(view, spec)
    sentences = [each for each in view.output.blocks if isinstance(each, Text)]
    blocks.draw_all(sentences, view.key("said"))
    ground = _ground(view, spec)
    _passages(view, spec, values, ground)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        _over(view, spec)
    blocks.draw_all([each for each in view.output.blocks if _is_curve(each)], view.key("curves"))
    with st.expander("The context as a model would read it", icon=":material/article:"):
        codes = [each for each in view.output.blocks if isinstance(each, Code)]
        blocks.draw_all([each.model_copy(update={"title": ""}) for each in codes], view.key("text"))


def _is_curve(block: Block) -> bool:
    """The bar and the tables are drawn by the component."""
    return isinstance(block, Chart) and block.title.startswith("Gain")


def _ground(view: CellView, spec: ContextCell) -> EvalContext | None:
    """None where the collection is gone; the packed passages can still be read."""
    try:
        return context_of(view.context, spec)[0]
    except RankbookError as error:
        feedback.draw_error(error)
        return None


# -- the controls ------------------------------------------------------------------------------------------------------


def _budget(view: CellView, spec: ContextCell) -> None:
    bounded = min(max(spec.budget, LEAST), MOST)
    slid, typed = put(view.key("slid"), bounded), put(view.key("typed"), spec.budget)

    def follow(key: str) -> None:
        if (value := st.session_state[key]) is not None:
            view.change({"budget": int(value)})

    with st.container(horizontal=True, vertical_alignment="bottom"):
        st.slider(
            "Budget in tokens", LEAST, MOST, bounded, STEP, key=slid, on_change=follow, args=(slid,), width="stretch"
        )
        st.number_input(
            "Budget",
            1,
            value=spec.budget,
            step=100,
            key=typed,
            on_change=follow,
            args=(typed,),
            width=140,
            label_visibility="collapsed",
        )


def _over(view: CellView, spec: ContextCell) -> None:
    key = put(view.key("over"), spec.over)

    def follow() -> None:
        view.change({"over": int(st.session_state[key] or 0) or None})

    st.number_input(
        "Gain by budget over so many labelled queries",
        0,
        MOST_OVER,
        spec.over,
        step=OVER,
        key=key,
        on_change=follow,
        width=330,
        help="Drawn by the seed. Each is searched and packed, which takes a while; 0 for none.",
    )


# -- the passages ------------------------------------------------------------------------------------------------------


@st.fragment
def _passages(view: CellView, spec: ContextCell, values: Mapping[str, Any], ctx: EvalContext | None) -> None:
    with feedback.draw_errors():
        key = view.key("packed")

        def opened() -> None:
            if (value := st.session_state[key].get("open")) is not None:
                view.select(document=str(value))

        judged = QueryLabels() if ctx is None else QueryLabels("", find_query(ctx, spec.query, spec.query_id).grades)
        passages = [{**each, "badge": badge_of(judged, each["item"])} for each in values["passages"]]
        told = {name: values[name] for name in ("budget", "tokens", "dropped")}
        _component(key=key, data={**told, "passages": passages}, on_open_change=opened)
        if ctx is not None and view.selected.document:
            chunks = view.context.variant(spec.variant, ctx).chunks
            document.show_document(
                ctx.store, ctx.view, chunks, view.selected.document, lambda: view.select(document="")
            )
