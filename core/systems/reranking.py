"""A reranker of somebody's own, any object with `rerank(ctx, query, results, top_k)`, over what a search found.

Owns its order, its cut, and that its failure passes results through and is in the trace.
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
    """Any object that orders results anew."""

    async def rerank(self, ctx: RequestContext, query: str, results: Sequence[Any], top_k: int) -> Sequence[Any]:
        """Some of the results, which have a `chunk_id` and a `score`; at most `top_k` of them come out."""
        ...


async def found_and_reranked(
    reranker: CustomReranker,
    ctx: RequestContext,
    query: str,
    variant: Variant,
    result_of: Callable[[Hit], Any],
    top_k: int,
    min_score: float = 0.0,
) -> RetrievalResult:
    """Every candidate of the variant ordered anew, cut to `top_k`. The caller guards it by token and deadline."""
    bundle = await search(replace(ctx, cancellation=None, deadline=None), query, variant)
    hits = {hit.id: hit for hit in (*bundle.hits, *bundle.beyond)}
    if not hits:
        return bundle
    with bundle.trace.stage("rerank") as record:
        try:
            given = await reranker.rerank(ctx, bundle.query, list(map(result_of, hits.values())), top_k)
            made = [replace(hits[each.chunk_id], score=each.score, rerank_score=each.score) for each in given]
        except (Cancelled, DeadlineExceeded):
            raise
        except Exception as error:
            record.note(f"The reranker failed: results passed through. {type(error).__name__}: {error}")
            made = list(hits.values())
        made = sorted(made, key=lambda hit: (-hit.score, hit.rank, hit.id.encode()))
        kept = numbered([hit for hit in made if hit.score >= min_score][:top_k])
        record.hand_on(kept)
    bundle.trace.close()
    return replace(bundle, hits=tuple(kept), beyond=())
