"""Normalisations by hand, and what becomes of one hit, equal scores and extreme numbers."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import SpecError
from core.fusion import LegRanking
from core.fusion.normalise import BOUNDED, Normalisation, normalised
from core.types import Candidate

WAYS: tuple[Normalisation, ...] = get_args(Normalisation)
BOUNDS = (-1.7e308, 1.7e308)
finite = st.floats(allow_nan=False, allow_infinity=False, min_value=-1.7e308, max_value=1.7e308)


def of(how: Normalisation, scores: list[float], bounds: tuple[float, float] | None = None) -> list[float]:
    found = [Candidate(str(place), score) for place, score in enumerate(scores)]
    return normalised(LegRanking("vector", 1.0, found, bounds), how)


@pytest.mark.parametrize(
    ("how", "wanted"),
    [
        ("minmax", [1.0, 0.25, 0.0]),
        ("theoretical-minmax", [1.0, 0.625, 0.5]),
        ("bounds", [0.5, 0.3125, 0.25]),
        ("zscore", [7 / math.sqrt(26), -2 / math.sqrt(26), -5 / math.sqrt(26)]),
        ("dbsf", [0.5 + 7 / 6 / math.sqrt(39), 0.5 - 2 / 6 / math.sqrt(39), 0.5 - 5 / 6 / math.sqrt(39)]),
        ("sigmoid", [1 / (1 + math.exp(-16)), 1 / (1 + math.exp(-7)), 1 / (1 + math.exp(-4))]),
        ("rank", [1.0, 2 / 3, 1 / 3]),
        ("sum", [12 / 15, 3 / 15, 0.0]),
        ("none", [16.0, 7.0, 4.0]),
    ],
)
def test_the_formulas(how, wanted) -> None:
    assert of(how, [16.0, 7.0, 4.0], (-8.0, 40.0)) == pytest.approx(wanted, abs=1e-12)


@pytest.mark.parametrize(
    ("how", "wanted"),
    [
        ("minmax", 1.0),
        ("theoretical-minmax", 1.0),
        ("bounds", 0.75),
        ("zscore", 0.0),
        ("dbsf", 0.5),
        ("sigmoid", 1 / (1 + math.exp(-0.5))),
        ("none", 0.5),
    ],
)
def test_one_hit_and_equal_scores_have_a_defined_value(how, wanted) -> None:
    assert of(how, [0.5], (-1.0, 1.0)) == [wanted]
    assert of(how, [0.5] * 3, (-1.0, 1.0)) == [wanted] * 3


def test_one_hit_and_equal_scores_by_rank_and_by_share() -> None:
    assert of("rank", [0.5]) == [1.0]
    assert of("rank", [0.5] * 4) == [1.0, 0.75, 0.5, 0.25]
    assert of("sum", [0.5]) == [1.0]
    assert of("sum", [0.5] * 4) == [0.25] * 4


def test_equal_scores_whose_mean_rounds_have_no_spread() -> None:
    assert of("zscore", [0.1] * 3) == [0.0] * 3
    assert of("dbsf", [0.1] * 3) == [0.5] * 3


def test_a_top_score_at_the_theoretical_least_is_nothing() -> None:
    assert of("theoretical-minmax", [-1.0], (-1.0, math.inf)) == [0.0]


def test_rounding_beyond_a_bound_is_cut() -> None:
    assert of("bounds", [1.0000000000000002, -1.0000000000000002], (-1.0, 1.0)) == [1.0, 0.0]
    assert of("theoretical-minmax", [0.5, -1e-17], (0.0, math.inf)) == [1.0, 0.0]


def test_the_theoretical_least_lifts_what_minmax_puts_at_zero() -> None:
    assert of("minmax", [0.9, 0.8])[1] == 0.0
    assert of("theoretical-minmax", [0.9, 0.8], (-1.0, 1.0))[1] == pytest.approx(1.8 / 1.9)


@pytest.mark.parametrize(
    ("how", "bounds", "end"),
    [
        ("theoretical-minmax", None, "least"),
        ("theoretical-minmax", (-math.inf, 0.0), "least"),
        ("bounds", (0.0, math.inf), "greatest"),
    ],
)
def test_a_missing_bound_is_refused_with_the_leg_and_a_way_out(how, bounds, end) -> None:
    with pytest.raises(SpecError, match=rf"'vector' has no theoretical {end} score.*Use minmax"):
        of(how, [0.5], bounds)


@pytest.mark.parametrize("how", WAYS)
def test_nothing_found_is_nothing_normalised(how) -> None:
    assert of(how, [], (-1.0, 1.0)) == []


@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize(
    "scores",
    [
        [1.7e308, 0.0, -1.7e308],
        [1e300, 1.0, -1e300],
        [1e-320, 5e-324, 0.0],
        [1e300, 1e-320],
        [0.0, -5e-324],
        [1.0, math.nextafter(1.0, 0.0)],
    ],
)
def test_extremes_stay_finite_and_in_order(how, scores) -> None:
    values = of(how, scores, BOUNDS)
    assert all(map(math.isfinite, values))
    assert all(better >= worse for better, worse in pairwise(values))


@pytest.mark.parametrize("scores", [[1.7e308, -1.7e308], [1e-320, 5e-324]])
@pytest.mark.parametrize("how", ["minmax", "zscore", "dbsf", "sum"])
def test_extremes_are_told_apart(how, scores) -> None:
    better, worse = of(how, scores)
    assert better > worse


@pytest.mark.parametrize("how", WAYS)
@given(scores=st.lists(finite, max_size=12))
def test_order_is_kept_and_bounded_ones_are_in_bounds(how, scores) -> None:
    values = of(how, sorted(scores, reverse=True), BOUNDS)
    assert len(values) == len(scores)
    assert all(better >= worse for better, worse in pairwise(values))
    if how in BOUNDED:
        assert all(0 <= value <= 1 for value in values)


@given(scores=st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=12))
def test_scaling_changes_no_bit_of_minmax(scores) -> None:
    low, high = min(scores), max(scores)
    values = of("minmax", scores)
    assert values == ([(x - low) / (high - low) for x in scores] if high - low > 1e-290 else values)
