"""Fusing all queries at once: to the last bit what `core.fusion` gives for each, and what a search makes of it."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import InputError, SpecError
from core.fusion import CondorcetFusion, Fusion, LegRanking, LinearFusion, RrfFusion, fusion_from, fusions, spec_of
from core.legs.vector import VectorLeg
from core.types import Candidate
from core.variant import Rollup, Variant
from evals.runs.batch_fusion import FusionArrays, ResultCut, fuse_all, ordered, separable
from evals.runs.rankings import LegRankings, Ranking
from tests.effort import examples

few = examples(10)  # of each of some forty variants
numbers = st.floats(-100, 100) | st.sampled_from([0.0, -0.0, 1.0, 0.5, 1e300, -1e300, 5e-324])
LEG = VectorLeg(distance="cosine")  # has both bounds


def _variants() -> list[Fusion]:
    """Each method with its defaults, and with every other value of every option that has a fixed set."""
    made: list[Fusion] = []
    for method in fusions:
        for option, field in fusions[method].model_fields.items():
            choices = getattr(field.annotation, "__args__", ())
            made += [fusion_from({"method": method, option: choice}) for choice in choices]
        made.append(fusion_from({"method": method}))
    return [fusion for place, fusion in enumerate(made) if fusion not in made[:place]]


variants = pytest.mark.parametrize("fusion", _variants(), ids=lambda fusion: str(spec_of(fusion)))


@st.composite
def found(draw: st.DrawFn) -> list[LegRankings]:
    """One to four legs over three queries; some find nothing, and many scores tie."""
    legs = []
    for number in range(draw(st.integers(1, 4))):
        rankings = {}
        for query in "pqr":
            ids = draw(st.lists(st.sampled_from("abcdefghijé😀"), unique=True, max_size=8))
            scores = sorted((draw(numbers) for _ in ids), reverse=True)
            rankings[query] = Ranking(tuple(ids), tuple(scores))
        legs.append(LegRankings(f"leg {number}", LEG, 8, rankings))
    return legs


def weights_for(legs: list[LegRankings]) -> st.SearchStrategy[list[float]]:
    weight = st.sampled_from([0.0, 0.1, 0.3, 0.7, 1.0, 1.5])
    return st.lists(weight, min_size=len(legs), max_size=len(legs))


def alone(legs: list[LegRankings], query: str, weights: list[float]) -> list[LegRanking]:
    return [
        LegRanking(leg.name, weight, list(map(Candidate, found.ids, found.scores)), leg.leg.bounds)
        for leg, weight in zip(legs, weights, strict=True)
        for found in [leg.rankings[query]]
    ]


@variants
@few
@given(data=st.data())
def test_all_queries_at_once_equal_the_fusion_one_by_one_to_the_last_bit(fusion, data):
    legs = data.draw(found())
    weights = data.draw(weights_for(legs))
    arrays = FusionArrays.of(legs)
    try:
        wanted = [fusion.fuse(alone(legs, query, weights)) for query in "pqr"]
    except SpecError:  # numbers too large to add up
        with pytest.raises(SpecError):
            ordered(arrays, fusion, weights)
        return
    made = ordered(arrays, fusion, weights)
    for row, hits in enumerate(wanted):
        count = made.counts[row]
        assert [arrays.units[unit] for unit in made.units[row, :count]] == [hit.id for hit in hits]
        assert made.scores[row, :count].tolist() == [hit.score for hit in hits]
        assert made.relative[row, :count].tolist() == [hit.relative for hit in hits]


def test_rank_and_score_fusions_take_the_quick_way_and_others_the_long_one():
    assert separable(RrfFusion())
    assert separable(LinearFusion(normalize="zscore"))
    assert not separable(CondorcetFusion())


def leg(name: str, weight: float = 1.0, **rankings: str) -> LegRankings:
    """One unit a letter, with the scores 0.9, 0.8 ..."""
    found = {q: Ranking(tuple(ids), tuple((9 - at) / 10 for at in range(len(ids)))) for q, ids in rankings.items()}
    return LegRankings(name, LEG.model_copy(update={"weight": weight}), 10, found)


def test_the_result_is_cut_at_its_depth_with_relative_scores():
    legs = [leg("one", q="abc"), leg("two", q="abd")]
    assert fuse_all(legs, RrfFusion(), cut=ResultCut(depth=1)) == {"q": Ranking(("a",), (1.0,))}


def test_weights_are_by_default_the_legs_own_and_may_differ_by_query():
    legs = [leg("one", 0.0, p="a", q="a"), leg("two", 1.0, p="b", q="b")]
    assert fuse_all(legs, RrfFusion())["p"].ids == ("b", "a")
    routed = fuse_all(legs, RrfFusion(), {"q": (1.0, 0.0)})
    assert (routed["p"].ids, routed["q"].ids) == (("b", "a"), ("a", "b"))


def test_a_query_that_a_leg_failed_to_answer_has_an_empty_ranking():
    failing = LegRankings("two", LEG, 10, {"p": Ranking(("b",), (1.0,))}, failures={"q": "the endpoint is down"})
    made = fuse_all([leg("one", p="a", q="a"), failing], RrfFusion())
    assert made["p"].ids == ("a", "b")
    assert made["q"] == Ranking()


def test_the_last_cut_is_lifted_for_a_metric_that_looks_beyond_it():
    shipped = ResultCut(10, fused_depth=30)
    assert (shipped.seen_by("ndcg@10"), shipped.seen_by("map")) == (shipped, shipped)
    assert shipped.seen_by("recall@11") == ResultCut(None, fused_depth=30)


def test_scores_below_the_least_are_dropped():
    legs = [leg("one", q="abc"), leg("two", q="abc")]
    assert fuse_all(legs, LinearFusion(), cut=ResultCut(min_score=0.5))["q"].ids == ("a", "b")


def chunks(name: str, units: str) -> LegRankings:
    """Units named after their item and their number."""
    ids = tuple(units.split())
    scores = tuple((20 - at) / 20 for at in range(len(ids)))
    places = tuple((int(unit[1:]), int(unit[1:]) + 1) for unit in ids)
    return LegRankings(name, LEG, 20, {"q": Ranking(ids, scores, tuple(unit[0] for unit in ids), places)})


def test_equals_stand_by_their_rank_in_the_first_leg_that_has_a_say():
    legs = [leg("mute", 0.0, q="abc"), leg("one", q="ca"), leg("two", q="ac")]
    assert fuse_all(legs, RrfFusion())["q"].ids == ("c", "a", "b")


def test_chunks_keep_their_items_and_spans():
    made = fuse_all([chunks("one", "a1 b1 a2"), chunks("two", "b1 a2")], RrfFusion())["q"]
    assert made.ids == ("b1", "a2", "a1")
    assert made.items == ("b", "a", "a")
    assert made.spans == ((1, 2), (2, 3), (1, 2))


def test_chunks_are_rolled_up_to_their_items_best_or_summed():
    legs = [chunks("one", "a1 b1 b2 c1")]
    linear = LinearFusion(normalize="none")
    best = fuse_all(legs, linear, cut=ResultCut(rollup=Rollup()))["q"]
    assert (best.ids, best.scores) == (("a1", "b1", "c1"), (1.0, 0.95, 0.85))
    summed = fuse_all(legs, linear, cut=ResultCut(rollup=Rollup(method="sum", of_best=2)))["q"]
    assert (summed.ids, summed.scores) == (("b1", "a1", "c1"), (0.0 + 0.95 + 0.9, 1.0, 0.85))
    shallow = fuse_all(legs, linear, cut=ResultCut(rollup=Rollup(), fused_depth=2))["q"]
    assert shallow.ids == ("a1", "b1")


def test_a_variant_says_what_is_cut():
    variant = Variant.of_leg(LEG, top_k=7, fused_depth=5, rollup=Rollup(), min_score=0.25)
    assert ResultCut.of(variant) == ResultCut(7, 5, Rollup(), 0.25)


def test_legs_that_found_nothing_at_all_give_empty_rankings():
    assert fuse_all([leg("one", q=""), leg("two", q="")], LinearFusion()) == {"q": Ranking()}
    assert fuse_all([], RrfFusion()) == {}


@pytest.mark.parametrize(
    ("legs", "weights", "error", "words"),
    [
        ([leg("one", q="aa")], None, InputError, "more than once"),
        ([LegRankings("one", LEG, 1, {"q": Ranking(("a",), (math.nan,))})], None, InputError, "cannot be ordered"),
        ([leg("one", q="a"), leg("one", q="b")], None, SpecError, "Rename one"),
        ([leg("one", q="a")], (0.5, 0.5), SpecError, "2 weights were given for 1 legs"),
        ([leg("one", q="a")], (-1.0,), SpecError, "number from 0 up"),
    ],
)
def test_what_cannot_be_fused_is_refused_in_words(legs, weights, error, words):
    with pytest.raises(error, match=words):
        fuse_all(legs, RrfFusion(), weights)
