"""The view of a context cell: its budget to be changed, the packed passages in it, what was left out, and the gain.

Packing is the cell's; a changed budget is a changed cell.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import streamlit as st

from core.errors import RankbookError
from evals.evaluation.context import EvalContext
from evals.presentation.types import Block, Chart, Code, Text
from workbench.behind.search.labelling import QueryLabels
from workbench.notebooks.cells.base import asked
from workbench.notebooks.cells.context import ContextCell
from workbench.ui import blocks, document, errors
from workbench.ui.address import put
from workbench.ui.cards import badge_of
from workbench.ui.outputs.base import CellView
from workbench.ui.outputs.beside import beside
from workbench.ui.outputs.grounds import ground_of
from workbench.ui.theme import read

LEAST, MOST, STEP = 50, 8000, 50  # tokens, for the slider; the box beside it takes any number
OVER: Final = 25  # labelled queries, over which the gain is shown where somebody asks for it
MOST_OVER: Final = 1000

_component = st.components.v2.component(
    "rankbook.context",
    html=beside("context.html"),
    css=f"{read('shared.css')}\n{beside('context.css')}",
    js=beside("context.js"),
)


def draw(shown: CellView) -> None:
    """All of it. What an older version made has no passages, and is drawn block by block."""
    spec, values = shown.spec, shown.output.values
    if not isinstance(spec, ContextCell) or "passages" not in values:
        blocks.draw_all(shown.output.blocks, shown.key("blocks"))
        return
    _budget(shown, spec)
    sentences = [each for each in shown.output.blocks if isinstance(each, Text)]
    blocks.draw_all(sentences, shown.key("said"))
    ground = _ground(shown, spec)
    _passages(shown, spec, values, ground)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        _over(shown, spec)
    blocks.draw_all([each for each in shown.output.blocks if _is_curve(each)], shown.key("curves"))
    with st.expander("The context as a model would read it", icon=":material/article:"):
        codes = [each for each in shown.output.blocks if isinstance(each, Code)]
        blocks.draw_all([each.model_copy(update={"title": ""}) for each in codes], shown.key("text"))


def _is_curve(block: Block) -> bool:
    """The bar and the tables are drawn by the component."""
    return isinstance(block, Chart) and block.title.startswith("Gain")


def _ground(shown: CellView, spec: ContextCell) -> EvalContext | None:
    """None where the collection is gone; what was packed can still be read."""
    try:
        return ground_of(shown.context, spec)[0]
    except RankbookError as error:
        errors.draw(error)
        return None


# -- the controls ------------------------------------------------------------------------------------------------------


def _budget(shown: CellView, spec: ContextCell) -> None:
    bounded = min(max(spec.budget, LEAST), MOST)
    slid, typed = put(shown.key("slid"), bounded), put(shown.key("typed"), spec.budget)

    def follow(key: str) -> None:
        if (value := st.session_state[key]) is not None:
            shown.change({"budget": int(value)})

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


def _over(shown: CellView, spec: ContextCell) -> None:
    key = put(shown.key("over"), spec.over)

    def follow() -> None:
        shown.change({"over": int(st.session_state[key] or 0) or None})

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
def _passages(shown: CellView, spec: ContextCell, values: Mapping[str, Any], ground: EvalContext | None) -> None:
    with errors.shown():
        key = shown.key("packed")

        def opened() -> None:
            if (value := st.session_state[key].get("open")) is not None:
                shown.select(document=str(value))

        judged = _judged(spec, ground)
        passages = [{**each, "badge": badge_of(judged, each["item"])} for each in values["passages"]]
        told = {name: values[name] for name in ("budget", "tokens", "dropped")}
        _component(key=key, data={**told, "passages": passages}, on_open_change=opened)
        if ground is not None and shown.selected.document:
            chunks = shown.context.variant(spec.variant, ground).chunks
            document.show(ground.store, ground.view, chunks, shown.selected.document, lambda: shown.select(document=""))


def _judged(spec: ContextCell, ground: EvalContext | None) -> QueryLabels:
    if ground is None:
        return QueryLabels()
    return QueryLabels("", asked(ground, spec.query, spec.query_id).grades)
