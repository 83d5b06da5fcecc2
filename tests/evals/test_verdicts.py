"""The rules, one by one; the words; and how often verdicts are wrong, in seeded simulation."""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evals.statistics.comparison import all_pairs, findings
from evals.statistics.verdicts import Difference, Rules, Verdict, alongside_best, found, judged, queries_to_see

RULES = Rules()
BETTER, WORSE, TIED, TOO_FEW = Verdict.BETTER, Verdict.WORSE, Verdict.TIED, Verdict.TOO_FEW


def difference(**changed) -> Difference:
    start = Difference(
        system="hybrid",
        baseline="bm25",
        queries=40,
        effective=40.0,
        mean=0.041,
        low=0.012,
        high=0.07,
        p=0.004,
        effect=0.5,
        wins=20,
        ties=12,
        losses=8,
        detectable=0.031,
        among=3,
    )
    return dataclasses.replace(start, **changed)


@pytest.mark.parametrize(
    ("changed", "verdict"),
    [
        ({}, BETTER),
        ({"mean": -0.041, "low": -0.07, "high": -0.012}, WORSE),
        ({"low": 0.0}, TOO_FEW),  # the interval holds 0
        ({"low": -0.01, "high": 0.019}, TIED),
        ({"low": -0.02, "high": 0.02}, TIED),
        ({"low": -0.01, "high": 0.021}, TOO_FEW),
        ({"low": 0.001, "high": 0.015}, BETTER),  # within the tie, and yet sure
        ({"effective": 19.0}, TOO_FEW),  # however sure it looks
        ({"low": -0.1, "high": 0.1, "ties": 40, "wins": 0, "losses": 0}, TIED),  # the same on every query
        ({"low": 0.0, "high": 0.0, "queries": 19, "effective": 19.0, "ties": 19}, TOO_FEW),
        ({"low": 0.0, "high": 0.0, "effective": 6.0}, TOO_FEW),  # 40 queries, one has all the weight
        ({"low": None, "high": None}, TOO_FEW),
    ],
)
def test_verdicts_by_the_rules(changed, verdict):
    assert judged(difference(**changed), RULES) == verdict


def test_the_margin_of_a_tie_is_an_option():
    close = difference(low=-0.01, high=0.04)
    assert judged(close, RULES) == TOO_FEW
    assert judged(close, Rules(tie=0.05)) == TIED


def test_options_of_before_one_procedure_gave_interval_and_verdict_are_read_and_passed_over():
    assert Rules.model_validate({"test": "wilcoxon", "correction": "bh", "tie": 0.01}) == Rules(tie=0.01)


@given(st.floats(-1, 1), st.floats(0, 0.5), st.integers(2, 100))
def test_the_other_way_round_the_verdict_is_the_opposite(mean, reach, queries):
    one = difference(mean=mean, low=mean - reach, high=mean + reach, queries=queries, effective=queries)
    assert judged(one.flipped(), RULES) == judged(one, RULES).opposite
    assert one.flipped().flipped() == one


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        (
            {},
            (
                "hybrid is better than bm25 by 0.041 (95% interval of 3 seen together +0.012 to +0.070, p = 0.004; "
                "40 queries: 20 won, 12 equal, 8 lost)."
            ),
        ),
        (
            {"mean": -0.011, "low": -0.02, "high": -0.002, "p": 0.0001, "among": 1},
            (
                "hybrid is worse than bm25 by 0.011 (95% interval -0.020 to -0.002, p < 0.001; "
                "40 queries: 20 won, 12 equal, 8 lost). It is a small difference: under 0.02."
            ),
        ),
        (
            {"mean": 0.003, "low": -0.01, "high": 0.016, "effective": 31.2},
            (
                "hybrid and bm25 are tied within 0.02 (difference +0.003, 95% interval of 3 seen together -0.010 to "
                "+0.016; "
                "40 queries, which weigh as 31 equal ones: 20 won, 12 equal, 8 lost)."
            ),
        ),
        (
            {"mean": 0.0, "low": 0.0, "high": 0.0, "wins": 0, "ties": 40, "losses": 0},
            "hybrid and bm25 score the same on all 40 queries: tied.",
        ),
        (
            {"mean": 0.01, "low": -0.01, "high": 0.03, "among": 1},
            (
                "Too few queries to tell hybrid from bm25: a difference under 0.031 cannot be seen with 40 queries "
                "(difference +0.010, 95% interval -0.010 to +0.030). To see 0.02 takes about 97."
            ),
        ),
        (
            {
                "mean": 0.0,
                "low": 0.0,
                "high": 0.0,
                "queries": 3,
                "effective": 3.0,
                "detectable": None,
            },
            (
                "Too few queries to tell hybrid from bm25: a verdict takes 20 (difference +0.000, 95% interval of 3 "
                "seen together +0.000 to +0.000; 3 queries)."
            ),
        ),
        (
            {"mean": 0.01, "low": -0.01, "high": 0.03, "among": 1, "detectable": None},
            "Too few queries to tell hybrid from bm25: the difference is +0.010 on each of 40 queries.",
        ),
        (
            {"queries": 1, "effective": 1.0, "low": None, "high": None, "detectable": None},
            "Too few queries to tell hybrid from bm25: there is one, which says nothing of others.",
        ),
        (
            {"queries": 0, "effective": 0.0, "mean": None, "low": None, "high": None, "detectable": None},
            "Nothing tells hybrid from bm25: there is no query that both were scored on.",
        ),
    ],
)
def test_a_sentence_for_each_case(changed, sentence):
    assert found(difference(**changed), RULES).sentence == sentence


