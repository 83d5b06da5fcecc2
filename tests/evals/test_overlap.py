"""Rank-biased overlap and Jaccard between rankings."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import SpecError
from evals.metrics.overlap import jaccard, per_query, rbo
from evals.metrics.scoring import Ranked
from evals.runs.rankings import Ranking

rankings = st.lists(st.sampled_from("abcdefghij"), unique=True)
persistences = st.sampled_from([0.3, 0.8, 0.9])


def by_definition(one: list[str], other: list[str], p: float, depth: int = 2000) -> float:
    """RBO as the infinite sum of agreements, unseen ones assumed as the paper does.

    The shorter list goes on agreeing as it did to its end, and so does the pair beyond the longer.
    """
    short, long = sorted((one, other), key=len)
    s, l = len(short), len(long)  # noqa: E741
    agreement, total = 0.0, 0.0
    for d in range(1, depth):
        if d <= l:
            met = len(set(short[:d]) & set(long[:d]))
            assumed = len(set(short) & set(long[:s])) * (d - s) / s if d > s else 0.0
            agreement = (met + assumed) / d
        total += (1 - p) * p ** (d - 1) * agreement
    return total


@given(rankings.filter(len), rankings.filter(len), persistences)
def test_rbo_is_the_sum_of_agreements_over_endless_lists(one, other, p):
    assert rbo(one, other, p) == pytest.approx(by_definition(one, other, p), abs=1e-9)


@pytest.mark.slow
@given(rankings, rankings, persistences)
def test_rbo_has_no_direction_and_lies_between_0_and_1(one, other, p):
    assert rbo(one, other, p) == pytest.approx(rbo(other, one, p), abs=1e-12)
    assert -1e-12 <= rbo(one, other, p) <= 1 + 1e-12


@given(rankings, persistences)
def test_a_ranking_is_wholly_like_itself(one, p):
    assert rbo(one, one, p) == pytest.approx(1.0)


def test_rankings_without_a_common_id_or_one_empty_are_not_alike():
    assert rbo("abc", "xyz") == rbo("abc", "") == jaccard("abc", "") == 0.0


def test_a_change_at_the_top_costs_more_than_one_further_down():
    assert rbo("abcdef", "bacdef") < rbo("abcdef", "abcdfe") < 1


def test_an_id_that_stands_twice_counts_at_its_better_place():
    assert rbo("abac", "abc") == pytest.approx(1.0)
    assert jaccard("aab", "abc", 2) == 1.0


def test_jaccard_counts_the_first_of_both():
    assert jaccard("abcd", "acxy", 2) == 1 / 3
    assert jaccard("abcd", "dcba") == jaccard("", "") == 1.0


@pytest.mark.parametrize("work", [lambda: rbo("a", "b", 1.0), lambda: rbo("a", "b", 0), lambda: jaccard("a", "b", 0)])
def test_bounds_of_options_are_said(work):
    with pytest.raises(SpecError, match="must be"):
        work()


def test_per_query_takes_every_query_of_either_and_a_level():
    one: Ranked = {"q": Ranking(("a1", "b1"), (2, 1), ("a", "b"), ((0, 1), (0, 1))), "only": ["a"]}
    other = {"q": ["a", "b"]}
    assert per_query(one, other, jaccard) == {"only": 0.0, "q": 1.0}
    assert per_query(one, other, jaccard, level="units") == {"only": 0.0, "q": 0.0}
