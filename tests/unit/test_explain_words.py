"""Plain words for how a document was found: every leg, stage and reason that there is has some."""

from __future__ import annotations

import pytest

from core.explain import explanation
from core.legs import legs
from core.variant import Variant


def test_every_leg_has_words_of_its_own():
    assert set(explanation.HOW) == set(legs)
    assert len(set(explanation.HOW.values())) == len(explanation.HOW)


def test_where_something_was_found_is_one_sentence():
    places = [(explanation.how("vector"), 1), (explanation.how("fulltext"), 3)]
    assert explanation.found(places) == "Found by its meaning at rank 1 and by its words at rank 3."
    assert explanation.found([]) == ""


def test_two_ways_that_find_alike_are_told_apart_by_their_names():
    variant = Variant.from_data({"leg": [{"kind": "bm25", "label": "near"}, {"kind": "bm25", "label": "far"}]})
    assert explanation.leg_phrases(variant) == {"near": "by its rare words (near)", "far": "by its rare words (far)"}


@pytest.mark.parametrize(
    ("stage", "reason", "said"),
    [
        ("cut", "its place is beyond top_k 3", "only the first 3 are shown"),
        ("cut", "its score is below min_score 0.5", "its score is below 0.5, the least that is asked for"),
        ("fuse", "its place is beyond fused_depth 4", "only the first 4 go on"),
        ("rerank", "place 7 is beyond top_k 4", "only the first 4 are kept"),
        ("roll up", "a#0001 stands for its item", "another passage of its document stands for it"),
        ("somebody's own", "it is blue", "it is blue"),
    ],
)
def test_a_reason_loses_its_names_of_options_and_keeps_its_numbers(stage, reason, said):
    assert explanation.why_left(stage, reason) == said


def test_a_step_is_named_plainly_and_an_unknown_one_as_it_is():
    assert [explanation.step(each) for each in ("leg bm25", "rerank", "new")] == [
        "found by its rare words",
        "second look",
        "new",
    ]
