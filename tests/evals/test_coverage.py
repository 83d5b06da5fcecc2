"""What was judged, the bounds that missing labels leave, condensed rankings."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evals.measures import MEASURES
from evals.metrics import coverage
from evals.metrics.scoring import score_rankings
from tests.effort import examples

METRICS = [
    f"{name}{'.80' if name == 'rbp' else ''}{end}"
    for name, measure in MEASURES.items()
    if not measure.of_spans
    for end in ("", "@2", ":min2", "@3:min2")
]


@pytest.mark.parametrize(
    ("ids", "cutoff", "share"),
    [
        (["a", "x", "b", "y"], None, 0.5),
        (["a", "x", "b", "y"], 3, 2 / 3),
        (["a", "x"], 10, 0.5),
        (["a", "a", "x"], None, 0.5),
        (["x"], 1, 0.0),
        ([], 5, 0.0),
    ],
)
def test_judged_is_the_share_of_the_first_hits_that_have_a_label_relevant_or_not(ids, cutoff, share):
    assert coverage.judged({"q": {"a": 1, "b": 0}}, {"q": ids}, cutoff) == {"q": pytest.approx(share)}


def test_judged_speaks_of_the_queries_that_are_scored():
    grades = {"found": {"a": 1}, "unanswered": {"a": 1}, "hopeless": {"a": 0}}
    assert coverage.judged(grades, {"found": ["x"], "unknown": ["a"]}) == {"found": 0.0, "unanswered": 0.0}


def test_condensed_rankings_keep_the_judged_in_their_order():
    found = coverage.condensed({"q": {"a": 0, "b": 2}}, {"q": ["x", "b", "y", "a", "b"], "unlabelled": ["a"]})
    assert found == {"q": ("b", "a"), "unlabelled": ()}


def test_bounds_meet_where_every_hit_is_judged():
    found = coverage.bounds({"q": {"a": 1, "b": 0, "c": 2}}, {"q": ["b", "a"]}, METRICS)
    assert found.high.means() == pytest.approx(found.low.means(), abs=1e-9)


def test_low_is_the_usual_score_except_that_bpref_counts_the_unjudged_as_not_relevant():
    grades, ranked = {"q": {"a": 1, "b": 0}}, {"q": ["x", "a"]}
    usual, low = score_rankings(grades, ranked, METRICS).means(), coverage.bounds(grades, ranked, METRICS).low.means()
    assert {name for name in usual if usual[name] != low[name]} == {"bpref", "bpref@2"}
    assert (usual["bpref"], low["bpref"]) == (1.0, 0.0)


@pytest.mark.slow
@examples(40)
@given(
    st.dictionaries(st.sampled_from("abcdefg"), st.integers(0, 3), min_size=1),
    st.lists(st.sampled_from("abcdewxyz"), unique=True, max_size=6),
    st.integers(1, 3),
)
def test_high_is_the_best_score_over_all_grades_of_the_unjudged_hits(labels, ids, top):
    labels["z"] = 1  # a query without a relevant item is not scored
    unjudged = [each for each in ids if each not in labels]
    worlds = {
        str(world): {**labels, **dict(zip(unjudged, world, strict=True))}
        for world in product(range(top + 1), repeat=len(unjudged))
    }
    every = score_rankings(worlds, dict.fromkeys(worlds, ids), METRICS)
    found = coverage.bounds({"q": labels}, {"q": ids}, METRICS, top)
    assert found.high.means() == pytest.approx(dict(zip(METRICS, every.values.max(axis=1), strict=True)), abs=1e-9)
    assert all((found.low.values <= found.high.values + 1e-9).flat)


def test_the_top_grade_is_the_highest_label_unless_it_is_given():
    grades, ranked = {"q": {"a": 2, "b": 1}, "other": {"c": 3}}, {"q": ["x"], "other": ["c"]}
    assert coverage.bounds(grades, ranked, ["dcg"]).high.of("dcg")["q"] == 3.0
    assert coverage.bounds(grades, ranked, ["dcg"], top=1).high.of("dcg")["q"] == 1.0
