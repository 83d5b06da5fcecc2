"""Fusions by hand: the formulas of SYSTEMS.md and of the papers, ties, absence, and what is refused."""

from __future__ import annotations

import math

import pytest

from core.errors import InputError, RankbookError, SpecError, UnknownName
from core.fusion import (
    BordaFusion,
    CombAnzFusion,
    CombMedFusion,
    CombMnzFusion,
    CombSumFusion,
    CondorcetFusion,
    FusedHit,
    Fusion,
    IsrFusion,
    LegRanking,
    LinearFusion,
    RbcFusion,
    RrfFusion,
    fusion_from,
    fusions,
)
from core.types import Candidate, LegScore


def leg(name: str, ids: str, weight: float = 1.0, **kwargs) -> LegRanking:
    """One candidate a letter, with the scores 0.9, 0.8 ..."""
    found = [Candidate(unit, (9 - place) / 10) for place, unit in enumerate(ids)]
    return LegRanking(name, weight, found, **kwargs)


def scored(name: str, scores: dict[str, float], weight: float = 1.0, **kwargs) -> LegRanking:
    return LegRanking(name, weight, [Candidate(unit, score) for unit, score in scores.items()], **kwargs)


def scores(fused: list[FusedHit]) -> dict[str, float]:
    return {hit.id: hit.score for hit in fused}


def order(fused: list[FusedHit]) -> str:
    return "".join(hit.id for hit in fused)


# The published systems (SYSTEMS.md)


def test_system_1_adds_weight_over_k_plus_rank_plus_one_with_ranks_from_zero() -> None:
    fused = RrfFusion().fuse([leg("vector", "ab", 1 - 0.3), leg("keyword", "bc", 0.3)])
    assert scores(fused) == {
        "b": (1 - 0.3) / (60 + 1 + 1) + 0.3 / (60 + 0 + 1),
        "a": (1 - 0.3) / (60 + 0 + 1),
        "c": 0.3 / (60 + 1 + 1),
    }
    assert order(fused) == "bac"


def test_system_1_raw_scores_top_out_at_1_over_61_and_relative_ones_at_1() -> None:
    best = RrfFusion().fuse([leg("vector", "a", 1 - 0.3), leg("keyword", "a", 0.3)])[0]
    assert best.score == pytest.approx(1 / 61)
    assert best.relative == 1.0


def test_system_3_ignores_the_weights() -> None:
    legs = [leg("semantic", "ab", 0.7), leg("keyword", "ba", 0.3)]
    assert scores(RrfFusion(weighted=False).fuse(legs)) == {"a": 1 / 61 + 1 / 62, "b": 1 / 62 + 1 / 61}
    assert scores(RrfFusion(weighted=True).fuse(legs))["a"] == 0.7 / 61 + 0.3 / 62


def test_system_3_weighted_sums_raw_scores_and_absence_adds_nothing() -> None:
    legs = [scored("semantic", {"a": 0.5, "b": 0.25}, 0.7), scored("keyword", {"b": 12.0}, 0.3)]
    fused = LinearFusion(normalize="none").fuse(legs)
    assert scores(fused) == {"b": 0.7 * 0.25 + 0.3 * 12.0, "a": 0.7 * 0.5}


def test_system_4_gives_trigrams_one_and_a_half_votes_with_ranks_from_one() -> None:
    fused = RrfFusion().fuse([leg("vector", "ab"), leg("trigram", "cb", 1.5)])
    assert scores(fused) == {"b": 1 / 62 + 1.5 / 62, "c": 1.5 / 61, "a": 1 / 61}


def test_system_5_blends_text_and_vector_unweighted() -> None:
    fused = RrfFusion(k=10, weighted=False).fuse([leg("text", "abc", 0.35), leg("vector", "cba", 0.65)])
    assert scores(fused) == {"a": 1 / 11 + 1 / 13, "b": 1 / 12 + 1 / 12, "c": 1 / 13 + 1 / 11}


# RRF's options


def test_k_decides_whether_one_first_place_beats_two_middling_ones() -> None:
    legs = [leg("one", "axb"), leg("two", "cdb")]
    assert order(RrfFusion(k=0).fuse(legs))[0] == "a"
    assert order(RrfFusion(k=60).fuse(legs))[0] == "b"


