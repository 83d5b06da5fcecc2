"""late-chunking: whole items recalled by full text and vectors; evidence chunks made of them at query time.

Owns the preferences of a request, what they mean as a variant, and the result types that a screen and an answer need.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from pydantic import Field

from core.chunking import Chunker, chunkers
from core.context import RequestContext
from core.errors import SpecError
from core.filters import filter_of_fields
from core.fusion.rank_based import RrfFusion
from core.fusion.score_based import LinearFusion
from core.legs import Leg
from core.legs.fulltext import FulltextLeg
from core.legs.query_terms import words_of
from core.legs.vector import VectorLeg
from core.pipeline.retriever import search
from core.presets import preset
from core.registry import Options, in_a_sentence
from core.snippets import Snippets, snippet_of
from core.tasks import run_cancellable
from core.types import EvidenceChunk, Hit, Metadata
from core.variant import LateChunking, Variant

TEXT, VECTOR = "fulltext", "vector"  # the preset's legs


class FtsPrefs(Options):
    """Full-text search over whole items."""

    mode: Literal["web", "plain", "strict", "phrase"] = Field("web", description="How the query's text is read.")
    config: str | None = Field(None, description="A regconfig for the query; by default the collection's own.")
    rank_func: Literal["ts_rank_cd", "ts_rank"] = Field("ts_rank_cd", description="PostgreSQL's ranking function.")
    min_rank: float | None = Field(None, ge=0, description="Drop what ranks lower.")


class VectorPrefs(Options):
    """Vector search over whole items."""

    embed_query: bool = Field(True, description="Off, no model is asked: words alone recall and score.")
    distance: Literal["cosine", "l2", "ip"] = Field("cosine", description="What orders the neighbours.")
    min_score: float | None = Field(None, description="Drop what is less similar.")


class ScoringPrefs(Options):
    """How the two rankings become one. The weights and the normalisation belong to the linear blend."""

    blend: Literal["rrf", "linear"] = Field("rrf", description="By ranks, unweighted, or a weighted sum of scores.")
    w_text: float = Field(0.35, ge=0, description="The weight of a full-text score.")
    w_vec: float = Field(0.65, ge=0, description="The weight of a vector score.")
    normalize: Literal["minmax", "zscore", "sigmoid", "none"] = Field("sigmoid", description="Before the weighting.")

    @property
    def without_effect(self) -> tuple[str, ...]:
        """Options that were given and change nothing, as RRF here uses ranks alone."""
        given = [name for name in ("w_text", "w_vec", "normalize") if name in self.model_fields_set]
        if self.blend != "rrf" or not given:
            return ()
        return (f"{', '.join(given)}: without effect, as the blend is rrf. Set blend to linear to weigh scores.",)


class ChunkingPrefs(Options):
    """Where evidence comes from."""

    strategy: Literal["late", "precomputed", "mixed"] = Field("late", description="Made now, stored, or either.")
    chunker_id: str | None = Field(None, description="A chunker by its name in the registry; by default the preset's.")
    include_headers: bool = Field(True, description="Whether title and heading path are embedded with a chunk.")
    max_chunk_tokens: int | None = Field(None, ge=1, description="The most tokens of a chunk, where not the chunker's.")
    overlap_tokens: int | None = Field(None, ge=0, description="What chunks share, for chunkers that can overlap.")


class CachePrefs(Options):
    """The chunk cache, which never changes a ranking."""

    use_chunk_cache: bool = Field(True, description="Whether chunks made before may be used again.")
    write_chunk_cache: bool = Field(True, description="Whether chunks made now are kept.")
    ttl_seconds: float | None = Field(None, gt=0, description="How long kept chunks are believed.")


class RetrievalPrefs(Options):
    """One request."""

    query_text: str = Field(description="What is asked.")
    filters: Mapping[str, Any] = Field(
        default_factory=dict,
        description="Metadata fields with their values, or a whole filter; empty lets all through.",
    )
    top_k_items: int = Field(20, ge=1, le=10_000, description="How many items are recalled by each search and listed.")
    top_k_chunks: int = Field(12, ge=1, description="How many evidence chunks come out.")
    per_item_chunk_cap: int = Field(3, ge=1, description="The most evidence chunks of one item.")
    fts: FtsPrefs = Field(default_factory=FtsPrefs, description="Full-text search.")
    vector: VectorPrefs = Field(default_factory=VectorPrefs, description="Vector search.")
    scoring: ScoringPrefs = Field(default_factory=ScoringPrefs, description="How both become one ranking.")
    chunking: ChunkingPrefs = Field(default_factory=ChunkingPrefs, description="Where evidence comes from.")
    cache: CachePrefs = Field(default_factory=CachePrefs, description="The chunk cache.")
    snippet: Snippets = Field(default_factory=Snippets, description="What is shown of an item.")
    debug: bool = Field(False, description="Whether the stats are filled.")

    def variant(self, base: Variant | None = None) -> Variant:
        base = base or preset("late-chunking")
        fts, scoring = self.fts, self.scoring
        words = {"mode": fts.mode, "config": fts.config, "rank": fts.rank_func, "min_rank": fts.min_rank}
        meaning = {"distance": self.vector.distance, "min_score": self.vector.min_score}
        legs: list[Leg] = []
        for leg in base.legs:
            if isinstance(leg, FulltextLeg):
                legs.append(leg.model_copy(update={**words, "weight": scoring.w_text}))
            elif isinstance(leg, VectorLeg) and self.vector.embed_query:
                legs.append(leg.model_copy(update={**meaning, "weight": scoring.w_vec}))
        linear = LinearFusion(normalize=scoring.normalize)
        late = base.late or LateChunking()
        return base.but(
            top_k=self.top_k_items,
            overfetch=1,
            fused_depth=self.top_k_items,
            filter=filter_of_fields(self.filters, "item_id") if self.filters else None,
            legs=tuple(legs),
            fusion=RrfFusion(k=60, weighted=False) if scoring.blend == "rrf" else linear,
            late=late.model_copy(
                update={
                    "strategy": self.chunking.strategy,
                    "chunker": self._chunker(late.chunker),
                    "include_headers": self.chunking.include_headers,
                    "per_item_cap": self.per_item_chunk_cap,
                    "top_k_chunks": self.top_k_chunks,
                    "use_cache": self.cache.use_chunk_cache,
                    "write_cache": self.cache.write_chunk_cache,
                    "ttl_seconds": self.cache.ttl_seconds,
                    "text_share": late.text_share if self.vector.embed_query else 1.0,
                }
            ),
        )

    def _chunker(self, base: Chunker) -> Chunker:
        kind = chunkers[self.chunking.chunker_id] if self.chunking.chunker_id else type(base)
        options = {} if self.chunking.chunker_id else dict(base)
        wanted = {"max_chunk_tokens": self.chunking.max_chunk_tokens, "overlap_tokens": self.chunking.overlap_tokens}
        for preference, value in wanted.items():
            if value is not None:
                options[_option_of(kind, preference)] = value
        with in_a_sentence(f"The chunker {chunkers.name_of(kind)!r}"):
            return kind(**options)


OPTIONS = {"max_chunk_tokens": ("max_tokens", "child_tokens"), "overlap_tokens": ("overlap",)}


def _option_of(kind: type[Chunker], preference: str) -> str:
    """The name of the chunker's own option for this preference."""

    def own(chunker: type[Chunker]) -> str | None:
        return next((name for name in OPTIONS[preference] if name in chunker.model_fields), None)

    name = own(kind)
    if name is None:
        able = ", ".join(sorted(each for each in chunkers if own(chunkers[each])))
        raise SpecError(
            f"The chunker {chunkers.name_of(kind)!r} has no {preference}. Leave it out, or set chunker_id to one that "
            f"has: {able}."
        )
    return name


