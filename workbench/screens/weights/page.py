"""The weights page: how much each leg should count, found by dragging over everything that is labelled."""

from __future__ import annotations

import html
from dataclasses import replace
from functools import partial
from typing import get_args

import streamlit as st

from core import bridge
from core.fusion.normalise import Normalisation
from core.legs import leg_descriptions
from core.store import collections
from core.store.engine import Store
from core.variant import Variant
from evals.evaluation.context import EvalContext, tuning_split
from evals.labels import query_sets
from evals.types import DEFAULT_QUERY_SET
from workbench.components import job_progress, weight_explorer
from workbench.components.page import WorkbenchPage
from workbench.components.url_state import Address
from workbench.components.weight_explorer import SurfacePosition, WeightExplorer, leg_label
from workbench.screens.weights import use as weights_use
from workbench.services import weights
from workbench.services.context import open_collection
from workbench.services.cost_notice import start_with_consent
from workbench.services.jobs import Key
from workbench.services.weights import WeighedSurface, WeightsState

DEMO, FIRST_LEGS = "handbook", "vector,bm25"
DEEPEST = 10_000.0
DEPTH_HELP = "How many candidates each leg fetches. What is kept has this depth; 0 is the variant's own."
BEAT = 0.25  # seconds between two looks at work under way
TAGLINE = '<p class="rb-tagline">How much should each leg count? Drag, and every labelled query answers.</p>'
NAME = "weights"  # begins the keys of all widgets here


def render(store: Store) -> None:
    names = [row.name for row in bridge.run(collections.listed(store))]
    if not names:
        st.html('<div class="rb-nothing">There is no collection yet. The Collections page adds one.</div>')
        return
    state = _filled(address.current(), names)
    st.html(TAGLINE)
    with st.container(key="where"):
        _what(store, state, names)
        ground, mark = open_collection(store, state.collection, state.query_set)
        state = replace(state, split=state.split or tuning_split(ground.labelled))
        base = weights.base_of(state, ground.view.default_chunk_set)
        _how(state, ground, base)
        deeper = st.empty()
    key = ("weights", mark, base.id, *state.surface)
    found = _waited(key, ground, state)
    if found is not None:
        if found.tuned.deeper is not None:
            deeper.html(f'<p class="rb-summary">{html.escape(found.tuned.deeper.sentence)}</p>')
        use = partial(weights_use.draw, NAME, store, state)
        weight_explorer.draw(WeightExplorer(NAME, key, ground, found, _stand, address.go, use))


address = Address(NAME, WeightsState)


def _stand() -> SurfacePosition:
    state = address.current()
    return SurfacePosition(state.weights, state.against, state.query)


def _filled(state: WeightsState, names: list[str]) -> WeightsState:
    """With what holds where the address says nothing."""
    return replace(
        state,
        collection=state.collection or (DEMO if DEMO in names else names[0]),
        query_set=state.query_set or DEFAULT_QUERY_SET,
        legs="" if state.variant else state.legs or FIRST_LEGS,
        metric=state.metric or weights.METRICS[0],
    )


def _what(store: Store, state: WeightsState, names: list[str]) -> None:
    sets = [each.name for each in bridge.run(query_sets.summaries(store, state.collection))]
    several = len(sets) > 1 or state.query_set not in (*sets, DEFAULT_QUERY_SET)
    where = iter(
        st.columns([2, *([2] if several else []), 2, *([] if state.variant else [4])], vertical_alignment="bottom")
    )
    with next(where):
        address.select("Collection", "collection", names, state.collection)
    if several:
        with next(where):
            address.select("Query set", "query_set", sets, state.query_set)
    presets = ["", *weights.weighable()]
    with next(where):
        address.select("Weigh", "variant", presets, state.variant, named=lambda name: name or "Legs of your choice")
    if not state.variant:
        with next(where):
            address.several("Legs", "legs", list(leg_descriptions()), state.legs.split(","), 4, named=leg_label)


def _how(state: WeightsState, ctx: EvalContext, base: Variant) -> None:
    row = st.columns(5, vertical_alignment="bottom")
    with row[0]:
        metrics = list(dict.fromkeys([*weights.METRICS, state.metric]))
        address.select("Metric", "metric", metrics, state.metric)
    with row[1]:
        method = weights.method_of(base)
        address.select("Fusion", "fusion", list(dict.fromkeys([*weights.methods(), method])), method)
    with row[2]:
        if (k := getattr(base.fusion, "k", None)) is not None:
            address.number("k", "k", float(k))
        elif how := getattr(base.fusion, "normalize", None):
            address.select("Normalisation", "normalize", list(get_args(Normalisation)), how)
    with row[3]:
        depth = weights.depth_of(base)
        address.number("Depth of each leg", "depth", float(depth), DEEPEST, 10.0, help=DEPTH_HELP)
    with row[4]:
        address.select("Labelled queries", "split", [*ctx.labelled.splits, "all"], state.split)


def _waited(key: Key, ctx: EvalContext, state: WeightsState) -> WeighedSurface | None:
    """The surface; None where somebody stopped it. It goes on where the page is left, and is found again."""
    what = (key, "Weight surface", partial(weights.weigh, ctx, state))
    work = start_with_consent(*what)
    if not work.wait(job_progress.AT_ONCE):
        slot = st.empty()
        with slot.container():
            bar = st.progress(0.0, "Beginning")
            st.button("Stop", on_click=work.stop, icon=":material/stop_circle:")
            while not work.wait(BEAT):
                bar.progress(*work.progress)
        slot.empty()
    return job_progress.result_with_consent(NAME, *what, shared=True)


PAGE = WorkbenchPage("Weights", ":material/tune:", render)