def test_origin_is_the_rank_of_the_first() -> None:
    assert scores(RrfFusion(k=2, origin=0).fuse([leg("one", "ab")])) == {"a": 1 / 2, "b": 1 / 3}
    assert scores(RrfFusion(k=2, origin=1).fuse([leg("one", "ab")])) == {"a": 1 / 3, "b": 1 / 4}


def test_k_and_origin_zero_are_refused_for_they_divide_by_zero() -> None:
    with pytest.raises(SpecError, match="divides by zero"):
        fusion_from({"method": "rrf", "k": 0, "origin": 0})


@pytest.mark.parametrize(
    ("absent", "wanted"),
    [
        ("zero", {"b": 1 / 62 + 1 / 61, "a": 1 / 61}),
        ("bottom_rank", {"b": 1 / 62 + 1 / 61, "a": 1 / 61 + 1 / 62}),
        ("drop", {"b": 1 / 62 + 1 / 61}),
    ],
)
def test_rrf_treats_an_absent_document_as_told(absent, wanted) -> None:
    assert scores(RrfFusion(absent=absent).fuse([leg("one", "ab"), leg("two", "b")])) == wanted


def test_what_absence_adds_is_named_apart_from_the_legs_that_found_the_document() -> None:
    hit = RrfFusion(absent="bottom_rank").fuse([leg("one", "a"), leg("two", "b")])[0]
    assert hit.legs == (LegScore("one", 1, 0.9, 1 / 61),)
    assert hit.imputed == (("two", 1 / 62),)


# Sums of normalised scores

SKEWED = [scored("one", {"a": 10.0, "b": 4.0, "c": 0.0}, 0.75), scored("two", {"b": 3.0, "a": 2.0, "d": 1.0}, 0.25)]


def test_linear_adds_weighted_normalised_scores_and_keeps_them_all() -> None:
    best = LinearFusion().fuse(SKEWED)[0]
    assert (best.id, best.score, best.relative) == ("a", 0.75 * 1.0 + 0.25 * 0.5, 0.875)
    assert best.legs == (LegScore("one", 1, 10.0, 0.75, 1.0), LegScore("two", 2, 2.0, 0.125, 0.5))


def test_every_normalisation_gives_other_scores() -> None:
    ways = ["minmax", "theoretical-minmax", "bounds", "zscore", "sigmoid", "dbsf", "rank", "sum", "none"]
    legs = [LegRanking(ranking.leg, ranking.weight, ranking.candidates, (-1.0, 20.0)) for ranking in SKEWED]
    for method in ("linear", "combsum", "combmnz", "combanz", "combmed"):
        outcomes = {
            tuple(scores(fusion_from({"method": method, "normalize": way}).fuse(legs)).values()) for way in ways
        }
        assert len(outcomes) == len(ways), method


@pytest.mark.parametrize(
    ("absent", "wanted"),
    [
        ("zero", {"a": 2.0, "b": -1.0, "c": -3.0}),
        ("least", {"a": -1.0, "b": -1.0, "c": -5.0}),
        ("drop", {"b": -1.0}),
    ],
)
def test_linear_treats_an_absent_document_as_told(absent, wanted) -> None:
    legs = [scored("one", {"a": 2.0, "b": -2.0}), scored("two", {"b": 1.0, "c": -3.0})]
    assert scores(LinearFusion(normalize="none", absent=absent).fuse(legs)) == wanted
    assert scores(CombSumFusion(normalize="none", absent=absent).fuse(legs)) == wanted


def test_combsum_counts_all_legs_alike() -> None:
    assert scores(CombSumFusion().fuse(SKEWED))["a"] == 1.5


def test_combmnz_multiplies_by_the_number_of_legs_that_found_it() -> None:
    assert scores(CombMnzFusion(weighted=False).fuse(SKEWED)) == {"a": 3.0, "b": 2.8, "c": 0.0, "d": 0.0}
    assert scores(CombMnzFusion().fuse(SKEWED))["a"] == 2 * 0.75 + 2 * 0.125


