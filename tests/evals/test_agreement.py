"""Agreement of judges, against worked examples that others have published."""

# mypy: disable-error-code="no-untyped-call, no-any-return, call-arg, union-attr, type-arg, misc"
# mypy: disable-error-code="arg-type, var-annotated, unused-ignore"

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from evals.judging.agreement import (
    PairwiseAgreement,
    agreement,
    agreement_word,
    calibration,
    cohen_kappa,
    krippendorff_alpha,
    settled_grade,
)

# Krippendorff, "Computing Krippendorff's alpha-reliability" (2011), example C: four observers, twelve units, gaps.
FOUR_OBSERVERS = (
    (1, 2, 3, 3, 2, 1, 4, 1, 2, None, None, None),
    (1, 2, 3, 3, 2, 2, 4, 1, 2, 5, None, 3),
    (None, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, None),
    (1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, None),
)
# The data set `anxiety` of R's package irr (two of its raters), whose manual prints the kappas.
ANXIETY = (
    (3, 3, 3, 4, 5, 5, 2, 3, 5, 2, 2, 6, 1, 5, 2, 2, 1, 2, 4, 3),
    (3, 6, 4, 6, 2, 4, 2, 4, 3, 3, 2, 3, 3, 3, 2, 2, 1, 3, 3, 4),
)
GRADES = some.lists(some.tuples(some.integers(0, 3), some.integers(0, 3)), min_size=1, max_size=30)


def units(observers):
    return [[grade for grade in unit if grade is not None] for unit in zip(*observers, strict=True)]


@pytest.mark.parametrize(("level", "alpha"), [("nominal", 0.743), ("ordinal", 0.815), ("interval", 0.849)])
def test_krippendorffs_alpha_is_that_of_his_own_example_with_gaps(level, alpha):
    assert krippendorff_alpha(units(FOUR_OBSERVERS), level) == pytest.approx(alpha, abs=5e-4)


def test_krippendorffs_alpha_of_two_observers_and_nominal_values():
    """Example B of the same paper: 12 units, alpha 0.692."""
    first, second = "aabbdcccedda", "babbbccceddd"
    codes = {letter: place for place, letter in enumerate("abcde")}
    paired = [[codes[a], codes[b]] for a, b in zip(first, second, strict=True)]
    assert krippendorff_alpha(paired, "nominal") == pytest.approx(0.692, abs=5e-4)


def test_cohens_kappa_of_the_grant_reviewers():
    """The textbook table 20, 5 / 10, 15: observed 0.7, by chance 0.5, kappa 0.4."""
    first = [1] * 25 + [0] * 25
    second = [1] * 20 + [0] * 5 + [1] * 10 + [0] * 15
    assert cohen_kappa(first, second) == pytest.approx(0.4)


@pytest.mark.parametrize(("weights", "kappa"), [("none", 0.119), ("linear", 0.189), ("quadratic", 0.297)])
def test_weighted_kappas_are_those_of_the_anxiety_ratings(weights, kappa):
    assert cohen_kappa(*ANXIETY, weights) == pytest.approx(kappa, abs=5e-4)


@given(GRADES)
def test_kappa_does_not_depend_on_who_is_named_first_and_is_one_only_where_all_agree(grades):
    one, other = zip(*grades, strict=True)
    for weights in ("none", "linear", "quadratic"):
        kappa = cohen_kappa(one, other, weights)
        assert kappa == cohen_kappa(other, one, weights) or kappa == pytest.approx(cohen_kappa(other, one, weights))
        assert kappa is None or kappa <= 1 + 1e-12
        if kappa is not None:
            assert (kappa == pytest.approx(1)) == (one == other)


@given(GRADES)
def test_with_two_grades_weights_change_nothing(grades):
    one, other = ([min(grade, 1) for grade in each] for each in zip(*grades, strict=True))
    plain = cohen_kappa(one, other)
    assert plain == cohen_kappa(one, other, "linear") == cohen_kappa(one, other, "quadratic")


def test_one_grade_throughout_has_no_kappa_and_no_alpha():
    assert cohen_kappa([2, 2], [2, 2]) is None
    assert cohen_kappa([], []) is None
    assert krippendorff_alpha([[2, 2], [2, 2, 2]]) is None
    assert krippendorff_alpha([[1], [2]]) is None
    assert "one grade only" in agreement_word(None)


def test_agreement_counts_only_pairs_that_several_judged():
    found = agreement(
        {
            "ada": {("q", "a"): 3, ("q", "b"): 0, ("q", "c"): 1},
            "bob": {("q", "a"): 3, ("q", "b"): 0},
            "eve": {("q", "x"): 1},
        }
    )
    assert found.judges == (("ada", 3), ("bob", 2), ("eve", 1))
    assert [(each.one, each.other, each.shared, each.kappa) for each in found.two] == [("ada", "bob", 2, 1.0)]
    assert (found.shared, found.alpha) == (2, 1.0)
    assert "alpha is 1.00 (almost perfect)" in found.sentence()
    assert "No pair has two judges" in agreement({"ada": {("q", "a"): 3}}).sentence()


@pytest.mark.parametrize(("grades", "grade"), [([3], 3), ([0, 3], 0), ([3, 1, 2], 2), ([1, 2, 3, 3], 2)])
def test_several_grades_settle_on_the_median_and_on_the_lower_of_the_middle(grades, grade):
    assert settled_grade(grades) == settled_grade(grades[::-1]) == grade


def test_a_models_grades_are_held_against_peoples_on_the_pairs_of_both():
    people = {("q", str(n)): grade for n, grade in enumerate([0, 0, 1, 2, 3, 3])}
    model = {("q", str(n)): grade for n, grade in enumerate([0, 1, 1, 2, 3, 2, 3])}
    found = calibration("llm:small", model, people)
    assert found.compared is not None
    assert found.compared.table == ((1, 1, 0, 0), (0, 1, 0, 0), (0, 0, 1, 0), (0, 0, 1, 1))
    assert np.sum(found.compared.table) == 6
    assert "On 6 pairs" in found.sentence()
    assert "the same grade on 67%" in found.sentence()
    assert "grades 1 higher and 1 lower" in found.sentence()
    assert "Of 4 that people find relevant it finds 4; of the 5 that it finds relevant, 4 are so." in found.sentence()
    assert found.plain()["shared"] == 6


def test_a_model_without_pairs_in_common_is_not_vouched_for():
    found = calibration("llm:small", {("q", "a"): 3}, {("q", "b"): 3})
    assert found.compared is None
    assert "not known" in found.sentence()
    assert PairwiseAgreement.of("a", {}, "b", {}) is None