@dataclass(frozen=True, slots=True)
class CandidateItem:
    """An item that was found, as a screen lists it. What metadata does not say is empty, or none.

    `score` is relative, `raw_score` is the value of the blend. `score_text` and `score_vec` are each leg's own,
    `normalized_text` and `normalized_vec` the same after the normalisation of the linear blend.
    """

    item_id: str
    kind: str
    source: str
    source_ref: str | None
    title: str | None
    summary: str
    metadata: Metadata
    score: float
    raw_score: float | None
    score_text: float | None
    score_vec: float | None
    normalized_text: float | None
    normalized_vec: float | None
    rank_text: int | None
    rank_vec: int | None
    snippet: str
    snippet_from: Literal["doc", "chunk", "unknown"]


@dataclass(frozen=True, slots=True)
class RetrievalStats:
    """How it went: by stage, in numbers, and with which options. Empty unless debug is on."""

    timing_ms: Mapping[str, float] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    params: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RetrievalBundle:
    """Items are what a screen lists, evidence is what an answer rests on; `notes` say what was not done as asked."""

    candidates: tuple[CandidateItem, ...]
    evidence: tuple[EvidenceChunk, ...]
    stats: RetrievalStats
    notes: tuple[str, ...] = ()

    def to_json(self) -> str:
        return json.dumps(asdict(self), ensure_ascii=False)