def test_combmnz_does_not_count_a_leg_without_weight() -> None:
    legs = [leg("one", "ab"), leg("two", "ba", 0.0)]
    assert scores(CombMnzFusion().fuse(legs)) == {"a": 1.0, "b": 0.0}


@pytest.mark.parametrize(("absent", "wanted"), [("skip", 1.0), ("zero", 0.5), ("drop", None)])
def test_averages_treat_an_absent_document_as_told(absent, wanted) -> None:
    legs = [leg("one", "ab"), leg("two", "bc")]
    for fusion in (CombAnzFusion(absent=absent), CombMedFusion(absent=absent)):
        assert scores(fusion.fuse(legs)).get("a") == wanted


def test_the_median_is_the_middle_legs_or_the_mean_of_two() -> None:
    legs = [
        scored("one", {"a": 9.0, "b": 8.0}),
        scored("two", {"a": 5.0, "b": 4.0}),
        scored("three", {"a": 1.0}),
    ]
    best, second = CombMedFusion(normalize="none").fuse(legs)
    assert (best.id, best.score, second.id, second.score) == ("b", 6.0, "a", 5.0)
    assert [part.contribution for part in best.legs] == [4.0, 2.0]
    assert [part.contribution for part in second.legs] == [0.0, 5.0, 0.0]


@pytest.mark.parametrize("method", list(fusions))
def test_drop_keeps_only_what_every_leg_returned(method) -> None:
    legs = [leg("one", "abc"), leg("two", "cbd")]
    assert set(order(fusion_from({"method": method, "absent": "drop"}).fuse(legs))) == {"b", "c"}


# Ranks and votes


def test_isr_is_the_number_of_finds_times_inverse_square_ranks() -> None:
    legs = [leg("one", "ab", 2.0), leg("two", "bc")]
    assert scores(IsrFusion().fuse(legs)) == {"b": 2 * (2 / 4) + 2 * 1.0, "a": 2.0, "c": 1 / 4}
    assert scores(IsrFusion(weighted=False).fuse(legs)) == {"b": 2 * (1 / 4) + 2 * 1.0, "a": 1.0, "c": 1 / 4}


def test_isr_with_the_logarithm_gives_nothing_for_a_single_find() -> None:
    fused = IsrFusion(frequency="log").fuse([leg("one", "ab"), leg("two", "b")])
    assert scores(fused) == {"b": math.log(2) * (1 / 4) + math.log(2) * 1.0, "a": 0.0}


def test_rbc_pays_what_a_patient_reader_would_see() -> None:
    legs = [leg("one", "ab"), leg("two", "b", 3.0)]
    fused = RbcFusion(persistence=0.5).fuse(legs)
    assert scores(fused) == {"b": 0.25 + 3 * 0.5, "a": 0.5}
    assert scores(RbcFusion(persistence=0.5, weighted=False).fuse(legs))["b"] == 0.25 + 0.5
    assert scores(RbcFusion(persistence=0.5, absent="bottom_rank").fuse(legs))["a"] == 0.5 + 3 * 0.25
    assert scores(RbcFusion(persistence=0.75).fuse(legs))["a"] == 0.25


def test_borda_hands_the_points_left_to_the_documents_a_leg_did_not_return() -> None:
    legs = [leg("one", "abcd"), leg("two", "d", 2.0)]
    assert scores(BordaFusion().fuse(legs)) == {"d": 1 + 2 * 4, "a": 4 + 4, "b": 3 + 4, "c": 2 + 4}
    assert scores(BordaFusion(absent="zero").fuse(legs)) == {"d": 9, "a": 4, "b": 3, "c": 2}
    assert scores(BordaFusion(weighted=False).fuse(legs))["d"] == 1 + 4


