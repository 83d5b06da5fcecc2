"""The view of a fusion cell: the instrument over the cell's own weight surface, and what the cell found.

Owns which fusion is looked at. The surface is made in the background, and the cell's figures are shown meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, get_args

import streamlit as st

from core.fusion import Fusion, fusions
from core.fusion.base import FUSIONS, spec_of
from core.fusion.normalise import Normalisation
from evals.evaluation.context import EvalContext
from evals.presentation.types import Chart, Text
from evals.tuning.tuner import called
from evals.tuning.workflow import TuningRequest
from workbench.behind.jobs import Key
from workbench.behind.weights import asked as weights_asked
from workbench.behind.weights import taken
from workbench.behind.weights.asked import Weighed
from workbench.notebooks.cells.fusion import FusionCell
from workbench.ui import blocks, errors, sending
from workbench.ui.outputs.base import CellView
from workbench.ui.outputs.grounds import ground_of
from workbench.ui.outputs.searching import WHERE, inline
from workbench.ui.weights import bench as weights_bench
from workbench.ui.weights.bench import WeightExplorer
from workbench.ui.weights.instrument import Controls, Stand

FINEST: Final = {2: 100, 3: 30, 4: 12}  # parts of the weights' sum: more points than that nobody can look at
NOTHING_TO_DRAG = "This output is older than what it came of. Run the cell, and its weights can be dragged again."


def draw(shown: CellView) -> None:
    """The answer, the instrument or how far it is, and the tables."""
    headline = [each for each in shown.output.blocks if isinstance(each, Text) and each.tone == "headline"]
    others = [each for each in shown.output.blocks if each not in headline]
    blocks.draw_all(headline, shown.key("headline"))
    drawn = False
    with errors.shown():
        drawn = _instrument(shown)
    figures = [each for each in others if isinstance(each, Chart)]
    if not drawn:
        blocks.draw_all(figures, shown.key("figures"))
    blocks.draw_all([each for each in others if each not in figures], shown.key("blocks"))


def _instrument(shown: CellView) -> bool:
    """Whether it is there to be dragged."""
    if shown.stale or not isinstance(shown.spec, FusionCell):
        blocks.draw(Text(text=NOTHING_TO_DRAG, tone="note"), shown.key("stale"))
        return False
    usual = _chosen(shown.output.values)
    if usual is None:
        return False
    ground, mark = ground_of(shown.context, shown.spec)
    fusion = weights_asked.fusion_named(shown.selected.variant, usual)
    looked = _looked(shown, shown.spec, ground, fusion)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        _controls(shown, fusion, usual)
    key = _key(shown, shown.spec, ground, mark, looked)
    work = partial(weights_asked.looked_over, ground, shown.spec.looked_split(shown.context, ground), looked)
    found: Weighed | None = sending.answered(shown.key("surface"), key, "Weight surface", work, shared=True)
    if found is None:
        return False
    about = f"Under {called(fusion)} alone:"
    weights_bench.draw(
        WeightExplorer(
            shown.key("fusion"), key, ground, found, _stand(shown), shown.select, _use(shown, shown.spec), about
        )
    )
    return True


def _chosen(values: Mapping[str, Any]) -> Fusion | None:
    """The fusion that the cell found best; of those that have a surface to drag over."""
    told = [values.get("chosen", {}), *values.get("surfaces", [])]
    specs = [each["fusion"] for each in told if each.get("fusion", {}).get("method") in weights_asked.methods()]
    return FUSIONS.read(specs[0]) if specs else None


def _looked(shown: CellView, spec: FusionCell, ground: EvalContext, fusion: Fusion) -> TuningRequest:
    base = spec.base(shown.context, ground).but(fusion=fusion)
    steps = min(spec.steps, FINEST.get(len(base.legs), spec.steps))
    return TuningRequest(base, spec.metric, steps, (fusion,), True, spec.seeded(shown.context))


def _key(shown: CellView, spec: FusionCell, ground: EvalContext, mark: str, looked: TuningRequest) -> Key:
    """All that the surface hangs on."""
    splits = f"{spec.looked_on} {shown.context.split_name(spec, ground)}"
    procedure = looked.procedure.model_dump_json()
    return ("cell surface", mark, looked.base.id, looked.metric, str(looked.steps), splits, procedure)


def _use(shown: CellView, spec: FusionCell) -> Callable[[str], None]:
    """What puts a kept variant into an evaluate cell behind this one."""

    def add(name: str) -> None:
        where = {each: value for each in WHERE if (value := getattr(spec, each)) is not None}
        shown.add(taken.KIND, taken.source(where, spec.metric, [*map(inline, spec.legs), name]))

    def draw_(name: str) -> None:
        st.button(
            "Use in an evaluate cell",
            icon=":material/leaderboard:",
            key=shown.key("use"),
            help="A cell behind this one, that scores it beside what it was made of.",
            on_click=add,
            args=(name,),
        )

    return draw_


def _stand(shown: CellView) -> Callable[[], Stand]:
    def said() -> Stand:
        place = shown.selected
        return Stand(place.weights, place.against, place.query)

    return said


# -- which fusion is looked at -----------------------------------------------------------------------------------------


def _controls(shown: CellView, fusion: Fusion, usual: Fusion) -> None:
    """The method, and its k or its normalisation. What the cell itself chooses among is its own affair."""

    def chosen(method: str = "", **option: str) -> None:
        if not method and not option:
            return
        if option:
            made = FUSIONS.read({**spec_of(fusion), **option})
        else:
            same = method == fusions.name_of(type(usual))
            made = usual if same else fusions[method]()
        told = weights_asked.fusion_told(made)
        shown.select(variant="" if made == usual else told)

    controls, name = Controls(shown.key("with"), chosen), fusions.name_of(type(fusion))
    controls.chooser("Fusion", "method", weights_asked.methods(), name, width=200)
    if (k := getattr(fusion, "k", None)) is not None:
        controls.number("k", "k", float(k), width=140)
    elif how := getattr(fusion, "normalize", None):
        controls.chooser("Normalisation", "normalize", list(get_args(Normalisation)), how, width=200)
