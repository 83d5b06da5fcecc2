"""Plain words for how a document was found, and for why a stage left it out."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from core.context import Resources
from core.explain import explanation
from core.legs import describe
from core.pipeline.postprocess import cap_per_item, cut, replace_by_parents, roll_up
from core.rerank import Reranker, ScoreReranker
from core.rerank.base import OverlapReranker
from core.store.passages import StoredChunk
from core.types import Dropped, Hit, StageResult
from core.variant import Rollup, Variant

HITS = [Hit(id=f"a#{at:04d}", item_id="a", score=1 - at / 10, rank=at + 1, title="", text="t") for at in range(6)]
PARENT = StoredChunk("a#0009", "a", "", "Parent", 0, 0, 9, "parent")


def reranked(reranker: Reranker) -> StageResult:
    return asyncio.run(reranker.rerank(Resources(), "query", HITS))


def test_where_something_was_found_is_one_sentence() -> None:
    places = [(describe("vector").phrase, 1), (describe("fulltext").phrase, 3)]
    assert explanation.found(places) == "Found by its meaning at rank 1 and by its words at rank 3."
    assert explanation.found([]) == ""


def test_two_ways_that_find_alike_are_told_apart_by_their_names() -> None:
    variant = Variant.from_data({"leg": [{"kind": "bm25", "label": "near"}, {"kind": "bm25", "label": "far"}]})
    phrases = {name: about.phrase for name, about in explanation.described_legs(variant).items()}
    assert phrases == {"near": "by its rare words (near)", "far": "by its rare words (far)"}


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (cut(HITS, 0.0, 3)[0], "only the first 3 are shown"),
        (cut(HITS, 0.75, 9)[0], "its score is below 0.75, the least that is asked for"),
        (reranked(OverlapReranker(top_k=4)), "only the first 4 are kept"),
        (reranked(ScoreReranker(min_score=0.8)), "its score is below 0.8, the least that is asked for"),
        (roll_up(HITS, Rollup(), 1, None), "another passage of its document stands for it"),
        (cap_per_item(HITS, 2, 1), "as many passages of its document as may be shown stand before it"),
        (
            replace_by_parents(HITS, {hit.id: PARENT for hit in HITS}),
            "the longer passage around it is shown already",
        ),
    ],
)
def test_a_reason_loses_its_names_of_options_and_keeps_its_numbers(result: StageResult, words: str) -> None:
    assert result.dropped
    assert {explanation.why_dropped(each.code, each.limit) for each in result.dropped} == {words}
    assert all(words not in each.reason for each in result.dropped), "the exact sentence is another one"


def test_a_reason_that_nobody_put_into_plain_words_has_none() -> None:
    other: Any = Dropped("a", "it is blue")
    assert explanation.why_dropped(other.code, other.limit) == ""


def test_a_step_is_named_plainly_and_an_unknown_one_as_it_is() -> None:
    assert [explanation.step(each) for each in ("leg bm25", "rerank", "new")] == [
        "found by its rare words",
        "second look",
        "new",
    ]
