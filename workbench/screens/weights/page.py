"""The weights page: how much each leg should count, found by dragging over everything that is labelled."""

from __future__ import annotations

import html
from dataclasses import replace
from functools import partial
from typing import get_args

import streamlit as st

from core import bridge
from core.fusion.normalise import Normalisation
from core.store import collections
from core.store.engine import Store
from core.variant import Variant
from evals.evaluation.context import EvalContext, tuning_split
from evals.types import DEFAULT_QUERY_SET
from workbench.components import job_progress, url_state
from workbench.components import weight_explorer as weights_bench
from workbench.components.open_collection import opened
from workbench.components.page import Page
from workbench.components.weight_explorer import Controls, SurfacePosition, WeightExplorer
from workbench.screens.weights import use as weights_use
from workbench.services import weights as weights_asked
from workbench.services.cost_notice import start_with_consent
from workbench.services.jobs import Key
from workbench.services.weights import Weighed, WeightsState

DEMO, FIRST_LEGS = "handbook", "vector,bm25"
OFFERED_LEGS = ["vector", "bm25", "fulltext", "trigram", "fuzzy"]
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
    asked = _filled(current(), names)
    st.html(TAGLINE)
    with st.container(key="where"):
        _what(store, asked, names)
        ground, mark = opened(store, asked.collection, asked.query_set)
        asked = replace(asked, split=asked.split or tuning_split(ground.labelled))
        base = weights_asked.base_of(asked, ground.view.default_chunk_set)
        _how(asked, ground, base)
        deeper = st.empty()
    key = ("weights", mark, base.id, *asked.surface)
    found = _waited(key, ground, asked)
    if found is not None:
        if found.tuned.deeper is not None:
            deeper.html(f'<p class="rb-summary">{html.escape(found.tuned.deeper.sentence)}</p>')
        use = partial(weights_use.draw, NAME, store, asked)
        weights_bench.draw(WeightExplorer(NAME, key, ground, found, _stand, go, use))


def current() -> WeightsState:
    """What the address says."""
    return WeightsState.of(url_state.said())


def go(**changes: str) -> None:
    """Change it. In a callback, so that the run that follows sees it from its first line."""
    url_state.move_to(current().but(**changes).parameters())


def _stand() -> SurfacePosition:
    said = current()
    return SurfacePosition(said.weights, said.against, said.query)


controls = Controls(NAME, go)


def _filled(asked: WeightsState, names: list[str]) -> WeightsState:
    """With what holds where the address says nothing."""
    return replace(
        asked,
        collection=asked.collection or (DEMO if DEMO in names else names[0]),
        query_set=asked.query_set or DEFAULT_QUERY_SET,
        legs="" if asked.variant else asked.legs or FIRST_LEGS,
        metric=asked.metric or weights_asked.METRICS[0],
    )


def _what(store: Store, asked: WeightsState, names: list[str]) -> None:
    sets = bridge.run(weights_asked.query_sets_of(store, asked.collection))
    several = len(sets) > 1 or asked.query_set not in (*sets, DEFAULT_QUERY_SET)
    where = iter(
        st.columns([2, *([2] if several else []), 2, *([] if asked.variant else [4])], vertical_alignment="bottom")
    )
    with next(where):
        controls.chooser("Collection", "collection", names, asked.collection)
    if several:
        with next(where):
            controls.chooser("Query set", "query_set", sets, asked.query_set)
    presets = ["", *weights_asked.weighable()]
    with next(where):
        controls.chooser("Weigh", "variant", presets, asked.variant, lambda name: name or "Legs of your choice")
    if not asked.variant:
        with next(where):
            controls.several("Legs", "legs", OFFERED_LEGS, asked.legs.split(","), 4)


def _how(asked: WeightsState, ground: EvalContext, base: Variant) -> None:
    row = st.columns(5, vertical_alignment="bottom")
    with row[0]:
        metrics = list(dict.fromkeys([*weights_asked.METRICS, asked.metric]))
        controls.chooser("Metric", "metric", metrics, asked.metric)
    with row[1]:
        method = weights_asked.method_of(base)
        controls.chooser("Fusion", "fusion", list(dict.fromkeys([*weights_asked.methods(), method])), method)
    with row[2]:
        if (k := getattr(base.fusion, "k", None)) is not None:
            controls.number("k", "k", float(k))
        elif how := getattr(base.fusion, "normalize", None):
            controls.chooser("Normalisation", "normalize", list(get_args(Normalisation)), how)
    with row[3]:
        depth = weights_asked.depth_of(base)
        controls.number("Depth of each leg", "depth", float(depth), DEEPEST, 10.0, help=DEPTH_HELP)
    with row[4]:
        controls.chooser("Labelled queries", "split", [*ground.labelled.splits, "all"], asked.split)


def _waited(key: Key, ground: EvalContext, asked: WeightsState) -> Weighed | None:
    """The surface; None where somebody stopped it. It goes on where the page is left, and is found again."""
    what = (key, "Weight surface", partial(weights_asked.weighed, ground, asked))
    work = start_with_consent(*what)
    if not work.wait(job_progress.AT_ONCE):
        slot = st.empty()
        with slot.container():
            bar = st.progress(0.0, "Beginning")
            st.button("Stop", on_click=work.stop, icon=":material/stop_circle:")
            while not work.wait(BEAT):
                bar.progress(*work.told)
        slot.empty()
    return job_progress.result_with_consent(NAME, *what, shared=True)


PAGE = Page("Weights", ":material/tune:", render)
