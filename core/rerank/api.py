"""A rerank endpoint as Jina, Cohere, vLLM and others serve it: `POST {base_url}/rerank`. Owns that exchange."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from pydantic import Field

from core.context import Resources
from core.errors import RerankError, SpecError
from core.http import EndpointFailure, RetryPolicy, checked_url, client, key_for, post, with_retries
from core.rerank.base import Reranker, rerankers
from core.types import Dropped, Hit, StageResult

URL, MODEL, KEY = "RANKBOOK_RERANK_URL", "RANKBOOK_RERANK_MODEL", "RANKBOOK_RERANK_KEY"
Scores = dict[int, float]


@rerankers.register("api")
class ApiReranker(Reranker):
    """Orders by the scores of a rerank endpoint, which become the hits' scores. It sees the query and the texts."""

    calls_endpoint = True

    base_url: str | None = Field(None, description=f"The address before `/rerank`; by default {URL}.")
    model: str | None = Field(None, description=f"The endpoint's name for the model; by default {MODEL}.")
    key_name: str = Field(
        KEY,
        pattern=r"^[A-Z][A-Z0-9_]*$",
        description=f"The environment variable that holds the key. Another one than {KEY} goes only to {URL}.",
    )
    on_failure: Literal["pass", "raise"] = Field(
        "pass", description="Whether results pass through with a note, or the search fails, when the endpoint does."
    )
    timeout: float = Field(30.0, gt=0, le=600, description="Seconds that one attempt may take.")
    attempts: int = Field(3, ge=1, le=10, description="How often it is asked where asking again can help.")

    async def rerank(self, resources: Resources, query: str, hits: Sequence[Hit]) -> StageResult:
        candidates = hits[: self.depth]
        if not candidates:
            return self.cut(hits)
        try:
            scores = await self._ask(resources, query, candidates)
        except RerankError as error:
            if self.on_failure == "raise":
                raise
            return StageResult.unchanged(hits, f"The rerank endpoint did not rank: results passed through. {error}")
        scored = [replace(hits[index], rerank_score=score, score=score) for index, score in scores.items()]
        scored.sort(key=lambda hit: (-hit.score, hit.rank, hit.id))
        # An endpoint asked for its best few returns no more: what it left out is cut.
        best = str(len(scores))
        left_out = [
            Dropped(hit.id, f"not among the endpoint's best {best}", "rerank endpoint", best)
            for index, hit in enumerate(candidates)
            if index not in scores
        ]
        return self.cut([*scored, *hits[self.depth :]], dropped=left_out)

    async def _ask(self, resources: Resources, query: str, hits: Sequence[Hit]) -> Scores:
        url, model, key = self._endpoint(resources)
        top_n = min(len(hits), self.top_k or len(hits))
        body = {"model": model, "query": query, "documents": [hit.text for hit in hits], "top_n": top_n}
        policy = RetryPolicy(timeout=self.timeout, attempts=self.attempts)

        async def attempt() -> Scores:
            return _scores(await post(sender, f"{url}/rerank", body, policy), len(hits), top_n)

        try:
            async with client(key, self.key_name, resources.transport) as sender:
                return await with_retries(policy, attempt, resources.pause)
        except EndpointFailure as failed:
            raise RerankError(
                f"{url}/rerank did not rank with {model!r}: {failed.problem}. Check {URL}, the model's name and "
                f"{self.key_name}, or try again later."
            ) from failed

    def where(self, resources: Resources) -> tuple[str, str]:
        """The address that it asks, and the model there."""
        url, model, _ = self._endpoint(resources)
        return url, model

    def _endpoint(self, resources: Resources) -> tuple[str, str, str]:
        home = resources.environment.get(URL, "")
        url, model = self.base_url or home, self.model or resources.environment.get(MODEL, "")
        if not url or not model:
            raise SpecError(f"No rerank endpoint is configured. Give base_url and model, or set {URL} and {MODEL}.")
        url = checked_url(url, "The rerank endpoint's base_url")
        key = resources.environment.get(self.key_name, "")
        if key and self.key_name != KEY and not home:
            raise SpecError(f"{self.key_name} goes only to the address in {URL}, which is not set. Set it to {url}.")
        return url, model, key_for(url, key, home, URL)


def _scores(answer: bytes, count: int, top_n: int) -> Scores:
    """Scores by the documents' indexes: each at most once, none invented, and as many as were asked for."""
    try:
        rows = [(row["index"], row["relevance_score"]) for row in json.loads(answer)["results"]]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise EndpointFailure(
            "the answer is not a list of results with index and relevance_score", passes=True
        ) from error
    for index, score in rows:
        if isinstance(index, bool) or not isinstance(index, int) or not 0 <= index < count:
            raise EndpointFailure("the answer ranks a document that was not sent", passes=True)
        if isinstance(score, bool) or not isinstance(score, int | float) or not math.isfinite(score):
            raise EndpointFailure("the answer holds a score that is no number", passes=True)
    scores = {index: float(score) for index, score in rows}
    if len(scores) < len(rows):
        raise EndpointFailure("the answer ranks a document twice", passes=True)
    if len(scores) < top_n:
        raise EndpointFailure(f"the answer ranks {len(scores)} documents of {top_n}", passes=True)
    return scores
