"""A user's own reranker, any object with `rerank(ctx, query, results, top_k)`, over the results of a search.

Its order is cut to `top_k`. Where it fails, results are passed through, and the trace says so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol

from core.context import RequestContext
from core.errors import Cancelled, DeadlineExceeded
from core.pipeline.postprocess import numbered
from core.pipeline.retriever import RetrievalResult, search
from core.types import Hit
from core.variant import Variant


class CustomReranker(Protocol):
    """Any object that reorders results."""

    async def rerank(self, ctx: RequestContext, query: str, results: Sequence[Any], top_k: int) -> Sequence[Any]:
        """Some of the results, which have a `chunk_id` and a `score`; at most `top_k` of them come out."""
        ...


async def search_and_rerank(
    reranker: CustomReranker,
    ctx: RequestContext,
    query: str,
    variant: Variant,
    result_of: Callable[[Hit], Any],
    top_k: int,
    min_score: float = 0.0,
) -> RetrievalResult:
    """Reorder every candidate of the variant and cut to `top_k`. The caller applies the token and the deadline."""
    result = await search(replace(ctx, cancellation=None, deadline=None), query, variant)
    hits = {hit.id: hit for hit in (*result.hits, *result.beyond)}
    if not hits:
        return result
    with result.trace.stage("rerank") as record:
        try:
            reranked = await reranker.rerank(ctx, result.query, list(map(result_of, hits.values())), top_k)
            made = [replace(hits[each.chunk_id], score=each.score, rerank_score=each.score) for each in reranked]
        except (Cancelled, DeadlineExceeded):
            raise
        except Exception as error:
            record.note(f"The reranker failed: results passed through. {type(error).__name__}: {error}")
            made = list(hits.values())
        made = sorted(made, key=lambda hit: (-hit.score, hit.rank, hit.id.encode()))
        kept = numbered([hit for hit in made if hit.score >= min_score][:top_k])
        record.hand_on(kept)
    result.trace.close()
    return replace(result, hits=tuple(kept), beyond=())