def test_a_finding_is_plain_values_for_machines():
    written = json.loads(json.dumps(dataclasses.asdict(found(difference(), RULES))))
    assert written["verdict"] == "better"
    assert written["difference"]["detectable"] == 0.031


def test_how_many_queries_it_takes():
    assert queries_to_see(0.031, difference()) == 40
    assert queries_to_see(0.0155, difference()) == 160
    assert queries_to_see(0.01, difference(detectable=None)) is None


def test_alongside_the_best_are_those_that_nothing_starred_is_surely_better_than():
    means = {"d": 0.2, "c": 0.3, "a": 0.5, "b": 0.5}
    assert alongside_best(means, lambda one, other: (one, other) == ("b", "d")) == ("a", "b", "c")
    assert alongside_best(means, lambda one, other: (one, other) in {("a", "b"), ("b", "c")}) == ("a", "c", "d")
    assert alongside_best({"only": 0.1}, lambda one, other: True) == ("only",)
    assert alongside_best({}, lambda one, other: True) == ()


@pytest.mark.parametrize("options", [{"tie": 0}, {"tie": float("inf")}, {"level": 95}, {"ties": 0.1}])
def test_rules_that_make_no_sense_are_refused(options):
    with pytest.raises(pydantic.ValidationError):
        Rules(**options)


def test_every_rule_is_described():
    assert all(field.description for field in Rules.model_fields.values())


# ── How often verdicts are wrong ──


def scores(shape, random):
    """As nDCG@10 comes: many zeros, many ones, both systems finding the same queries hard."""
    hard = random.random(shape[-2:])
    kind = (random.random(shape) + hard) / 2
    return np.where(kind < 0.35, 0.0, np.where(kind > 0.6, 1.0, random.beta(1.5, 1.5, shape)))


def verdicts(differences, weights=None) -> list[Verdict]:
    """Each row a trial of its own."""
    asked = Rules(samples=1000)
    return [findings([("A", "B")], row[None, :], weights, rules=asked)[0].verdict for row in differences]


def share(given: list[Verdict], *wanted: Verdict) -> float:
    return sum(verdict in wanted for verdict in given) / len(given)


@pytest.mark.slow
@pytest.mark.parametrize("queries", [50, 200])
@pytest.mark.parametrize("weighted", [False, True])
def test_two_equal_systems_are_told_apart_in_one_trial_of_twenty_at_most(queries, weighted):
    random = np.random.default_rng(41)
    weights = random.integers(1, 6, queries) if weighted else None
    one, other = scores((2, 600, queries), random)
    given = verdicts(one - other, weights)
    assert 0.01 < share(given, BETTER, WORSE) < 0.07
    assert share(given, BETTER) == pytest.approx(share(given, WORSE), abs=0.03)


@pytest.mark.slow
def test_among_many_equal_systems_any_finding_stays_as_rare():
    """Tables of 5 equal systems, 10 pairs."""
    random = np.random.default_rng(43)
    names = list("abcde")
    tables = [all_pairs(names, scores((5, 1, 40), random)[:, 0], rules=Rules(samples=500)) for _ in range(300)]
    assert np.mean([len(table.best()) < 5 for table in tables]) <= 0.05 + 0.015


@pytest.mark.slow
def test_a_real_difference_is_found_the_surer_the_larger_and_never_the_wrong_way():
    random = np.random.default_rng(44)
    one, other = scores((2, 200, 150), random)
    given = [verdicts(one - other + size) for size in (0.03, 0.08, 0.15)]
    rates = [share(each, BETTER) for each in given]
    assert rates == sorted(rates)
    assert rates[0] < 0.5
    assert rates[2] > 0.9
    assert share(given[2], WORSE) == 0


@pytest.mark.slow
def test_a_tie_is_not_claimed_of_systems_that_differ_by_more():
    random = np.random.default_rng(45)
    noise = random.normal(0, 0.08, (300, 200))
    assert share(verdicts(noise), TIED) > 0.7
    assert share(verdicts(noise + 0.03), TIED) < 0.03
    assert share(verdicts(noise[:, :20]), TIED) < 0.3  # too few to say so


def test_a_rare_difference_is_not_missed_by_twenty_queries_more_often_than_said():
    """One query in seven differs, and by much: all 20 being equal, which would be a tie, is 1 in 20."""
    random = np.random.default_rng(46)
    assert share(verdicts(np.where(random.random((600, 20)) < 1 / 7, 0.5, 0.0)), TIED) < 0.07
