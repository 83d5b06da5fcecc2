"""The view of a fusion cell: the instrument over the cell's weight surface, and the cell's results.

Owns which fusion is selected. The surface is computed in the background; the cell's figures are shown meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, get_args

import streamlit as st

from core.fusion import Fusion, fusions
from core.fusion.base import FUSIONS, spec_of
from core.fusion.normalise import Normalisation
from evals.presentation.types import Chart, Text
from evals.tuning.tuner import fusion_label
from evals.tuning.workflow import TuningRequest
from workbench.components import blocks, feedback, job_progress, weight_explorer
from workbench.components.url_state import Chooser
from workbench.components.weight_explorer import SurfacePosition, WeightExplorer
from workbench.notebooks import insert
from workbench.notebooks.cells.fusion import FusionCell
from workbench.screens.notebook.cell_views.base import WHERE, CellView, context_of, inline
from workbench.services import weights
from workbench.services.weights import WeighedSurface

FINEST: Final = {2: 100, 3: 30, 4: 12}  # parts of the weights' sum: more points than that nobody can look at
NOTHING_TO_DRAG = "This output is older than what it came of. Run the cell, and its weights can be dragged again."


def draw(view: CellView) -> None:
    """The answer, the instrument or its progress, and the tables."""
    headline = [each for each in view.output.blocks if isinstance(each, Text) and each.tone == "headline"]
    others = [each for each in view.output.blocks if each not in headline]
    blocks.draw_all(headline, view.key("headline"))
    drawn = False
    with feedback.draw_errors():
        drawn = _instrument(view)
    figures = [each for each in others if isinstance(each, Chart)]
    if not drawn:
        blocks.draw_all(figures, view.key("figures"))
    blocks.draw_all([each for each in others if each not in figures], view.key("blocks"))


def _instrument(view: CellView) -> bool:
    """Whether it could be drawn."""
    if view.stale or not isinstance(view.spec, FusionCell):
        blocks.draw(Text(text=NOTHING_TO_DRAG, tone="note"), view.key("stale"))
        return False
    told = [view.output.values.get("chosen", {}), *view.output.values.get("surfaces", [])]
    specs = [each["fusion"] for each in told if each.get("fusion", {}).get("method") in weights.methods()]
    usual = FUSIONS.read(specs[0]) if specs else None
    if usual is None:
        return False
    ground, mark = context_of(view.context, view.spec)
    fusion = weights.fusion_from(view.selected.variant, usual)
    base = view.spec.base(view.context, ground).but(fusion=fusion)
    steps = min(view.spec.steps, FINEST.get(len(base.legs), view.spec.steps))
    split, procedure = view.spec.looked_split(view.context, ground), view.spec.seeded(view.context)
    looked = TuningRequest(base, split, view.spec.metric, steps, (fusion,), True, procedure)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        _controls(view, fusion, usual)
    splits = f"{view.spec.looked_on} {view.context.split_name(view.spec, ground)}"
    key = ("cell surface", mark, looked.base.id, looked.metric, str(looked.steps), splits, procedure.model_dump_json())
    work = partial(weights.weigh_request, ground, looked)
    found: WeighedSurface | None = job_progress.result_with_consent(
        view.key("surface"), key, "Weight surface", work, shared=True
    )
    if found is None:
        return False
    about = f"Under {fusion_label(fusion)} alone:"

    def said() -> SurfacePosition:
        state = view.selected
        return SurfacePosition(state.weights, state.against, state.query)

    weight_explorer.draw(
        WeightExplorer(view.key("fusion"), key, ground, found, said, view.select, _use(view, view.spec), about)
    )
    return True


def _use(view: CellView, spec: FusionCell) -> Callable[[str], None]:
    """A button that adds an evaluate cell with the kept variant."""

    def add(name: str) -> None:
        where = {each: value for each in WHERE if (value := getattr(spec, each)) is not None}
        view.add(insert.KIND, insert.source(where, spec.metric, [*map(inline, spec.legs), name]))

    def draw_(name: str) -> None:
        st.button(
            "Use in an evaluate cell",
            icon=":material/leaderboard:",
            key=view.key("use"),
            help="A cell behind this one, that scores it beside what it was made of.",
            on_click=add,
            args=(name,),
        )

    return draw_


# -- which fusion is looked at -----------------------------------------------------------------------------------------


def _controls(view: CellView, fusion: Fusion, usual: Fusion) -> None:
    """The method, and its k or its normalisation."""

    def chosen(method: str = "", **option: str) -> None:
        if not method and not option:
            return
        if option:
            made = FUSIONS.read({**spec_of(fusion), **option})
        else:
            same = method == fusions.name_of(type(usual))
            made = usual if same else fusions[method]()
        told = weights.fusion_text(made)
        view.select(variant="" if made == usual else told)

    controls, name = Chooser(view.key("with"), chosen), fusions.name_of(type(fusion))
    controls.select("Fusion", "method", weights.methods(), name, width=200)
    if (k := getattr(fusion, "k", None)) is not None:
        controls.number("k", "k", float(k), width=140)
    elif how := getattr(fusion, "normalize", None):
        controls.select("Normalisation", "normalize", list(get_args(Normalisation)), how, width=200)