def test_condorcet_puts_first_who_beats_everyone_else_though_points_say_otherwise() -> None:
    legs = [leg("one", "abc"), leg("two", "abc"), leg("three", "bca")]
    fused = CondorcetFusion().fuse(legs)
    assert scores(fused) == {"a": 2.5, "b": 1.5, "c": 0.5}
    assert order(BordaFusion().fuse(legs)) == "abc"
    assert order(CondorcetFusion().fuse([leg("one", "abc", 1.5), leg("two", "bca"), leg("three", "bca")])) == "bca"
    heavier = [leg("one", "abc", 2.5), leg("two", "bca"), leg("three", "bca")]
    assert order(CondorcetFusion().fuse(heavier)) == "abc"
    assert order(CondorcetFusion(weighted=False).fuse(heavier)) == "bca"


def test_a_cycle_of_majorities_is_a_tie_settled_by_the_first_leg() -> None:
    legs = [leg("one", "cab"), leg("two", "abc"), leg("three", "bca")]
    fused = CondorcetFusion().fuse(legs)
    assert set(scores(fused).values()) == {1.5}
    assert order(fused) == "cab"


def test_condorcet_weights_that_balance_but_for_rounding_are_a_draw() -> None:
    legs = [leg("one", "ab", 0.1), leg("two", "ab", 0.2), leg("three", "ba", 0.3)]
    assert scores(CondorcetFusion().fuse(legs)) == {"a": 1.0, "b": 1.0}


@pytest.mark.parametrize(
    ("absent", "wanted"),
    [("bottom_rank", {"b": 2.5, "a": 1.5, "c": 0.5}), ("zero", {"c": 2.0, "b": 1.5, "a": 1.0}), ("drop", {"b": 0.5})],
)
def test_condorcet_treats_an_absent_document_as_told(absent, wanted) -> None:
    """Leg one outvotes leg two; under zero nobody compares a with c, and only leg two compares b with c."""
    legs = [leg("one", "ba", 2.0), leg("two", "cb")]
    assert scores(CondorcetFusion(absent=absent).fuse(legs)) == wanted


# Ties and order


def test_equal_scores_keep_the_rank_they_had_in_the_first_leg_that_has_them() -> None:
    # a and b: 1/61 + 1/62 each, a first in leg one. Ids would say the opposite.
    assert order(RrfFusion().fuse([leg("one", "ba"), leg("two", "ab")])) == "ba"
    # c is second where it was found first, d third.
    flat = [leg("one", "bc", 0.0), leg("two", "xyd", 0.0)]
    assert order(RrfFusion().fuse(flat)) == "bxcyd"


def test_what_ranks_cannot_part_is_ordered_by_the_bytes_of_its_id() -> None:
    legs = [leg("one", "é"), leg("two", "z"), leg("three", "Z"), leg("four", "😀"), leg("five", "\uffee")]
    assert order(RrfFusion().fuse(legs)) == "Zzé\uffee😀"


def test_a_leg_without_weight_is_asked_last_when_equals_are_parted() -> None:
    heard = [leg("one", "ab"), leg("two", "ba")]
    assert order(RrfFusion().fuse([leg("mute", "ba", 0.0), *heard])) == "ab"


def test_contributions_are_added_one_by_one_in_the_legs_order() -> None:
    legs = [leg(str(place), "a", weight) for place, weight in enumerate([0.1, 0.2, 0.3])]
    assert LinearFusion().fuse(legs)[0].score == (0.1 + 0.2) + 0.3 == 0.6000000000000001
    assert LinearFusion().fuse(legs[::-1])[0].score == (0.3 + 0.2) + 0.1 == 0.6


def test_they_are_not_corrected_for_rounding_as_sums_are_in_newer_pythons() -> None:
    best = LinearFusion().fuse([leg(str(place), "a", 0.1) for place in range(10)])[0]
    assert (best.score, best.relative) == (0.9999999999999999, 1.0)


# Ceilings


