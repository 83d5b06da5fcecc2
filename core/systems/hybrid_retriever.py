"""hybrid-retriever: vector and keyword search fused by weighted RRF, children replaced by their parents.

Owns the protocol that whatever needs results depends on, its result type, and how its options become a variant.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Protocol

from pydantic import Field

from core.context import RequestContext
from core.errors import SpecError
from core.pipeline.retriever import RetrievalResult, search
from core.presets import preset
from core.registry import Options, in_a_sentence
from core.rerank import LanguageModelReranker, Reranker
from core.rerank.base import RERANKERS
from core.systems.reranking import CustomReranker, search_and_rerank
from core.tasks import run_cancellable
from core.types import Hit
from core.variant import Variant


@dataclass(frozen=True, slots=True)
class Result:
    """A passage that was found. The score is from 0 to 1, higher is better.

    The source is what the document's metadata calls so, else the collection that it is in.
    """

    content: str
    score: float
    chunk_id: str
    document_id: str
    document_title: str
    document_source: str


class Retriever(Protocol):
    """All that anything which needs results may know."""

    async def retrieve(self, ctx: RequestContext, query: str, top_k: int) -> Sequence[Result]:
        """At most `top_k` results, best first."""
        ...


class HybridRetrieverConfig(Options):
    """What may be chosen."""

    chunks: str = Field("parents", description="Which chunk set is searched.")
    model: str | None = Field(None, description="Which embedding set of it; by default the first there is.")
    keyword_weight: float = Field(
        0.3, ge=0, le=1, description="Keyword search's share; the vector search has the rest."
    )
    overfetch: int = Field(3, ge=1, le=100, description="Each leg is asked for top_k times this.")
    reranker: Annotated[Reranker, RERANKERS] | None = Field(
        None, description='A second look, such as {"method": "score"} or {"method": "llm"}.'
    )
    min_score: float = Field(0.0, ge=0, description="Results below it are dropped; scores end at 1.")


class HybridRetriever:
    """The system as a `Retriever`. Where the store cannot search by keywords, vectors alone count; nothing is set.

    The base is a variant with a vector leg and a keyword leg, for another keyword leg than the preset's. A reranker of
    one's own is given every candidate; where it fails, they pass through, as the trace says.
    """

    def __init__(
        self,
        config: HybridRetrieverConfig | None = None,
        base: Variant | None = None,
        reranker: CustomReranker | None = None,
    ) -> None:
        self.config, self.reranker = config or HybridRetrieverConfig(), reranker
        self.base = base or preset("hybrid-retriever")
        if len(self.base.legs) != 2:
            raise SpecError(
                f"hybrid-retriever searches by vectors and by keywords, and its base {self.base.name!r} has the legs "
                f"{', '.join(self.base.leg_names)}. Give it a variant of a vector leg and a keyword leg, in this order."
            )
        if reranker is not None and self.config.reranker is not None:
            raise SpecError("Two rerankers are given: the configuration's and one of your own. Leave one out.")

    async def retrieve(self, ctx: RequestContext, query: str, top_k: int = 10) -> list[Result]:
        found = await self.search(ctx, query, top_k)
        return [_result(hit, ctx.view.name) for hit in found.hits]

    async def search(self, ctx: RequestContext, query: str, top_k: int = 10) -> RetrievalResult:
        """The same with its trace."""
        if self.reranker is None:
            return await search(ctx, query, self.variant(top_k))
        variant, result = self.variant(top_k).but(min_score=0.0), partial(_result, collection=ctx.view.name)
        found = search_and_rerank(self.reranker, ctx, query, variant, result, top_k, self.config.min_score)
        return await run_cancellable(found, ctx.cancellation, ctx.deadline)

    def variant(self, top_k: int) -> Variant:
        config, base = self.config, self.base
        vector, keyword = base.legs
        return base.but(
            chunks=config.chunks,
            model=config.model,
            top_k=top_k,
            overfetch=config.overfetch,
            min_score=config.min_score,
            rerank=config.reranker and _for(config.reranker, top_k),
            legs=(
                vector.model_copy(update={"weight": 1 - config.keyword_weight}),
                keyword.model_copy(update={"weight": config.keyword_weight}),
            ),
        )


def _for(reranker: Reranker, top_k: int) -> Reranker:
    """The reranker as this system asks it: cut to `top_k`, all of which it has seen; marks from 0 to 10."""
    changes: dict[str, Any] = {"top_k": top_k, "depth": max(reranker.depth, top_k)}
    if isinstance(reranker, LanguageModelReranker):
        usual = {"rubric": "ten", "on_failure": "always_pass"}
        changes |= {name: value for name, value in usual.items() if name not in reranker.model_fields_set}
    with in_a_sentence(f"The reranker, asked for {top_k} results,"):
        return type(reranker)(**{**dict(reranker), **changes})


def _result(hit: Hit, collection: str) -> Result:
    """A foreign reranker's scores may lie outside of 0 to 1; ours never do."""
    source = hit.metadata.get("source")
    return Result(
        content=hit.text,
        score=min(1.0, max(0.0, hit.score)),
        chunk_id=hit.id,
        document_id=hit.item_id,
        document_title=hit.title,
        document_source=source if isinstance(source, str) and source else collection,
    )
