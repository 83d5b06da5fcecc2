"""What the weights component is given: adding and sorting it is fusing, and equal values stay equal."""

from __future__ import annotations

import base64
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import SpecError, UnknownName
from core.fusion import Fusion, LinearFusion, RbcFusion, RrfFusion
from core.legs.bm25 import Bm25Leg
from core.legs.vector import VectorLeg
from core.types import Query
from core.variant import Rollup, Variant
from evals.evaluation.context import tuning_split
from evals.runs.batch_fusion import FusionArrays, ResultCut, fused
from evals.runs.rankings import LegRankings, Ranking
from evals.tuning.sweep import sweep
from evals.tuning.tuner import TuningProcedure, tune
from evals.tuning.workflow import Legs
from evals.types import LabelledQueries, QuerySplit
from tests.effort import examples
from workbench.services import weight_payload
from workbench.services import weights as weights_asked
from workbench.services.weights import Weighed, WeightsState

STEPS = 4
QUERIES = ("p", "q", "r")
FUSIONS = [RrfFusion(), RrfFusion(k=0, absent="bottom_rank"), RrfFusion(absent="drop"), RbcFusion(), LinearFusion(),
           LinearFusion(normalize="zscore", absent="least")]  # fmt: skip


def made(
    rankings: list[dict[str, Ranking]], fusion: Fusion, cut: ResultCut, grades: dict[str, dict[str, int]]
) -> Weighed:
    own = (VectorLeg(weight=0.6), Bm25Leg(weight=0.3), VectorLeg(label="<b>other</b>", weight=0.1))
    base = Variant(name="<i>base</i>", legs=own[: len(rankings)], fusion=fusion)
    found = tuple(
        LegRankings(name, leg, 9, ranked) for name, leg, ranked in zip(base.leg_names, base.legs, rankings, strict=True)
    )
    split = QuerySplit("test", {query: Query(query, f"{query}?", "kind") for query in QUERIES}, grades)
    surface = sweep(found, split, fusion, steps=STEPS, cut=cut)
    tuned = tune(surface, TuningProcedure(folds=2, repeats=2, samples=100))
    return Weighed(base, split, Legs(found, cut), FusionArrays.of(found), tuned)


def few(fusion: Fusion = FUSIONS[0]) -> Weighed:
    """Two legs of which one knows `a` and the other `b`."""
    one = {query: Ranking(("b", "c", "a"), (3.0, 2.0, 1.0)) for query in QUERIES}
    other = {query: Ranking(("a", "c"), (9.0, 1.0)) for query in QUERIES}
    return made([one, other], fusion, ResultCut(), {"p": {"a": 2}, "q": {"b": 1, "c": 1}, "r": {"c": 3}})


@st.composite
def weighed(draw: st.DrawFn) -> Weighed:
    """Few units and few scores: ties abound."""
    units = [f"{item}{number}" for item in "abcde" for number in range(2)]
    rankings = []
    for _ in range(draw(st.integers(2, 3))):
        ranked = {}
        for query in QUERIES:
            ids = tuple(draw(st.lists(st.sampled_from(units), unique=True, max_size=8)))
            scores = tuple(sorted((draw(st.sampled_from([-1.0, 0.0, 0.5, 1.0])) for _ in ids), reverse=True))
            ranked[query] = Ranking(ids, scores, tuple(unit[0] for unit in ids))
        rankings.append(ranked)
    cut = ResultCut(
        draw(st.sampled_from([None, 3])),
        draw(st.sampled_from([None, 4])),
        draw(st.sampled_from([None, Rollup()])),
        draw(st.sampled_from([-math.inf, 0.0, 0.4])),
    )
    grades = {query: {"e": 2} for query in QUERIES}
    return made(rankings, draw(st.sampled_from(FUSIONS)), cut, grades)


def unpacked(text: str, number: str) -> np.ndarray[Any, Any]:
    return np.frombuffer(base64.b64decode(text), dtype=number)


def added_and_sorted(given: dict[str, Any], levels: list[int], row: int) -> list[str]:
    """What the script in the browser does."""
    legs, size = len(levels), len(given["item"])
    ranks = unpacked(given["ranks"], "<u2").reshape(legs, size)
    parts = unpacked(given["parts"], "<f8").reshape(legs, STEPS + 1, -1)
    asked = sorted(range(legs), key=lambda leg: levels[leg] <= 0)
    units = []
    for at in range(size):
        places = ranks[:, at].tolist()
        if given["drop"] and any(level > 0 and not place for level, place in zip(levels, places, strict=True)):
            continue
        score = 0.0
        for leg in range(legs):
            score += parts[leg, levels[leg], places[leg]]
        before = next(places[leg] for leg in asked if places[leg])
        units.append((-score, before, at))
    cut = given["cut"]
    ordered = sorted(units)[: cut["fused"]]
    if cut["rollup"]:
        ordered = list({given["item"][at]: (score, before, at) for score, before, at in reversed(ordered)}.values())
        ordered.sort()
    ceiling = None if given["ceilings"] is None else given["ceilings"][row]

    def relative(score: float) -> float:
        return score if ceiling is None else min(score / ceiling, 1.0) if ceiling else 0.0

    kept = [at for score, _, at in ordered if relative(-score) >= cut["least"]]
    return list(dict.fromkeys(given["items"][given["item"][at]] for at in kept[: cut["depth"]]))


