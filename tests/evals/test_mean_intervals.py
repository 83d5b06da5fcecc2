"""The interval of one mean: by a peer where there is one, at its ends, and by how often it holds."""

# mypy: disable-error-code="attr-defined"

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from evals.statistics.bootstrap import intervals
from evals.statistics.mean_intervals import mean_intervals


@pytest.mark.parametrize(("right", "queries"), [(0, 30), (7, 30), (29, 30), (30, 30), (96, 100)])
def test_of_zeros_and_ones_it_is_clopper_and_pearsons(right: int, queries: int) -> None:
    row = np.r_[np.ones(right), np.zeros(queries - right)][None, :]
    low, high = mean_intervals(row)
    exact = stats.binomtest(right, queries).proportion_ci(0.95, "exact")
    assert (low[0], high[0]) == pytest.approx((exact.low, exact.high))


@given(st.lists(st.floats(0, 1), min_size=2, max_size=40), st.floats(0.1, 9))
def test_it_holds_the_mean_and_stays_within_the_bounds_of_the_metric(row: list[float], most: float) -> None:
    scores = np.array([row]) * most
    low, high = mean_intervals(scores, most=most)
    assert -1e-9 <= low[0] <= scores.mean() + 1e-9
    assert scores.mean() - 1e-9 <= high[0] <= most + 1e-9


def test_weights_count_as_the_equal_queries_that_they_are_worth() -> None:
    row = np.random.default_rng(3).random((1, 40))
    plain = np.array(mean_intervals(row))
    assert np.array(mean_intervals(row, np.full(40, 7.0))) == pytest.approx(plain)
    heavy = np.array(mean_intervals(row, np.r_[np.full(4, 50.0), np.ones(36)]))
    assert heavy[1] - heavy[0] > plain[1] - plain[0]


def test_without_a_bound_it_is_the_bootstraps_and_of_one_query_there_is_none() -> None:
    row = np.random.default_rng(4).random((2, 30))
    assert np.array(mean_intervals(row, most=None, samples=500)) == pytest.approx(np.array(intervals(row, samples=500)))
    assert np.isnan(mean_intervals(row[:, :1])).all()
    assert np.isnan(mean_intervals(row[:, :0])).all()


@pytest.mark.parametrize(("level", "queries"), [(0.96, 30), (0.96, 50), (0.8, 50), (0.5, 20)])
def test_it_covers_the_true_mean_as_often_as_it_says_near_the_ceiling_too(level: float, queries: int) -> None:
    """Recall as it comes: mostly 1, now and then a half or nothing."""
    random, missed = np.random.default_rng(5), 2 * (1 - level) / 1.5
    drawn = random.choice([1.0, 0.5, 0.0], p=[1 - missed, missed / 2, missed / 2], size=(2000, queries))
    low, high = mean_intervals(drawn)
    true = 1 - missed + missed / 4
    assert ((low <= true) & (true <= high)).mean() > 0.94
