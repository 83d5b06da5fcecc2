"""Tests, effects and power: by hand, beside scipy, and by what they promise, in seeded simulation."""

# mypy: disable-error-code="attr-defined, no-untyped-call"

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from core.errors import InputError, SpecError
from evals.statistics.bootstrap import intervals
from evals.statistics.significance import (
    detectable,
    effect_sizes,
    effective_queries,
    means,
    outcomes,
    permutation,
    standard_errors,
    wilcoxon,
)
from tests.effort import examples
from tests.evals.shapes import ndcg


def test_equal_weights_change_nothing_and_weight_zero_leaves_a_query_out():
    scores = ndcg((2, 40), np.random.default_rng(2))
    plain = np.array(intervals(scores, samples=500))
    assert np.array(intervals(scores, np.full(40, 2.5), samples=500)) == pytest.approx(plain)
    more = np.hstack([scores, np.ones((2, 5))])
    left_out = np.r_[np.ones(40), np.zeros(5)]
    assert np.array(intervals(more, left_out, samples=500)) == pytest.approx(plain)
    assert permutation(scores[:1] - scores[1:])[0] == permutation(more[:1] - more[1:], left_out)[0]
    assert effective_queries(left_out, 45) == pytest.approx(40)


@pytest.mark.parametrize("queries", [0, 1])
def test_of_no_query_or_one_nothing_is_known(queries):
    scores = np.full((2, queries), 0.5)
    assert np.isnan(intervals(scores)).all()
    assert (permutation(scores) == 1).all()
    for unknown in (standard_errors(scores), effect_sizes(scores), detectable(scores)):
        assert np.isnan(unknown).all()


def test_two_queries_give_an_interval_as_wide_as_they_are_and_no_finding():
    scores = np.array([[0.2, 0.6]])
    assert np.array(intervals(scores)).ravel() == pytest.approx([0.2, 0.6])
    assert permutation(scores) == 0.5
    assert detectable(scores)[0] > 1


def test_differences_that_are_all_zero():
    nothing = np.zeros((1, 30))
    assert np.array(intervals(nothing)).ravel().tolist() == [0, 0]
    assert permutation(nothing) == wilcoxon(nothing) == 1
    assert np.isnan(effect_sizes(nothing)[0])
    assert np.isnan(detectable(nothing)[0])
    assert outcomes(nothing).tolist() == [[0, 30, 0]]


def test_no_system_at_all_gives_empty_answers():
    none = np.empty((0, 7))
    low, high = intervals(none)
    assert low.shape == high.shape == permutation(none).shape == wilcoxon(none).shape == (0,)


def test_one_query_with_practically_all_the_weight_decides_nothing():
    scores = np.array([[0.9, 0.1, 0.2]])
    weights = [1e20, 1.0, 1.0]
    assert np.isfinite(intervals(scores, weights)).all()
    assert not detectable(scores, weights)[0] < 1


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("function", [intervals, permutation, wilcoxon, means, effect_sizes, detectable, outcomes])
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
        permutation(scores, samples=0)
    with pytest.raises(SpecError, match="power must lie"):
        detectable(scores, power=80)
    with pytest.raises(InputError, match=r"a table of systems by queries; these have the shape \(3,\)"):
        intervals(scores[0])


@given(st.lists(st.integers(-4, 4), min_size=2, max_size=9))
@examples(40)
def test_few_differences_are_enumerated_and_agree_with_scipy(differences):
    row = np.array(differences) / 8  # no rounding, which scipy takes for a difference
    theirs = stats.permutation_test(
        (row, np.zeros_like(row)),
        lambda one, other, axis: (one - other).mean(axis=axis),
        permutation_type="samples",
        vectorized=True,
        n_resamples=np.inf,
    )
    assert permutation(row[None, :])[0] == pytest.approx(min(1.0, theirs.pvalue))


def test_sampling_comes_to_what_enumeration_says():
    differences = np.random.default_rng(4).normal(0.1, 0.3, (20, 12))
    weights = np.arange(1.0, 13.0)
    exact = permutation(differences, weights, samples=4096)
    sampled = permutation(differences, weights, samples=4095)
    assert sampled == pytest.approx(exact, abs=0.03)
    assert not (sampled == exact).all()


