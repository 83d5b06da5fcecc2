"""Rerankers that ask nobody: the score filter, word overlap, and what all have from their base."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from core import bridge
from core.context import Resources
from core.errors import SpecError, UnknownName
from core.rerank import OverlapReranker, Reranker, ScoreReranker, reranker_from, spec_of
from core.types import Hit, StageResult


def run(reranker: Reranker, query: str, found: list[Hit]) -> StageResult:
    return bridge.run(reranker.rerank(Resources(), query, found))


def hits(*texts: str, scores: tuple[float, ...] = ()) -> list[Hit]:
    """Hits d1, d2, ... with falling scores, unless others are given."""
    given = scores or tuple(1 - n / 10 for n in range(len(texts)))
    pairs = zip(texts or [""] * len(given), given, strict=True)
    return [Hit(f"d{n}", f"i{n}", score, n, "", text) for n, (text, score) in enumerate(pairs, start=1)]


def order(result: StageResult) -> list[str]:
    return [hit.id for hit in result.hits]


def test_the_score_filter_drops_below_the_minimum_and_sorts():
    result = run(ScoreReranker(min_score=0.3), "", hits(scores=(0.3, 0.9, 0.1)))
    assert [(hit.id, hit.rank, hit.score) for hit in result.hits] == [("d2", 1, 0.9), ("d1", 2, 0.3)]
    assert [(each.id, each.reason) for each in result.dropped] == [("d3", "score 0.1 is below the minimum 0.3")]
    assert result.notes == ()
    assert order(run(ScoreReranker(min_score=0.05), "", hits(scores=(0.3, 0.9, 0.1)))) == ["d2", "d1", "d3"]


def test_a_minimum_that_nothing_reaches_is_noted():
    low = run(ScoreReranker(min_score=0.5), "", hits(scores=(0.3, 0.2)))
    assert low.notes == ("No hit reaches the minimum 0.5: the best score is 0.3.",)
    assert low.hits == ()
    assert "scores end at 1" in run(ScoreReranker(min_score=1.5), "", hits(scores=(0.3,))).notes[0]
    assert run(ScoreReranker(min_score=1.5), "", []).notes == ()


def test_the_score_filter_looks_at_its_depth_and_cuts_to_top_k():
    found = hits(scores=(0.3, 0.9, 0.1))
    assert order(run(ScoreReranker(min_score=0.5, depth=1), "", found)) == ["d2", "d3"]
    assert order(run(ScoreReranker(top_k=1), "", found)) == ["d2"]


def test_a_score_that_is_no_number_is_dropped():
    assert order(run(ScoreReranker(), "", hits(scores=(float("nan"), 0.1)))) == ["d2"]


def test_overlap_orders_by_the_share_of_the_querys_words_and_leaves_the_score():
    found = hits("nothing here", "The CAT sat", "a cat, a mat")
    result = run(OverlapReranker(), "Cat mat?", found)
    assert [(hit.id, hit.rerank_score, hit.score) for hit in result.hits] == [
        ("d3", 1.0, 0.8),
        ("d2", 0.5, 0.9),
        ("d1", 0.0, 1.0),
    ]
    assert [hit.rank for hit in result.hits] == [1, 2, 3]


def test_overlap_counts_each_word_of_the_query_once():
    found = hits("cat", "mat")
    assert order(run(OverlapReranker(), "mat cat cat cat", found)) == order(run(OverlapReranker(), "cat mat", found))
    assert [hit.rerank_score for hit in run(OverlapReranker(), "cat cat mat", found).hits] == [0.5, 0.5]


def test_overlap_ties_keep_the_order_they_came_in_whatever_their_ids():
    found = [replace(hit, id=name) for hit, name in zip(hits("cat", "cat", "cat"), "cab", strict=True)]
    assert order(run(OverlapReranker(), "cat", found)) == ["c", "a", "b"]


def test_thousands_of_ties_keep_their_order():
    found = hits(*["cat"] * 5000)
    assert order(run(OverlapReranker(depth=10_000), "cat", found)) == [hit.id for hit in found]


def test_overlap_takes_whole_words_or_parts():
    found = hits("dog", "concatenate")
    assert order(run(OverlapReranker(), "cat", found)) == ["d1", "d2"]
    assert order(run(OverlapReranker(whole_words=False), "cat", found)) == ["d2", "d1"]


def test_a_query_without_words_reorders_nothing_and_says_so():
    result = run(OverlapReranker(), "?!", hits("a", "b"))
    assert order(result) == ["d1", "d2"]
    assert "holds no word" in result.notes[0]


def test_hits_beyond_the_depth_stay_behind():
    result = run(OverlapReranker(depth=2), "cat", hits("a", "cat", "cat", "b"))
    assert order(result) == ["d2", "d1", "d3", "d4"]
    assert [hit.rerank_score for hit in result.hits] == [1.0, 0.0, None, None]


def test_what_top_k_cuts_is_said():
    result = run(OverlapReranker(top_k=1), "cat", hits("a", "cat"))
    assert order(result) == ["d2"]
    assert [(each.id, each.reason) for each in result.dropped] == [("d1", "place 2 is beyond top_k 1")]


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"method": "overlp"}, "Did you mean 'overlap'"),
        ({"method": "overlap", "dpth": 3}, "Did you mean 'depth'"),
        ({"method": "llm", "return_topn": 3}, "No option of the reranker 'llm' is called 'return_topn'"),
    ],
)
def test_an_unknown_name_is_met_with_the_nearest(spec: dict[str, Any], said: str):
    with pytest.raises(UnknownName, match=said):
        reranker_from(spec)


@pytest.mark.parametrize("spec", [{}, {"method": 3}, {"method": "overlap", "depth": 0}, {"method": "cross_encoder"}])
def test_a_spec_that_does_not_validate_is_a_sentence(spec):
    with pytest.raises(SpecError):
        reranker_from(spec)


def test_a_spec_comes_back_whole():
    reranker = reranker_from({"method": "score", "min_score": 0.5})
    assert spec_of(reranker) == {"method": "score", "depth": 10_000, "top_k": None, "min_score": 0.5}
    assert reranker_from(spec_of(reranker)) == reranker
