"""rag-module: semantic, keyword or hybrid search of a collection by name, each result with the scores it is made of.

Owns its configuration and result type, and the refusal of being built from too little.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import Literal

from pydantic import Field

from core.context import RequestContext, Resources
from core.embedding import Embedder
from core.errors import SpecError
from core.filters import Filter
from core.fusion.score_based import LinearFusion
from core.legs import Leg
from core.pipeline.retriever import RetrievalResult, search
from core.presets import preset
from core.registry import Options, in_a_sentence
from core.rerank import ApiReranker, OverlapReranker, Reranker
from core.rerank import api as rerank_api
from core.store import collections
from core.store.engine import Store
from core.systems.reranking import CustomReranker, search_and_rerank
from core.tasks import run_cancellable
from core.types import Hit, Metadata
from core.variant import Variant

SEMANTIC, KEYWORD = "semantic", "keyword"


class Rerank(Options):
    """A second look. `top_k` is also the depth of each leg and of the fusion, whether or not it is enabled."""

    enabled: bool = Field(True, description="Whether the candidates are reordered.")
    top_k: int = Field(20, ge=1, le=10_000, description="How many candidates are fetched, fused and reordered.")
    provider: Literal["local", "api"] = Field("local", description="By shared words here, or by a rerank endpoint.")
    base_url: str | None = Field(None, description="The endpoint's address before `/rerank`.")
    model: str | None = Field(None, description="The endpoint's name for the model.")
    timeout: float = Field(30.0, gt=0, le=600, description="Seconds that one attempt at the endpoint may take.")

    def reranker(self) -> Reranker | None:
        if not self.enabled:
            return None
        if self.provider == "local":
            return OverlapReranker(depth=self.top_k)
        return ApiReranker(depth=self.top_k, base_url=self.base_url, model=self.model, timeout=self.timeout)


class RagModuleConfig(Options):
    """What may be chosen for a search."""

    top_k: int = Field(10, ge=1, le=10_000, description="How many results come out.")
    mode: Literal["semantic", "keyword", "hybrid"] = Field("hybrid", description="Which searches are done.")
    semantic_weight: float = Field(0.7, ge=0, description="What a semantic score counts in the weighted fusion.")
    keyword_weight: float = Field(0.3, ge=0, description="What a keyword score counts in the weighted fusion.")
    fusion: Literal["rrf", "weighted"] = Field("rrf", description="By ranks alone, or by raw scores times weights.")
    rerank: Rerank | None = Field(None, description="A second look at the best.")
    filter: Filter | None = Field(None, description="Which documents may be found, by their metadata.")
    include_parent_context: bool = Field(True, description="Whether a child says how its parent begins.")
    chunks: str = Field("parents", description="Which chunk set is searched.")


@dataclass(frozen=True, slots=True)
class RagModuleResult:
    """A passage that was found, with its breakdown; a score is None where that search did not find it or was not done.

    `section` is how the parent of a child begins.
    """

    content: str
    score: float
    chunk_id: str
    document_id: str
    title: str
    metadata: Metadata
    semantic_score: float | None
    keyword_score: float | None
    rerank_score: float | None
    section: str | None


class RagModule:
    """The system. The keyword index is the leg that reads it: `Bm25Leg()`, or `FulltextLeg()`.

    `rerank_key` is the rerank endpoint's key, where it is given in code; else it is the environment's. A `reranker` of
    one's own takes the provider's place, and is asked without a `rerank` too; disabling that leaves it out.
    """

    def __init__(
        self,
        store: Store | None = None,
        keyword_index: Leg | None = None,
        embedder: Embedder | None = None,
        *,
        resources: Resources | None = None,
        rerank_key: str | None = None,
        reranker: CustomReranker | None = None,
    ) -> None:
        if store is None or keyword_index is None or embedder is None:
            parts = {
                "a store (`await Store.open()`)": store,
                "a keyword index (a leg such as `Bm25Leg()`)": keyword_index,
                "an embedder (`core.embedding.embedder()`)": embedder,
            }
            absent = [name for name, part in parts.items() if part is None]
            raise SpecError(
                f"A rag module cannot be built without {' and without '.join(absent)}. Pass what is missing."
            )
        if not isinstance(keyword_index, Leg):
            raise SpecError(
                f"The keyword index of a rag module is a leg, such as `Bm25Leg()`, and this is {keyword_index!r:.80}."
            )
        self.store, self.keyword_index, self.embedder = store, keyword_index, embedder
        self.resources = replace(resources or Resources(), embedder=lambda _: embedder)
        self._rerank_key, self.reranker = rerank_key, reranker

    async def retrieve(
        self,
        collection: str,
        query: str,
        config: RagModuleConfig | None = None,
        *,
        cancellation: asyncio.Event | None = None,
        deadline: float | None = None,
    ) -> list[RagModuleResult]:
        """Setting the token stops it, and so does the deadline, in seconds."""
        found = await self.search(collection, query, config, cancellation=cancellation, deadline=deadline)
        return [_result(hit) for hit in found.hits]

    async def search(
        self,
        collection: str,
        query: str,
        config: RagModuleConfig | None = None,
        *,
        cancellation: asyncio.Event | None = None,
        deadline: float | None = None,
    ) -> RetrievalResult:
        """The same with its trace."""
        config = config or RagModuleConfig()
        view = await collections.get(self.store, collection)
        resources, rerank = self.resources, config.rerank
        if self._rerank_key is not None and rerank is not None:  # it goes to the configured endpoint alone
            given = {rerank_api.KEY: self._rerank_key} | ({rerank_api.URL: rerank.base_url} if rerank.base_url else {})
            resources = replace(resources, environment={**resources.environment, **given})
        context = RequestContext(self.store, view, resources, cancellation, deadline)
        variant = self.variant(config)
        if self.reranker is None or (config.rerank is not None and not config.rerank.enabled):
            return await search(context, query, variant)
        found = search_and_rerank(self.reranker, context, query, variant, _result, config.top_k)
        return await run_cancellable(found, context.cancellation, context.deadline)

    @in_a_sentence("The configuration of rag-module")
    def variant(self, config: RagModuleConfig) -> Variant:
        depth = config.rerank.top_k if config.rerank else config.top_k
        by_scores = config.mode != "hybrid" or config.fusion == "weighted"
        fusion = LinearFusion(normalize="none") if by_scores else preset("rag-module").fusion
        return preset("rag-module").but(
            chunks=config.chunks,
            model=self.embedder.model,
            top_k=config.top_k,
            filter=config.filter,
            legs=self._legs(config, depth),
            fusion=fusion,
            fused_depth=depth,
            parents="annotate" if config.include_parent_context else "none",
            rerank=config.rerank.reranker() if config.rerank and self.reranker is None else None,
        )

    def _legs(self, config: RagModuleConfig, depth: int) -> tuple[Leg, ...]:
        semantic = preset("rag-module").legs[0]
        named = {
            SEMANTIC: semantic.model_copy(update={"weight": config.semantic_weight}),
            KEYWORD: self.keyword_index.model_copy(update={"weight": config.keyword_weight}),
        }
        if config.mode != "hybrid":  # alone, a search has nothing to be weighed against: its scores stand
            named = {config.mode: named[config.mode].model_copy(update={"weight": 1.0})}
        return tuple(leg.model_copy(update={"label": name, "depth": depth}) for name, leg in named.items())


def _result(hit: Hit) -> RagModuleResult:
    raw = {leg.leg: leg.raw for leg in hit.legs}
    return RagModuleResult(
        content=hit.text,
        score=hit.score,
        chunk_id=hit.id,
        document_id=hit.item_id,
        title=hit.title,
        metadata=hit.metadata,
        semantic_score=raw.get(SEMANTIC),
        keyword_score=raw.get(KEYWORD),
        rerank_score=hit.rerank_score,
        section=hit.section,
    )
