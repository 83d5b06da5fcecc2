"""Differences looked at together: interval and p agree, and errors are as rare as is said."""

# mypy: disable-error-code="no-untyped-call, no-untyped-def"

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evals.statistics.simultaneous import simultaneous, simultaneous_pairs
from tests.effort import examples

LEVEL, SAMPLES = 0.95, 999


def together(differences, **options):
    rows = np.asarray(differences, dtype=np.float64)
    worth = np.full(len(rows), float(rows.shape[1]))
    return simultaneous(rows / rows.shape[1], worth, **{"level": LEVEL, "samples": SAMPLES, **options})


@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.integers(20, 60), st.floats(-0.2, 0.2))
@examples(40)
def test_the_interval_leaves_0_out_just_where_p_is_at_most_the_level(seed, systems, queries, gain):
    random = np.random.default_rng(seed)
    rows = np.round(random.normal(gain, 0.2, (systems, queries)) * (random.random((systems, queries)) < 0.5), 1)
    found = together(rows)
    outside = (found.low > 1e-12) | (found.high < -1e-12)
    assert (outside == (found.p <= 1 - LEVEL)).all()


def test_the_formula_by_hand():
    rows = np.array([[0.1, 0.3, -0.1, 0.2], [0.0, 0.1, 0.0, 0.0], [0.4, 0.0, 0.2, 0.2]]) / 4
    found = simultaneous(rows, np.full(3, 4.0), samples=SAMPLES)
    squares = (rows**2).sum(axis=1)
    floored = np.maximum(squares, np.median(squares))
    assert found.means == pytest.approx(rows.sum(axis=1))
    assert found.errors == pytest.approx(np.sqrt(floored + 1 / 64))
    signs = 1 - 2.0 * np.random.default_rng(0).integers(0, 2, (SAMPLES, 4), dtype=np.int8)
    largest = np.abs(signs @ (rows / np.sqrt(floored)[:, None]).T).max(axis=1)
    assert found.critical == pytest.approx(np.sort(largest)[int(np.ceil(0.95 * (SAMPLES + 1))) - 1])


def test_pairs_are_differences_looked_at_together():
    scores = np.random.default_rng(6).random((4, 30)) / 30
    pairs = simultaneous_pairs(scores, 30.0, samples=SAMPLES)
    first, second = np.triu_indices(4, 1)
    rows = simultaneous(scores[first] - scores[second], np.full(6, 30.0), samples=SAMPLES)
    assert pairs.means == pytest.approx(rows.means)
    assert pairs.errors == pytest.approx(rows.errors)
    assert pairs.critical == pytest.approx(rows.critical)
    assert pairs.p == pytest.approx(rows.p)


def test_nothing_that_differs_is_an_interval_of_nothing():
    found = together(np.zeros((3, 25)))
    assert (found.means == 0).all()
    assert (found.low == 0).all()
    assert (found.p == 1).all()


def test_more_at_once_make_every_interval_wider_and_the_seed_repeats_it():
    rows = np.random.default_rng(7).normal(0.02, 0.2, (9, 100))
    alone, among = together(rows[:1]), together(rows)
    assert (among.high - among.low)[0] > (alone.high - alone.low)[0]
    assert (together(rows).p == among.p).all()
    assert (together(rows[::-1]).p[::-1] == among.p).all()


@pytest.mark.slow
def test_intervals_of_skewed_differences_miss_somewhere_in_one_table_of_twenty_at_most():
    """Mostly 0, a few large ones: what two set-ups differ by. Their true mean is 0."""
    random, missed = np.random.default_rng(8), 0
    for _ in range(400):
        rows = np.where(random.random((9, 100)) < 0.1, random.choice([0.9, -0.1], p=[0.1, 0.9], size=(9, 100)), 0.0)
        found = together(rows)
        missed += bool(((found.low > 0) | (found.high < 0)).any())
    assert missed / 400 < 0.08