def test_ceilings_are_what_a_document_first_everywhere_would_score() -> None:
    legs = [leg("one", "abc", 0.5), leg("two", "bad", 2.0)]
    wanted: list[tuple[Fusion, float | None]] = [
        (RrfFusion(), 0.5 / 61 + 2 / 61),
        (RrfFusion(weighted=False), 1 / 61 + 1 / 61),
        (LinearFusion(), 2.5),
        (LinearFusion(normalize="sigmoid"), 2.5),
        (LinearFusion(normalize="zscore"), None),
        (LinearFusion(normalize="dbsf"), None),
        (LinearFusion(normalize="none"), None),
        (CombSumFusion(), 2.0),
        (CombMnzFusion(), 5.0),
        (CombAnzFusion(), 1.0),
        (CombMedFusion(normalize="none"), None),
        (IsrFusion(), 5.0),
        (IsrFusion(frequency="log"), 0.5 * math.log(2) + 2.0 * math.log(2)),
        (BordaFusion(), 10.0),
        (CondorcetFusion(), 3.5),
        (RbcFusion(persistence=0.5), 1.25),
    ]
    for fusion, ceiling in wanted:
        assert fusion.ceiling(legs) == ceiling, fusion


def test_a_leg_that_found_nothing_still_counts_into_the_ceiling() -> None:
    assert RrfFusion().fuse([leg("one", "a"), leg("two", "")])[0].relative == 0.5
    assert RrfFusion().fuse([leg("one", "a")])[0].relative == 1.0


def test_without_a_ceiling_the_relative_score_is_the_score() -> None:
    hit = LinearFusion(normalize="none").fuse([scored("one", {"a": -7.5})])[0]
    assert hit.relative == hit.score == -7.5


def test_without_any_weight_nothing_is_attained_and_the_first_leg_orders() -> None:
    fused = RrfFusion().fuse([leg("one", "ba", 0.0), leg("two", "ca", 0.0)])
    assert [(hit.id, hit.score, hit.relative) for hit in fused] == [("b", 0, 0), ("c", 0, 0), ("a", 0, 0)]


# What is refused


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_score_that_cannot_be_ordered_is_refused_with_leg_and_document(bad) -> None:
    with pytest.raises(InputError, match=r"leg 'vector' gave 'a' the score .*Mend"):
        scored("vector", {"a": bad})


@pytest.mark.parametrize("bad", [math.nan, math.inf, -1.0])
def test_a_weight_that_is_no_share_is_refused(bad) -> None:
    with pytest.raises(SpecError, match="number from 0 up"):
        leg("vector", "a", bad)


def test_a_document_twice_in_a_leg_is_refused() -> None:
    with pytest.raises(InputError, match=r"'vector' returned 'b' more than once.*best place"):
        leg("vector", "abcb")


def test_two_legs_of_one_name_are_refused() -> None:
    with pytest.raises(SpecError, match="2 legs are called 'vector'"):
        RrfFusion().fuse([leg("vector", "a"), leg("vector", "b")])


@pytest.mark.parametrize("bounds", [(1.0, 1.0), (1.0, 0.0), (math.nan, 1.0)])
def test_bounds_the_wrong_way_round_are_refused(bounds) -> None:
    with pytest.raises(SpecError, match="must be below"):
        leg("vector", "a", bounds=bounds)


def test_sums_beyond_floating_point_are_refused_instead_of_becoming_infinite() -> None:
    legs = [scored("one", {"a": 1e300}, 1e10), scored("two", {"a": 1.0})]
    with pytest.raises(SpecError, match="Lower the weights, or normalise"):
        LinearFusion(normalize="none").fuse(legs)
    assert LinearFusion(normalize="minmax").fuse(legs)[0].relative == 1.0


def test_an_unknown_method_names_the_nearest() -> None:
    with pytest.raises(UnknownName, match="Did you mean 'borda'"):
        fusion_from({"method": "bordo"})


def test_an_unknown_option_names_the_nearest() -> None:
    with pytest.raises(UnknownName, match="Did you mean 'origin'"):
        fusion_from({"method": "rrf", "orgin": 1})


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"method": 3},
        {"method": "rrf", "k": -1},
        {"method": "rrf", "k": math.nan},
        {"method": "rrf", "k": math.inf},
        {"method": "rbc", "persistence": 1},
        {"method": "linear", "normalize": "softmax"},
        {"method": "rrf", "absent": "least"},
    ],
)
def test_a_spec_that_makes_no_sense_is_refused_in_a_sentence(spec) -> None:
    with pytest.raises(RankbookError, match=r"\."):
        fusion_from(spec)