class Retriever:
    """The system. The base says what preferences do not: the embedding set, and where stored chunks are."""

    def __init__(self, base: Variant | None = None) -> None:
        self.base = base

    async def search(self, ctx: RequestContext, prefs: RetrievalPrefs) -> RetrievalBundle:
        """Deterministic, without events; stopped by `ctx.cancellation`, by its deadline, or as a task."""
        return await run_cancellable(self._search(ctx, prefs), ctx.cancellation, ctx.deadline)

    async def _search(self, ctx: RequestContext, prefs: RetrievalPrefs) -> RetrievalBundle:
        result = await search(
            replace(ctx, cancellation=None, deadline=None), prefs.query_text, prefs.variant(self.base)
        )
        language = prefs.fts.config or ctx.view.row.language
        async with ctx.store.begin(ctx.view.namespace, read_only=True) as connection:
            # Snippets are cut around the query's words, without those that the language drops.
            words = [word.text for word in await words_of(connection, language, result.query)]
        evidence: dict[str, EvidenceChunk] = {}
        for chunk in result.evidence:
            evidence.setdefault(chunk.item_id, chunk)
        candidates = tuple(_candidate(hit, evidence.get(hit.item_id), words, prefs.snippet) for hit in result.hits)
        stats = RetrievalStats()
        if prefs.debug:
            counts = {stage.name: len(stage.ranking) for stage in result.trace.stages}
            counts |= {"candidates": len(result.hits), "evidence": len(result.evidence)}
            timing = {**result.trace.timing_ms, "total": result.trace.milliseconds}
            stats = RetrievalStats(timing, counts, {**prefs.model_dump(mode="json"), "variant": result.variant.id})
        return RetrievalBundle(candidates, result.evidence, stats, (*result.trace.notes, *prefs.scoring.without_effect))


def _candidate(hit: Hit, chunk: EvidenceChunk | None, words: Sequence[str], options: Snippets) -> CandidateItem:
    shown = hit if chunk is None else replace(hit, id=chunk.chunk_id, text=chunk.text)
    snippet = snippet_of(shown, words, options, hit.text)
    legs = {leg.leg: leg for leg in hit.legs}
    text, vector = legs.get(TEXT), legs.get(VECTOR)
    facts = {name: str(hit.metadata.get(name) or "") for name in ("kind", "source", "source_ref", "summary")}
    return CandidateItem(
        item_id=hit.item_id,
        kind=facts["kind"],
        source=facts["source"],
        source_ref=facts["source_ref"] or None,
        title=hit.title or None,
        summary=facts["summary"],
        metadata=hit.metadata,
        score=hit.score,
        raw_score=hit.raw_score,
        score_text=text.raw if text else None,
        score_vec=vector.raw if vector else None,
        normalized_text=text.normalised if text else None,
        normalized_vec=vector.normalised if vector else None,
        rank_text=text.rank if text else None,
        rank_vec=vector.rank if vector else None,
        snippet=snippet.text,
        snippet_from=snippet.source,
    )
