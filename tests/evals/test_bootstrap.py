"""Intervals: what they cover, in seeded simulation; weights, seeds and pairs."""

# mypy: disable-error-code="attr-defined, no-untyped-call"

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from scipy import stats

from evals.statistics.bootstrap import intervals
from tests.evals.shapes import ndcg


def reciprocal_rank(shape, random):
    kind = random.random(shape)
    return np.where(kind < 0.5, 1.0, np.where(kind < 0.8, 1 / random.integers(2, 11, shape), 0.0))


def recall(shape, random):
    return np.where(random.random(shape) < 0.85, 1.0, random.beta(2, 2, shape))


def rare(shape, random):
    return np.where(random.random(shape) < 0.92, 0.0, random.beta(2, 1, shape))


def mostly_equal(shape, random):
    """Differences: three in five queries equal, many small gains, a few large losses."""
    kind = random.random(shape)
    return np.where(kind < 0.6, 0.0, np.where(kind < 0.9, 0.4 * random.beta(1, 4, shape), -random.beta(1, 2, shape)))


# What each covers, and how far below 95% it may stay; the intervals' docstring says so too.
SHAPES = [(ndcg, 50, 0), (reciprocal_rank, 50, 0), (recall, 50, 0), (rare, 50, 0.01), (mostly_equal, 50, 0.03)]
SHAPES += [(shape, 300, 0.01) for shape, _, _ in SHAPES]


@pytest.mark.slow
@pytest.mark.parametrize(("shape", "queries", "short"), SHAPES)
def test_intervals_cover_the_true_mean_at_their_stated_rate(shape, queries, short):
    random = np.random.default_rng(11)
    truth = shape(2_000_000, random).mean()
    low, high = intervals(shape((1000, queries), random), samples=1000, seed=3)
    covered = ((low <= truth) & (truth <= high)).mean()
    assert 0.95 - short - 0.02 <= covered <= 0.98  # 0.02 is three standard errors of 1,000 trials


@pytest.mark.parametrize("level", [0.8, 0.9, 0.99])
def test_intervals_cover_at_other_levels_too(level):
    random = np.random.default_rng(12)
    low, high = intervals(random.normal(0.4, 0.2, (1000, 80)), samples=2000, level=level)
    assert ((low <= 0.4) & (high >= 0.4)).mean() == pytest.approx(level, abs=0.03)


def test_intervals_of_weighted_queries_cover_the_weighted_mean():
    random = np.random.default_rng(13)
    weights = random.integers(1, 6, 150).astype(float)
    frequent = weights > 3
    # Frequent queries score higher: the plain mean (0.5) is far from the weighted one.
    scores = np.where(frequent, random.beta(4, 2, (800, 150)), random.beta(2, 4, (800, 150)))
    truth = np.average(np.where(frequent, 4 / 6, 2 / 6), weights=weights)
    low, high = intervals(scores, weights, samples=1000)
    assert ((low <= truth) & (truth <= high)).mean() >= 0.93
    plain_low, plain_high = intervals(scores, samples=1000)
    assert ((plain_low <= truth) & (truth <= plain_high)).mean() < 0.6


def test_intervals_of_many_even_scores_are_students():
    scores = np.random.default_rng(5).normal(0.5, 0.1, (1, 1500))
    (low,), (high,) = intervals(scores)
    student = stats.ttest_1samp(scores[0], 0).confidence_interval(0.95)
    assert (low, high) == pytest.approx(tuple(student), abs=3e-4)


def test_the_same_seed_gives_the_same_interval_and_another_seed_another():
    scores = ndcg((3, 60), np.random.default_rng(1))
    once, again, other = (np.array(intervals(scores, seed=seed)) for seed in (7, 7, 8))
    assert (once == again).all()
    assert not (once == other).all()
    assert once == pytest.approx(other, abs=0.02)


@pytest.mark.slow
def test_what_is_drawn_of_very_many_queries_is_let_go_again():
    scores = np.random.default_rng(0).random((1, 400_000))
    tracemalloc.start()
    try:
        low, high = intervals(scores, samples=100)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert low < scores.mean() < high
    assert held < 10e6  # the draws are 80 MB


@pytest.mark.slow
def test_a_row_has_the_same_interval_alone_and_among_many():
    scores = ndcg((300, 60), np.random.default_rng(1))  # rows and samples enough for several blocks of both
    together = np.array(intervals(scores, samples=20_000))
    assert np.array(intervals(scores[280:281], samples=20_000))[:, 0] == pytest.approx(together[:, 280], abs=1e-12)


def test_differences_to_a_baseline_are_paired():
    random = np.random.default_rng(3)
    easy = random.random(50)
    scores = np.stack([easy, easy + 0.01, easy - 0.02])
    low, high = intervals(scores - scores[1], samples=500)
    assert low == pytest.approx([-0.01, 0, -0.03])
    assert high == pytest.approx([-0.01, 0, -0.03])
    own_low, own_high = intervals(scores)
    assert (own_high - own_low > 0.1).all()
