"""What every registered fusion keeps to, on any rankings."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.fusion import FusedHit, Fusion, LegRanking, fusion_from, fusions, spec_of
from core.fusion.base import Additive
from core.types import Candidate
from tests.effort import examples

BOUNDS = (-1.7e308, 1.7e308)
few = examples(5)  # of each of some seventy variants
every_fusion = pytest.mark.parametrize("method", list(fusions))
numbers = st.floats(-100, 100) | st.sampled_from([0.0, 1.0, 0.5, 1e300, -1e300, 5e-324, 1e-310])


def _choices(method: str, option: str) -> list[str]:
    """The values of an option that has a fixed set of them."""
    field = fusions[method].model_fields.get(option)
    return list(getattr(field.annotation, "__args__", ())) if field else []


def _variants(method: str) -> list[Fusion]:
    """The method with its defaults, and with every other value of every option that has a fixed set."""
    specs: list[dict[str, object]] = [{}]
    for option in fusions[method].model_fields:
        specs += [{option: value} for value in _choices(method, option)]
    made = [fusion_from({"method": method, **spec}) for spec in specs]
    return [fusion for place, fusion in enumerate(made) if fusion not in made[:place]]


EVERY = [fusion for method in fusions for fusion in _variants(method)]
variants = pytest.mark.parametrize("fusion", EVERY, ids=lambda fusion: str(spec_of(fusion)))
additive = pytest.mark.parametrize(
    "fusion", [fusion for fusion in EVERY if isinstance(fusion, Additive)], ids=lambda fusion: str(spec_of(fusion))
)


@st.composite
def rankings(draw: st.DrawFn, *, scores: st.SearchStrategy[float] = numbers, least: int = 0) -> list[LegRanking]:
    legs = []
    for number in range(draw(st.integers(least, 4))):
        ids = draw(st.lists(st.sampled_from("abcdefghijé😀"), unique=True, max_size=8))
        given_scores = sorted((draw(scores) for _ in ids), reverse=True)
        found = [Candidate(unit, score) for unit, score in zip(ids, given_scores, strict=True)]
        legs.append(LegRanking(f"leg {number}", draw(st.sampled_from([0.0, 0.1, 0.3, 0.7, 1.0, 1.5])), found, BOUNDS))
    return legs


def _ids(fused: list[FusedHit]) -> list[str]:
    return [hit.id for hit in fused]


@variants
@few
@given(legs=rankings())
def test_every_document_comes_once_with_its_legs_in_order(fusion, legs):
    fused = fusion.fuse(legs)
    found = {candidate.id for leg in legs for candidate in leg.candidates}
    assert len(set(_ids(fused))) == len(fused)
    assert set(_ids(fused)) == found or fusion.absent == "drop"
    for hit in fused:
        holding = [leg for leg in legs if hit.id in {candidate.id for candidate in leg.candidates}]
        assert [score.leg for score in hit.legs] == [leg.leg for leg in holding]
        for score, leg in zip(hit.legs, holding, strict=True):
            assert leg.candidates[score.rank - 1] == Candidate(hit.id, score.raw)


@variants
@few
@given(legs=rankings())
def test_the_order_is_score_then_rank_before_then_id(fusion, legs):
    fused = fusion.fuse(legs)
    asked = [legs[place].leg for place in fusion.tie_order(legs)]

    def place(hit: FusedHit) -> tuple[float, int, bytes]:
        ranks = {score.leg: score.rank for score in hit.legs}
        return -hit.score, next(ranks[leg] for leg in asked if leg in ranks), hit.id.encode()

    assert len({place(hit) for hit in fused}) == len(fused)
    assert fused == sorted(fused, key=place)


@additive
@few
@given(legs=rankings())
def test_contributions_add_up_in_the_legs_order_to_the_last_bit(fusion, legs):
    for hit in fusion.fuse(legs):
        parts = {score.leg: score.contribution for score in hit.legs} | dict(hit.imputed)
        added = 0.0
        for leg in legs:
            added += parts.get(leg.leg, 0.0)
        assert added == hit.score


@variants
@few
@given(legs=rankings())
def test_relative_scores_lie_between_0_and_1_wherever_there_is_a_ceiling(fusion, legs):
    ceiling = fusion.ceiling(legs)
    for hit in fusion.fuse(legs):
        assert math.isfinite(hit.score)
        assert hit.relative == hit.score if ceiling is None else 0 <= hit.relative <= 1


@variants
@few
@given(legs=rankings())
def test_the_same_rankings_give_the_same_result(fusion, legs):
    copies = [replace(leg, candidates=tuple(leg.candidates)) for leg in legs]
    assert fusion.fuse(legs) == fusion_from(spec_of(fusion)).fuse(copies)


@variants
@few
@given(legs=rankings(), place=st.integers(0, 4), found=st.permutations("abcxyz"))
def test_a_leg_without_weight_leaves_what_the_others_found_as_it_was(fusion, legs, place, found):
    mute = LegRanking("mute", 0.0, [Candidate(unit, 1.0) for unit in found], BOUNDS)
    if fusion.weight_of(mute) > 0:
        return  # not a weighted method
    others = {candidate.id for leg in fusion.voting_legs(legs) for candidate in leg.candidates}
    before, after = fusion.fuse(legs), fusion.fuse([*legs[:place], mute, *legs[place:]])
    assert [unit for unit in _ids(after) if unit in others] == [unit for unit in _ids(before) if unit in others]


@variants
@few
@given(legs=rankings(least=1), data=st.data())
def test_a_document_ranked_better_in_every_leg_never_scores_lower(fusion, legs, data):
    legs = [leg for leg in legs if leg.candidates]
    lifted = []
    for leg in legs:  # put the same pair into every leg, good above poor
        others = [candidate for candidate in leg.candidates if candidate.id not in ("a", "b")]
        first = data.draw(st.integers(0, len(others)))
        second = data.draw(st.integers(first, len(others)))
        ids = [candidate.id for candidate in others]
        ids = [*ids[:first], "a", *ids[first:second], "b", *ids[second:]]
        scores = sorted(data.draw(st.lists(numbers, min_size=len(ids), max_size=len(ids))), reverse=True)
        found = [Candidate(unit, score) for unit, score in zip(ids, scores, strict=True)]
        lifted.append(replace(leg, candidates=found))
    fused = fusion.fuse(lifted)
    if fused:
        scores_of = {hit.id: hit.score for hit in fused}
        assert scores_of["a"] >= scores_of["b"]
        assert _ids(fused).index("a") < _ids(fused).index("b")


@variants
@few
@given(legs=rankings(least=1))
def test_one_leg_keeps_its_own_order(fusion, legs):
    alone = legs[0]
    assert _ids(fusion.fuse([alone])) == [candidate.id for candidate in alone.candidates]


@variants
def test_empty_legs_give_nothing_or_leave_the_others_alone(fusion):
    empty = LegRanking("empty", 1.0, (), BOUNDS)
    full = LegRanking("full", 1.0, [Candidate("b", 2.0), Candidate("a", 1.0)], BOUNDS)
    assert fusion.fuse([]) == []
    assert fusion.fuse([empty]) == []
    assert _ids(fusion.fuse([empty, full])) == ([] if fusion.absent == "drop" else ["b", "a"])


@variants
def test_hundreds_of_equal_scores_have_one_order_whatever_order_the_legs_were_built_in(fusion):
    ids = [f"{number * 7919 % 600:04}" for number in range(600)]
    one = LegRanking("one", 1.0, [Candidate(unit, 0.5) for unit in ids[:400]], BOUNDS)
    two = LegRanking("two", 1.0, [Candidate(unit, 0.5) for unit in ids[200:]], BOUNDS)
    fused = fusion.fuse([one, two])
    assert len(set(_ids(fused))) == len(fused) == (200 if fusion.absent == "drop" else 600)
    assert fused == fusion.fuse([replace(one), replace(two)])
    both = [hit.id for hit in fused if len(hit.legs) == 2]
    if len({hit.score for hit in fused if len(hit.legs) == 2}) == 1:
        assert both == ids[200:400]


@every_fusion
def test_a_spec_makes_the_round_trip_through_json(method):
    for fusion in _variants(method):
        spec = json.loads(json.dumps(spec_of(fusion)))
        assert spec["method"] == method
        assert fusion_from(spec) == fusion
        assert spec_of(fusion_from(spec)) == spec_of(fusion)


@every_fusion
def test_class_and_fields_are_described(method):
    assert fusions[method].__doc__ not in (None, Fusion.__doc__)
    assert all(field.description for field in fusions[method].model_fields.values())


@every_fusion
def test_every_way_with_the_absent_changes_something(method):
    legs = [
        LegRanking("one", 1.0, [Candidate("a", 3.0), Candidate("b", -1.0), Candidate("c", -2.0)], BOUNDS),
        LegRanking("two", 1.0, [Candidate("c", 5.0), Candidate("d", -4.0)], BOUNDS),
    ]
    plain = {"normalize": "none"} if "normalize" in fusions[method].model_fields else {}
    ways = _choices(method, "absent")
    outcomes = {
        tuple((hit.id, hit.score) for hit in fusion_from({"method": method, "absent": way, **plain}).fuse(legs))
        for way in ways
    }
    assert len(outcomes) == len(ways) >= 2