@pytest.mark.slow
@examples(60)
@given(weighed())
def test_adding_and_sorting_what_is_given_is_the_search(found):
    cut = found.legs.cut.seen_by(found.surface.metric)
    for query in QUERIES:
        packed = weight_payload.query_given(found, query)
        for row, point in enumerate(found.surface.grid.tolist()):
            weights = [share / STEPS for share in point]
            searched = fused(found.arrays, found.base.fusion, weights, cut)[query].item_ids
            assert added_and_sorted(packed, point, row) == list(searched)
        alike = fused(found.arrays, found.base.fusion, [1.0] * len(point), cut)[query].item_ids
        assert added_and_sorted(packed, [STEPS] * len(point), -1) == list(alike)


@pytest.mark.parametrize("fusion", FUSIONS)
def test_the_packed_surface_is_the_surface(fusion):
    found = few(fusion)
    packed = weight_payload.surface_given(found)
    values, codes = unpacked(packed["values"], "<f8"), unpacked(packed["codes"], "<u2")
    assert values[codes].reshape(found.surface.values.shape) == pytest.approx(found.surface.values, abs=1e-9)
    assert values[unpacked(packed["untuned"], "<u2")] == pytest.approx(found.surface.untuned, abs=1e-9)
    assert len(set(values.tolist())) == len(values)
    assert all(
        low <= mean <= high for low, mean, high in zip(packed["low"], packed["means"], packed["high"], strict=True)
    )


def test_every_mark_stands_where_it_belongs_and_says_what_it_is():
    found = few()
    marks = {mark["key"]: mark for mark in weight_payload.marks(found)}
    assert list(marks) == ["current", "best", "band", "expected", "oracle"]
    assert marks["best"]["points"] == [[found.surface.best, 1.0]]
    assert found.surface.grid[marks["current"]["points"][0][0]].tolist() == [3, 1]
    assert "drawn at the nearest of the 5 points" in marks["current"]["says"]
    assert marks["expected"]["level"] == found.tuned.cross_fitted
    assert sum(size for _, size in marks["expected"]["points"]) > 0
    assert all(mark["says"].endswith((".", "?")) for mark in marks.values())


def test_a_query_that_has_no_surface_is_refused_by_name():
    with pytest.raises(UnknownName, match="query"):
        weight_payload.query_given(few(), "nobody asked")


@pytest.mark.parametrize(
    ("weights", "steps", "point"), [((0.65, 0.35), 20, (13, 7)), ((1, 1, 1), 20, (7, 7, 6)), ((0, 0), 4, (2, 2))]
)
def test_weights_have_a_nearest_point(weights, steps, point):
    assert weights_asked.nearest(weights, steps) == point


@pytest.mark.parametrize("text", ["", "2", "1-2", "5--1", "1-1-2", "a-b", "4-0-0", "½-3"])
def test_what_is_no_point_of_the_surface_is_none(text):
    assert few().point(text) is None


def test_a_point_becomes_a_variant_with_its_weights_and_reads_back():
    found = few()
    variant = found.variant((3, 1))
    assert [leg.weight for leg in variant.legs] == [0.75, 0.25]
    assert variant.name == "<i>base</i>, 3-1 of 4"
    assert Variant.from_toml(variant.to_toml()) == variant


@given(st.builds(WeightsState, *[st.text(max_size=8).map(str.strip)] * 12))
def test_a_selection_survives_the_address_bar(asked):
    assert WeightsState.of(asked.parameters()) == asked


def test_other_legs_leave_the_point_behind_and_a_query_does_not():
    asked = WeightsState(legs="vector,bm25", weights="3-1", against="2-2", query="q1")
    assert asked.but(legs="vector,fuzzy") == WeightsState(legs="vector,fuzzy", query="q1")
    assert asked.but(query="q2").weights == "3-1"


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (WeightsState(legs="vector,nobody"), "nobody"),
        (WeightsState(legs="vector"), "two to four"),
        (WeightsState(variant="/etc/passwd"), "hybrid-retriever"),
        (WeightsState(legs="vector,bm25", fusion="rrf", k="many"), "k"),
        (WeightsState(legs="vector,bm25", fusion="nobody"), "nobody"),
    ],
)
def test_an_address_that_asks_for_nonsense_is_answered_with_a_sentence(asked, said):
    with pytest.raises(SpecError, match=said):
        weights_asked.base_of(asked, "default")


def test_k_and_normalisation_belong_to_the_fusions_that_know_them():
    both = {"legs": "vector,bm25", "k": "10", "normalize": "zscore"}
    assert weights_asked.base_of(WeightsState(fusion="rrf", **both), "default").fusion == RrfFusion(k=10)
    assert weights_asked.base_of(WeightsState(fusion="linear", **both), "default").fusion == LinearFusion(
        normalize="zscore"
    )


def test_weights_are_looked_for_in_train_where_there_is_enough_of_it():
    assert tuning_split(_labelled(train=2, test=5)) == "train"
    assert tuning_split(_labelled(train=1, test=5)) == "test"


def _labelled(**splits: int) -> LabelledQueries:
    from evals.types import Label

    labels = [Label(f"{split}{number}", "a", 1, split) for split, count in splits.items() for number in range(count)]
    return LabelledQueries(tuple(Query(label.query_id, "?") for label in labels), tuple(labels))
