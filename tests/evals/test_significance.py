"""Means, effects and power: by hand, beside scipy, and by what they promise, in seeded simulation."""

# mypy: disable-error-code="attr-defined, no-untyped-call"

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from core.errors import InputError, SpecError
from evals.statistics.bootstrap import intervals
from evals.statistics.significance import (
    detectable,
    effect_sizes,
    effective_queries,
    means,
    outcomes,
    standard_errors,
)
from tests.evals.shapes import ndcg


def test_equal_weights_change_nothing_and_weight_zero_leaves_a_query_out():
    scores = ndcg((2, 40), np.random.default_rng(2))
    plain = np.array(intervals(scores, samples=500))
    assert np.array(intervals(scores, np.full(40, 2.5), samples=500)) == pytest.approx(plain)
    more = np.hstack([scores, np.ones((2, 5))])
    left_out = np.r_[np.ones(40), np.zeros(5)]
    assert np.array(intervals(more, left_out, samples=500)) == pytest.approx(plain)
    assert effective_queries(left_out, 45) == pytest.approx(40)


@pytest.mark.parametrize("queries", [0, 1])
def test_of_no_query_or_one_nothing_is_known(queries):
    scores = np.full((2, queries), 0.5)
    assert np.isnan(intervals(scores)).all()
    for unknown in (standard_errors(scores), effect_sizes(scores), detectable(scores)):
        assert np.isnan(unknown).all()


def test_two_queries_give_an_interval_as_wide_as_they_are_and_no_finding():
    scores = np.array([[0.2, 0.6]])
    assert np.array(intervals(scores)).ravel() == pytest.approx([0.2, 0.6])
    assert detectable(scores)[0] > 1


def test_differences_that_are_all_zero():
    nothing = np.zeros((1, 30))
    assert np.array(intervals(nothing)).ravel().tolist() == [0, 0]
    assert np.isnan(effect_sizes(nothing)[0])
    assert np.isnan(detectable(nothing)[0])
    assert outcomes(nothing).tolist() == [[0, 30, 0]]


def test_no_system_at_all_gives_empty_answers():
    none = np.empty((0, 7))
    low, high = intervals(none)
    assert low.shape == high.shape == (0,)


def test_one_query_with_practically_all_the_weight_decides_nothing():
    scores = np.array([[0.9, 0.1, 0.2]])
    weights = [1e20, 1.0, 1.0]
    assert np.isfinite(intervals(scores, weights)).all()
    assert not detectable(scores, weights)[0] < 1


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("function", [intervals, means, effect_sizes, detectable, outcomes])
def test_what_is_no_number_is_refused_with_its_place(function, value):
    scores = np.zeros((3, 5))
    scores[1, 4] = value
    with pytest.raises(InputError, match="1 of the scores are not finite numbers, the first in row 1 at query 4"):
        function(scores)


@pytest.mark.parametrize(
    ("weights", "said"),
    [
        ([1, 2], "one weight for each of 3 queries"),
        ([1, -1, 1], "query 1 is -1"),
        ([1, 1, np.nan], "query 2 is nan"),
        ([0, 0, 0], "Every query has the weight 0"),
    ],
)
def test_weights_that_are_none_are_refused(weights, said):
    with pytest.raises(InputError, match=said):
        intervals(np.zeros((1, 3)), weights)


def test_options_out_of_range_and_scores_of_another_shape_are_refused():
    scores = np.zeros((1, 3))
    with pytest.raises(SpecError, match=r"level must lie between 0 and 1; it is 95\."):
        intervals(scores, level=95)
    with pytest.raises(SpecError, match="samples must be 1 or more; it is 0"):
        intervals(scores, samples=0)
    with pytest.raises(SpecError, match="power must lie"):
        detectable(scores, power=80)
    with pytest.raises(InputError, match=r"a table of systems by queries; these have the shape \(3,\)"):
        intervals(scores[0])


def test_mean_error_and_effect_by_hand():
    row = np.array([[0.1, 0.2, 0.6]])
    assert means(row) == pytest.approx(0.3)
    assert standard_errors(row) == pytest.approx(stats.sem(row[0]))
    assert effect_sizes(row) == pytest.approx(0.3 / np.std(row, ddof=1))
    assert means(row, [2, 1, 1]) == pytest.approx(0.25)


def test_a_weight_of_two_has_the_mean_and_spread_of_two_queries_but_the_certainty_of_fewer():
    row, weights = np.random.default_rng(8).random((1, 30)), np.r_[np.full(15, 2.0), np.ones(15)]
    twice = np.hstack([row, row[:, :15]])
    assert means(row, weights) == pytest.approx(means(twice))
    assert effect_sizes(row, weights) == pytest.approx(effect_sizes(twice), rel=0.02)
    assert standard_errors(row, weights) > standard_errors(twice)
    assert effective_queries(weights, 30) == pytest.approx(27)


def test_rounding_makes_no_winner():
    assert outcomes([[0.3 - 0.1 - 0.2, 0.1, -0.1, 0.0]]).tolist() == [[1, 2, 1]]


def power(differences, alpha, weights=None):
    """How many of these rows Student's t tells from nothing."""
    freedom = effective_queries(weights, differences.shape[1]) - 1
    reached = np.abs(means(differences, weights)) / standard_errors(differences, weights)
    return (2 * stats.t.sf(reached, freedom) < alpha).mean()


@pytest.mark.parametrize("queries", [30, 120])
def test_the_smallest_detectable_difference_is_found_in_four_of_five_trials(queries):
    random = np.random.default_rng(31)
    differences = ndcg((1500, queries), random) - ndcg((1500, queries), random)
    size = detectable(differences).mean()
    assert power(differences + size, 0.05) == pytest.approx(0.8, abs=0.04)


def test_the_detectable_difference_is_right_for_weights_levels_and_powers_too():
    random = np.random.default_rng(32)
    weights = random.lognormal(0, 0.7, 120)
    differences = ndcg((1500, 120), random) - ndcg((1500, 120), random)
    size = detectable(differences, weights, alpha=0.01, power=0.6).mean()
    assert power(differences + size, 0.01, weights) == pytest.approx(0.6, abs=0.06)
    assert size > detectable(differences, alpha=0.01, power=0.6).mean()


def test_power_rises_with_the_difference_and_with_the_queries():
    random = np.random.default_rng(33)
    noise = ndcg((600, 160), random) - ndcg((600, 160), random)
    found = [power(noise + size, 0.05) for size in (0, 0.05, 0.1, 0.2)]
    assert found[0] < 0.08
    assert found[0] < found[1] < found[2] < found[3]
    fewer = power(noise[:, :40] + 0.1, 0.05)
    assert fewer < found[2]
