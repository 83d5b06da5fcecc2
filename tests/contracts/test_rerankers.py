"""What every registered reranker keeps to, whatever it asks for its scores."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import httpx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core import bridge
from core.context import Resources
from core.embedding import Vectors
from core.llm import Session, using
from core.rerank import Reranker, reranker_from, rerankers, spec_of
from core.types import Hit, StageResult
from tests.effort import examples
from tests.fakes import HashingEmbedder
from tests.unit.tiny_models import tiny_cross_encoder

LOADS_TORCH = {"cross_encoder"}
every_reranker = pytest.mark.parametrize(
    "method", [pytest.param(name, marks=pytest.mark.slow if name in LOADS_TORCH else ()) for name in rerankers]
)
few = examples(25)
words = st.lists(st.sampled_from(["cat", "Mat", "dog", "über", "42", "?"]), max_size=5).map(" ".join)
texts = st.lists(words, max_size=8)


class TokenHashing(HashingEmbedder):
    async def embed_tokens(self, texts: Sequence[str]) -> list[Vectors]:
        return [
            np.stack([self._vector(word) for word in text.split()]) if text.split() else np.empty((0, 16), np.float32)
            for text in texts
        ]


def share(query: str, text: str) -> float:
    held = set(text.lower().split())
    return sum(word in held for word in query.lower().split()) / 10


class Network:
    """Answers rerank and chat requests by word overlap, and counts them."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.calls += 1
        body = json.loads(request.content)
        return httpx.Response(200, json=self._chat(body) if "messages" in body else self._rerank(body))

    def _rerank(self, body: dict[str, Any]) -> Any:
        scores = enumerate(share(body["query"], text) for text in body["documents"])
        return {"results": [{"index": index, "relevance_score": score} for index, score in scores]}

    def _chat(self, body: dict[str, Any]) -> Any:
        asked = json.loads(body["messages"][1]["content"])
        rows = [
            {
                "chunk_id": each["id"],
                "relevance_score": 100 * share(asked["query"], each["text"]),
                "answerability": "no",
                "key_evidence": "",
            }
            for each in asked["candidates"]
        ]
        return {"choices": [{"message": {"content": json.dumps({"results": rows})}}]}


ENVIRONMENT = {
    "RANKBOOK_LLM_URL": "http://model.test/v1",
    "RANKBOOK_LLM_MODEL": "m",
    "RANKBOOK_RERANK_URL": "http://rank.test",
    "RANKBOOK_RERANK_MODEL": "m",
}


@pytest.fixture(scope="session")
def needed(tmp_path_factory) -> Callable[[str], dict[str, Any]]:
    """Options that a method cannot do without."""

    @cache
    def options(method: str) -> dict[str, Any]:
        folder = tmp_path_factory.mktemp("tiny")
        return {"model": str(tiny_cross_encoder(folder))} if method == "cross_encoder" else {}

    return options


def made(method: str, needed: Callable[[str], dict[str, Any]], **options: Any) -> Reranker:
    return reranker_from({"method": method} | needed(method) | options)


def run(reranker: Reranker, query: str, found: Sequence[Hit], network: Network | None = None) -> StageResult:
    resources = Resources(
        embedder=lambda _: TokenHashing(),
        transport=httpx.MockTransport(network or Network()),
        environment=ENVIRONMENT,
    )
    with using(Session()):
        return bridge.run(reranker.rerank(resources, query, found))


def hits(texts: Sequence[str]) -> list[Hit]:
    return [Hit(f"d{n:02}", f"i{n}", 1 - n / 100, n, "", text) for n, text in enumerate(texts, start=1)]


@every_reranker
@few
@given(query=words, texts=texts, depth=st.integers(1, 9), top_k=st.integers(1, 9))
def test_nothing_is_lost_and_ranks_count_from_one(needed, method, query, texts, depth, top_k):
    found = hits(texts)
    result = run(made(method, needed, depth=depth, top_k=top_k), query, found)
    assert [hit.rank for hit in result.hits] == list(range(1, len(result.hits) + 1))
    assert len(result.hits) == min(top_k, len(found))
    assert sorted([*(hit.id for hit in result.hits), *(each.id for each in result.dropped)]) == [h.id for h in found]
    assert all(each.reason for each in result.dropped)


@every_reranker
@few
@given(query=words, texts=texts, depth=st.integers(1, 9))
def test_the_order_is_total_and_hits_beyond_the_depth_stay_behind(needed, method, query, texts, depth):
    found = hits(texts)
    result = run(made(method, needed, depth=depth, top_k=100), query, found)
    reranked, beyond = result.hits[:depth], result.hits[depth:]
    assert {hit.id for hit in reranked} == {hit.id for hit in found[:depth]}
    assert [hit.id for hit in beyond] == [hit.id for hit in found[depth:]]
    before = {hit.id: hit.rank for hit in found}
    keys = [(-(hit.rerank_score or 0), before[hit.id]) for hit in reranked]
    assert keys == sorted(keys)


@every_reranker
def test_equal_texts_keep_the_order_they_came_in(needed, method):
    found = hits(["the cat sat"] * 30)
    assert [hit.id for hit in run(made(method, needed, depth=30, top_k=30), "cat", found).hits] == [h.id for h in found]


@every_reranker
def test_no_hits_give_no_hits_and_no_call(needed, method):
    network = Network()
    assert run(made(method, needed), "cat", [], network) == StageResult(())
    assert network.calls == 0


@every_reranker
def test_the_same_hits_give_the_same_result(needed, method):
    found = hits(["a cat", "a mat", "dog", "", "cat mat dog"])
    reranker = made(method, needed)
    assert run(reranker, "cat mat", found) == run(reranker, "cat mat", found)


@every_reranker
def test_what_a_hit_carries_is_carried_on(needed, method):
    found = [Hit("d", "i", 0.5, 1, "Title", "cat", {"k": 1}, ("A",), raw_score=0.1, parent_id="p", start=3, end=6)]
    (hit,) = run(made(method, needed), "cat", found).hits
    kept = ("id", "item_id", "title", "text", "metadata", "heading_path", "raw_score", "parent_id", "start", "end")
    assert [getattr(hit, name) for name in kept] == [getattr(found[0], name) for name in kept]


@every_reranker
def test_specs_come_back_whole_and_as_json(needed, method):
    reranker = made(method, needed, depth=3)
    spec = spec_of(reranker)
    assert spec["method"] == method
    assert reranker_from(json.loads(json.dumps(spec))) == reranker


@every_reranker
def test_options_are_documented_frozen_and_closed(needed, method):
    reranker = made(method, needed)
    assert type(reranker).__doc__
    assert all(option.description for option in type(reranker).model_fields.values())
    with pytest.raises(ValueError, match="frozen"):
        reranker.depth = 3  # type: ignore[misc]
