"""Holm and Benjamini-Hochberg: published numbers, and what they promise."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import InputError, UnknownName
from evals.statistics.correction import corrected

VALUES = st.lists(st.floats(0, 1), max_size=30)


def test_holm_by_hand():
    assert corrected([0.01, 0.04, 0.03, 0.005], "holm") == pytest.approx([0.03, 0.06, 0.06, 0.02])


def test_benjamini_hochberg_on_its_authors_own_example():
    """Their section 3.2: of these 15 values, four are findings at 0.05; Bonferroni's way would be three."""
    values = [0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344]
    values += [0.0459, 0.3240, 0.4262, 0.5719, 0.6528, 0.7590, 1.0]
    assert (corrected(values, "bh") <= 0.05).sum() == 4
    assert (corrected(values, "holm") <= 0.05).sum() == 3


@given(VALUES)
def test_none_leaves_values_and_the_others_only_raise_them_holm_the_most(values):
    raw, bh, holm = (corrected(values, method) for method in ("none", "bh", "holm"))
    assert raw.tolist() == values
    assert (raw <= bh + 1e-12).all()
    assert (bh <= holm + 1e-12).all()
    assert (holm <= 1).all()


@given(VALUES, st.randoms())
def test_the_order_of_values_is_kept_and_the_order_given_does_not_matter(values, random):
    order = list(range(len(values)))
    random.shuffle(order)
    for method in ("holm", "bh"):
        found = corrected(values, method)
        shuffled = corrected([values[place] for place in order], method)
        assert shuffled == pytest.approx(found[order])
        assert (np.diff(found[np.argsort(values, kind="stable")]) >= -1e-12).all()


def test_one_value_is_not_corrected():
    assert corrected([0.03], "holm") == corrected([0.03], "bh") == 0.03


def test_holm_keeps_false_findings_in_one_family_of_twenty():
    """1,000 families of 40 true nulls: without correction nearly each has a finding."""
    families = np.random.default_rng(1).random((1000, 40))
    false = {
        method: np.mean([(corrected(family, method) < 0.05).any() for family in families])
        for method in ("none", "holm", "bh")
    }
    assert false["none"] > 0.8
    assert false["holm"] == pytest.approx(0.05, abs=0.02)
    assert false["bh"] == pytest.approx(0.05, abs=0.02)


def test_benjamini_hochberg_keeps_the_share_of_false_findings():
    random = np.random.default_rng(2)
    shares = []
    for _ in range(500):
        values = np.r_[random.random(30), random.beta(0.05, 5, 10)]  # 30 nulls, 10 real
        found = corrected(values, "bh") < 0.1
        shares.append(found[:30].sum() / max(1, found.sum()))
    assert np.mean(shares) == pytest.approx(0.1 * 30 / 40, abs=0.02)


@pytest.mark.parametrize("value", [-0.1, 1.1, np.nan])
def test_what_is_no_probability_is_refused(value):
    with pytest.raises(InputError, match="between 0 and 1; number 1"):
        corrected([0.5, value])


def test_an_unknown_correction_names_the_nearest():
    with pytest.raises(UnknownName, match="Did you mean 'holm'"):
        corrected([0.5], "holms")  # type: ignore[arg-type]