def test_sampling_never_says_zero_and_repeats_by_seed():
    sure = np.random.default_rng(4).normal(1, 0.1, (1, 100))
    assert permutation(sure, samples=999) == 0.001
    vague = np.random.default_rng(4).normal(0.01, 0.1, (1, 100))
    assert permutation(vague, seed=1) == permutation(vague, seed=1)
    assert permutation(vague, seed=1) != permutation(vague, seed=2)


@pytest.mark.slow
def test_permutation_values_are_uniform_where_nothing_differs():
    random = np.random.default_rng(21)
    scores = ndcg((2, 2000, 60), random)
    values = permutation(scores[0] - scores[1], samples=2000)
    assert stats.kstest(values, "uniform").pvalue > 0.01
    weighted = permutation(scores[0] - scores[1], random.lognormal(0, 1, 60), samples=2000)
    assert stats.kstest(weighted, "uniform").pvalue > 0.01


def test_enumerated_values_are_never_too_small_where_nothing_differs():
    values = permutation(np.random.default_rng(22).normal(0, 1, (4000, 8)))
    for share in (1 / 128, 5 / 128, 32 / 128):  # attainable, so that the rate is the value itself
        assert (values <= share + 1e-9).mean() == pytest.approx(share, abs=3 * np.sqrt(share / 4000))


def test_permutation_honours_weights():
    differences = np.r_[np.full(20, 0.1), np.full(20, -0.1)][None, :] + np.linspace(0, 0.001, 40)
    assert permutation(differences)[0] > 0.8
    assert permutation(differences, np.r_[np.full(20, 9.0), np.full(20, 1.0)])[0] < 0.01


@pytest.mark.parametrize("queries", [8, 30, 120])
def test_wilcoxon_is_scipys_without_the_zeros(queries):
    random = np.random.default_rng(6)
    row = random.permutation(np.r_[random.normal(0.1, 1, queries), np.zeros(queries)])
    assert wilcoxon(row[None, :])[0] == stats.wilcoxon(np.round(row[row != 0], 12)).pvalue


def test_wilcoxon_ties_what_rounding_tells_apart():
    row = np.array([0.3 - 0.2, 0.2 - 0.1, -(0.4 - 0.3), 0.5, 0.7, 0.9, 0.8])
    assert wilcoxon(row[None, :]) == wilcoxon(np.array([[0.1, 0.1, -0.1, 0.5, 0.7, 0.9, 0.8]]))


def test_wilcoxon_refuses_unequal_weights_and_says_what_to_use():
    with pytest.raises(SpecError, match="Use the permutation test, or leave the weights out"):
        wilcoxon(np.ones((1, 3)), [1, 2, 3])
    assert wilcoxon(np.ones((1, 3)), [2, 2, 2]) == wilcoxon(np.ones((1, 3)))


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


@pytest.mark.parametrize("queries", [30, 120])
def test_the_smallest_detectable_difference_is_found_in_four_of_five_trials(queries):
    random = np.random.default_rng(31)
    differences = ndcg((1500, queries), random) - ndcg((1500, queries), random)
    size = detectable(differences).mean()
    power = (permutation(differences + size, samples=2000) < 0.05).mean()
    assert power == pytest.approx(0.8, abs=0.04)


def test_the_detectable_difference_is_right_for_weights_levels_and_powers_too():
    random = np.random.default_rng(32)
    weights = random.lognormal(0, 0.7, 120)
    differences = ndcg((1500, 120), random) - ndcg((1500, 120), random)
    size = detectable(differences, weights, alpha=0.01, power=0.6).mean()
    power = (permutation(differences + size, weights, samples=2000) < 0.01).mean()
    assert power == pytest.approx(0.6, abs=0.06)
    assert size > detectable(differences, alpha=0.01, power=0.6).mean()


def test_power_rises_with_the_difference_and_with_the_queries():
    random = np.random.default_rng(33)
    noise = ndcg((600, 160), random) - ndcg((600, 160), random)
    found = [(permutation(noise + size, samples=1000) < 0.05).mean() for size in (0, 0.05, 0.1, 0.2)]
    assert found[0] < 0.08
    assert found[0] < found[1] < found[2] < found[3]
    fewer = (permutation(noise[:, :40] + 0.1, samples=1000) < 0.05).mean()
    assert fewer < found[2]
