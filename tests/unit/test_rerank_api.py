"""The rerank endpoint: what it is asked, and what is done with an answer that cannot be right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from core import bridge
from core.context import Resources
from core.errors import RerankError, SpecError
from core.rerank import ApiReranker
from core.types import Hit, StageResult
from tests.unit.misbehaving import Endpoint, Pauses, Reply, serving

HITS = [Hit(f"d{n}", f"i{n}", 1 - n / 100, n, "", f"text {n}") for n in range(1, 4)]


def ranking(*pairs: tuple[Any, Any]) -> Reply:
    return Reply({"results": [{"index": index, "relevance_score": score} for index, score in pairs]})


GOOD = ranking((2, 0.9), (0, 0.5), (1, 0.1))


def reranked(
    endpoint: Endpoint,
    *,
    found: Sequence[Hit] = HITS,
    pauses: Pauses | None = None,
    environment: Mapping[str, str] | None = None,
    **options: Any,
) -> StageResult:
    resources = Resources(pause=pauses if pauses is not None else Pauses(), environment=environment or {})
    spec = ApiReranker(**{"base_url": endpoint.url, "model": "ranker"} | options)
    return bridge.run(spec.rerank(resources, "which?", found))


def test_the_endpoints_score_orders_the_hits_and_becomes_theirs():
    with serving(GOOD) as endpoint:
        result = reranked(endpoint)
    assert endpoint.paths == ["/v1/rerank"]
    assert endpoint.asked == [
        {"model": "ranker", "query": "which?", "documents": ["text 1", "text 2", "text 3"], "top_n": 3}
    ]
    assert [(hit.id, hit.rank, hit.score, hit.rerank_score) for hit in result.hits] == [
        ("d3", 1, 0.9, 0.9),
        ("d1", 2, 0.5, 0.5),
        ("d2", 3, 0.1, 0.1),
    ]


def test_no_hits_no_call():
    with serving(GOOD) as endpoint:
        assert reranked(endpoint, found=[]) == StageResult(())
    assert endpoint.asked == []


def test_it_is_asked_for_the_best_few_and_may_return_no_more():
    with serving(ranking((2, 0.9))) as endpoint:
        result = reranked(endpoint, top_k=1)
    assert endpoint.asked[0]["top_n"] == 1
    assert [hit.id for hit in result.hits] == ["d3"]
    assert [each.id for each in result.dropped] == ["d1", "d2"]


def test_an_endpoint_that_returns_more_than_asked_is_cut():
    with serving(GOOD) as endpoint:
        assert [hit.id for hit in reranked(endpoint, top_k=2).hits] == ["d3", "d1"]


def test_hits_beyond_the_depth_are_not_sent_and_stand_behind():
    with serving(ranking((0, 0.1), (1, 0.2))) as endpoint:
        result = reranked(endpoint, depth=2)
    assert [hit.id for hit in result.hits] == ["d2", "d1", "d3"]
    assert result.hits[2].rerank_score is None


def test_equal_scores_keep_the_order_they_came_in():
    with serving(ranking((2, 0.5), (1, 0.5), (0, 0.5))) as endpoint:
        assert [hit.id for hit in reranked(endpoint).hits] == ["d1", "d2", "d3"]


def test_the_environment_names_endpoint_model_and_key():
    with serving(GOOD) as endpoint:
        environment = {
            "RANKBOOK_RERANK_URL": endpoint.url,
            "RANKBOOK_RERANK_MODEL": "other",
            "RANKBOOK_RERANK_KEY": "k1",
            "COHERE_API_KEY": "k2",
        }
        for name in ("RANKBOOK_RERANK_KEY", "COHERE_API_KEY", "UNSET_KEY"):
            reranked(endpoint, environment=environment, base_url=None, model=None, key_name=name)
    assert endpoint.asked[0]["model"] == "other"
    assert [headers.get("Authorization") for headers in endpoint.headers] == ["Bearer k1", "Bearer k2", None]


def test_a_key_of_another_name_goes_only_where_the_environment_says():
    with serving(GOOD) as endpoint:
        with pytest.raises(SpecError, match="COHERE_API_KEY goes only to the address in RANKBOOK_RERANK_URL"):
            reranked(endpoint, key_name="COHERE_API_KEY", environment={"COHERE_API_KEY": "s3cret"})
        elsewhere = {"RANKBOOK_RERANK_URL": "https://ranks.test/v1", "RANKBOOK_RERANK_KEY": "s3cret"}
        with pytest.raises(SpecError, match="belongs to"):
            reranked(endpoint, environment=elsewhere)
    assert endpoint.asked == []


def test_nothing_configured_is_a_sentence():
    with pytest.raises(SpecError, match="set RANKBOOK_RERANK_URL and RANKBOOK_RERANK_MODEL"):
        bridge.run(ApiReranker().rerank(Resources(environment={}), "which?", HITS))


def test_a_key_that_no_header_can_hold_is_refused_unseen():
    with serving(GOOD) as endpoint, pytest.raises(SpecError) as refused:
        reranked(endpoint, environment={"RANKBOOK_RERANK_KEY": "s3cret\n"})
    assert "s3cret" not in str(refused.value)


WRONG = {
    "no json": Reply(b"<html>"),
    "another shape": Reply({"data": []}),
    "a list": Reply([1, 2]),
    "a missing index": ranking((0, 0.5), (1, 0.4)),
    "a double index": ranking((0, 0.5), (0, 0.4), (1, 0.2), (2, 0.1)),
    "an index beyond": ranking((0, 0.5), (1, 0.4), (2, 0.2), (3, 0.1)),
    "a negative index": ranking((0, 0.5), (1, 0.4), (-1, 0.2)),
    "an index as text": ranking(("0", 0.5), (1, 0.4), (2, 0.2)),
    "an index that is true": ranking((0, 0.5), (True, 0.4), (2, 0.2)),
    "a score as text": ranking((0, "0.5"), (1, 0.4), (2, 0.2)),
    "a score that is no number": ranking((0, float("nan")), (1, 0.4), (2, 0.2)),
    "none for hits": ranking(),
    "a closed connection": Reply(b"x", closed=True),
    "429": Reply(b"", 429, {"Retry-After": "2"}),
    "500": Reply(b"", 500),
    "silence": Reply(silent=True),
}


@pytest.mark.slow
@pytest.mark.parametrize("reply", WRONG.values(), ids=WRONG)
def test_a_wrong_answer_is_asked_for_again_then_passed_over_visibly_or_raised(reply):
    pauses, timeout = Pauses(), 0.5 if reply.silent else 60.0
    with serving(reply, GOOD) as endpoint:
        assert reranked(endpoint, pauses=pauses, timeout=timeout).hits[0].id == "d3"
    assert len(pauses) == 1
    with serving(reply) as endpoint:
        passed = reranked(endpoint, timeout=timeout, attempts=2)
        assert len(endpoint.asked) == 2
        with pytest.raises(RerankError, match=r"/rerank did not rank with 'ranker'"):
            reranked(endpoint, timeout=timeout, attempts=1, on_failure="raise")
    assert passed.hits == tuple(HITS)
    assert "results passed through" in passed.notes[0]


@pytest.mark.parametrize("reply", [Reply(b"x" * 3_000_000), Reply(b"", 401)], ids=["huge", "401"])
def test_what_asking_again_cannot_mend_is_passed_over_at_once(reply):
    with serving(reply) as endpoint:
        assert "results passed through" in reranked(endpoint).notes[0]
    assert len(endpoint.asked) == 1
