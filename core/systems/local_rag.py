"""local-rag: MiniLM vectors and trigrams, ten of each, fused by RRF with trigrams at 1.5.

Owns its knobs, under the names they are published by, and how they become a variant.
"""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import ConfigDict, Field

from core.context import RequestContext
from core.expansion import PatternExpansion
from core.fusion.rank_based import RrfFusion
from core.legs import Leg
from core.legs.fulltext import FulltextLeg
from core.pipeline.retriever import RetrievalResult, search
from core.presets import preset
from core.registry import Options, in_a_sentence
from core.rerank import CrossEncoderReranker
from core.routing import Routing
from core.types import Hit
from core.variant import Variant


class LocalRagConfig(Options):
    """What may be chosen. The last four were planned there."""

    model_config = ConfigDict(populate_by_name=True)

    chunks: str = Field("default", description="Which chunk set is searched.")
    model: str | None = Field(None, description="Which embedding set of it; by default the first there is.")
    limit: int = Field(10, ge=1, le=10_000, description="How many each leg brings up, and how many come out.")
    rrf_k: float = Field(60, ge=0, alias="RRF_K", description="The larger, the less the first ranks stand out.")
    similarity_threshold: float = Field(
        0.3,
        ge=0,
        le=1,
        alias="similarityThreshold",
        description="The least hybrid score. 1 is the most there is, and 0.349 the least with the usual weights and "
        "limit: it acts from there on. A threshold on likeness itself is vector_threshold.",
    )
    vector_weight: float = Field(1.0, ge=0, description="What a vector rank counts.")
    trigram_weight: float = Field(1.5, ge=0, description="What a trigram rank counts.")
    trigram_threshold: float = Field(0.3, gt=0, le=1, description="The least word similarity that counts as a find.")
    vector_threshold: float | None = Field(None, ge=-1, le=1, description="The least cosine similarity that counts.")
    expand: bool = Field(False, description="Whether a question is also said as its answer would begin.")
    cross_encoder: str | None = Field(None, description="A cross-encoder that reorders the results, by folder or name.")
    weights: Mapping[str, Mapping[str, float]] = Field(
        default_factory=dict, description="Other weights by the query's kind: identifier, question, keyword ..."
    )
    fulltext_weight: float | None = Field(None, ge=0, description="What full-text search counts, as a further signal.")

    @in_a_sentence("The configuration of local-rag")
    def variant(self) -> Variant:
        vector, trigram = preset("local-rag").legs
        by_vectors = {"weight": self.vector_weight, "depth": self.limit, "min_score": self.vector_threshold}
        by_trigrams = {"weight": self.trigram_weight, "depth": self.limit, "threshold": self.trigram_threshold}
        legs: list[Leg] = [vector.model_copy(update=by_vectors), trigram.model_copy(update=by_trigrams)]
        if self.fulltext_weight is not None:
            legs.append(FulltextLeg(weight=self.fulltext_weight, depth=self.limit))
        return preset("local-rag").but(
            chunks=self.chunks,
            model=self.model,
            top_k=self.limit,
            min_score=self.similarity_threshold,
            fusion=RrfFusion(k=self.rrf_k),
            legs=tuple(legs),
            expand=PatternExpansion() if self.expand else None,
            route=Routing(weights=self.weights) if self.weights else None,
            rerank=CrossEncoderReranker(model=self.cross_encoder) if self.cross_encoder else None,
        )


class LocalRag:
    """The system."""

    def __init__(self, config: LocalRagConfig | None = None) -> None:
        self.config = config or LocalRagConfig()

    async def retrieve(self, ctx: RequestContext, query: str) -> tuple[Hit, ...]:
        return (await self.search(ctx, query)).hits

    async def search(self, ctx: RequestContext, query: str) -> RetrievalResult:
        """The same with its trace."""
        return await search(ctx, query, self.config.variant())
