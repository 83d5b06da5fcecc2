"""The pipeline: a query and a variant in, a bundle of candidates, evidence and trace out.

    expand -> route -> legs, at once -> fuse -> roll up, late chunks or per-item cap -> parents -> rerank -> cut -> pack

Each step takes a ranking and gives a ranking, and writes its line in the trace. Cancelling the task, or the context's
token, cancels the statements on the server. Knows no leg, fusion or reranker by name.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

from core.context import RequestContext
from core.embedding import DEFAULT_MODEL, warm_up
from core.errors import RankbookError
from core.expansion import ExpandedQuery, ExpansionContext
from core.fusion import FusedHit
from core.legs import Leg
from core.legs.base import checked_text
from core.llm.rating import RelevanceRating
from core.packing import ContextPack, pack, token_counter
from core.pipeline import postprocess, recall
from core.pipeline.late_chunking import late_chunks
from core.pipeline.postprocess import capped, numbered, out_of_reach
from core.pipeline.recall import LegResult
from core.store.resolve_target import search_target
from core.store.schema import ChunkSet
from core.store.search_target import SearchTarget
from core.tasks import run_cancellable
from core.types import EvidenceChunk, Hit, Trace
from core.variant import Variant

T = TypeVar("T")

DEEPER, DEEPEST = 3, 3  # a roll-up that finds too few items asks three times as deep, at most three times


@dataclass(frozen=True, slots=True)
class RetrievalResult:
    """What came of a query: the hits, best first; late evidence; a packed context where asked for; and how it went.

    `beyond` are the hits that only `top_k` cut off, ranked on. `marks` are what a language model said of the
    candidates, best first, where one reranked them.
    """

    query: str
    variant: Variant
    hits: tuple[Hit, ...]
    evidence: tuple[EvidenceChunk, ...]
    trace: Trace
    expanded: ExpandedQuery
    kind: str = ""
    pack: ContextPack | None = None
    marks: tuple[RelevanceRating, ...] = ()
    beyond: tuple[Hit, ...] = ()


async def search(
    context: RequestContext, query: str, variant: Variant, *, excluded: frozenset[str] = frozenset()
) -> RetrievalResult:
    """Run the whole pipeline, as though the `excluded` items were not in the collection."""
    found = _Search(context, query, variant, excluded).run()
    return await run_cancellable(found, context.cancellation, context.deadline)


class _Search:
    """One run of the pipeline; its methods are the steps, in their order."""

    def __init__(self, context: RequestContext, query: str, variant: Variant, excluded: frozenset[str]) -> None:
        # Clean from here on: models and endpoints choke on what PostgreSQL refuses.
        self.context, self.query, self.variant = context, checked_text(query), variant
        self.trace = Trace()
        self.marks: tuple[RelevanceRating, ...] = ()
        at = search_target(context.store, context.view, variant.chunks, variant.model)
        self.level: SearchTarget = at.filtered(variant.filter).without(excluded)

    @property
    def chunk_set(self) -> ChunkSet | None:
        view = self.context.view
        return None if view.row.attached is not None else view.chunk_set(self.variant.chunks)

    async def run(self) -> RetrievalResult:
        variant = self.variant
        await self._warm_up()
        self.trace.begun = time.perf_counter()
        expanded = await self._expand()
        kind, weights = self._route()
        hits = self._capped(await self._found(expanded, weights))
        evidence = await self._late(expanded, hits)
        if not variant.parents_after_rerank:
            hits = await self._parents(hits)
        hits = await self._rerank(hits)
        if variant.parents_after_rerank:
            hits = await self._parents(hits)
        hits, beyond = self._cut(hits)
        packed = await self._pack(hits)
        self.trace.close()
        return RetrievalResult(
            self.query, variant, tuple(hits), evidence, self.trace, expanded, kind, packed, self.marks, tuple(beyond)
        )

    async def _warm_up(self) -> None:
        """What loads here is loaded before anything is timed. What goes wrong is told by the stage that needs it."""
        embeds = any(leg.uses_model for leg in self.variant.legs) and "vectors" in self.level.columns
        if self.level.model is not None and (embeds or self.variant.late):
            with suppress(RankbookError):
                await warm_up(self.context.embedder(self.level.model))
        if self.variant.rerank is not None:
            with suppress(RankbookError):
                await self.variant.rerank.warm_up(self.context.resources)

    # -- the query side ----------------------------------------------------------------------------------------------

    async def _expand(self) -> ExpandedQuery:
        if self.variant.expand is None:
            return ExpandedQuery.unchanged(self.query)
        with self.trace.stage("expand") as record:
            context = ExpansionContext(self.context.store, self.context.view, self.level, self.context.resources)
            expanded = await self.variant.expand.expand(context, self.query)
            record.note(*expanded.notes)
        return expanded

    def _route(self) -> tuple[str, Mapping[str, float]]:
        own = {name: leg.weight for name, leg in self._legs().items()}
        if self.variant.route is None:
            return "", own
        with self.trace.stage("route") as record:
            kind, weights = self.variant.route.weights_for(self.query, own)
            record.note(f"The query is of the kind {kind!r}.")
        return kind, weights

    def _legs(self) -> dict[str, Leg]:
        return dict(zip(self.variant.leg_names, self.variant.legs, strict=True))

    # -- recall and fusion -------------------------------------------------------------------------------------------

    async def _found(self, expanded: ExpandedQuery, weights: Mapping[str, float]) -> list[Hit]:
        """Fused hits; asked deeper where rolling them up leaves too few items, and more candidates could go on."""
        depths = {name: self.variant.depth_of(leg) for name, leg in self._legs().items()}
        for attempt in range(DEEPEST):
            runs = await self._recall(expanded, depths)
            fused = await self._fuse(runs, weights)
            hits = self._rolled_up(fused)
            enough = self.variant.rollup is None or len(hits) >= self.variant.top_k
            capped = len(fused) == self.variant.fused_depth
            if enough or capped or all(run.exhausted for run in runs) or attempt == DEEPEST - 1:
                break
            depths = {name: depth * DEEPER for name, depth in depths.items()}
        return hits

    async def _recall(self, expanded: ExpandedQuery, depths: Mapping[str, int]) -> list[LegResult]:
        query = recall.prepare_query(self.context.embedder, expanded)
        runs = await recall.recall_legs(self.context.store, self.level, query, self._legs(), depths)
        for run in runs:
            self.trace.add(
                f"leg {run.name}",
                run.milliseconds,
                tuple((each.id, each.score) for each in run.found),
                (*run.found.notes, *([f"{run.name} is not available: {run.problem}"] if run.problem else [])),
            )
        return runs

    async def _fuse(self, runs: Sequence[LegResult], weights: Mapping[str, float]) -> list[Hit]:
        with self.trace.stage("fuse") as record:
            available = [run.ranking(weights[run.name]) for run in runs if run.problem is None]
            fused: list[FusedHit] = self.variant.fusion.fuse(available)
            depth = self.variant.fused_depth or len(fused)
            if not self.variant.fusion.voting_legs(available):
                record.note("Every leg has the weight 0, so all results count alike. Give one of them a weight.")
            if not fused and self.variant.filter is not None:
                record.note("Nothing that the filter lets through matches the query.")
            record.drop((each.id for each in fused[depth:]), f"its place is beyond fused_depth {depth}")
            hits = await recall.fetch_hits(self.context.store, self.level, fused[:depth])
            record.hand_on(hits)
        return hits

    def _rolled_up(self, hits: list[Hit]) -> list[Hit]:
        rollup = self.variant.rollup
        if rollup is None:
            return hits
        with self.trace.stage("roll up") as record:
            best: dict[str, list[Hit]] = {}
            for hit in hits:
                best.setdefault(hit.item_id, []).append(hit)
            kept = [rollup.of(own) for own in best.values()]
            for own in best.values():
                record.drop((hit.id for hit in own[1:]), f"{own[0].id} stands for its item")
            kept.sort(key=lambda hit: (-hit.score, hit.rank, hit.id.encode()))
            kept = numbered(kept)
            if len(kept) < self.variant.top_k and len(hits) == self.variant.fused_depth:
                record.note(f"The {len(hits)} chunks that fused_depth lets through are of too few items. Raise it.")
            record.hand_on(kept)
        return kept

    def _capped(self, hits: list[Hit]) -> list[Hit]:
        most, top_k = self.variant.per_item_cap, self.variant.top_k
        if most is None:
            return hits
        with self.trace.stage("per-item cap") as record:
            kept, gone = capped(hits, most)
            record.drop((hit.id for hit in gone), f"per_item_cap is {most}, and as many of its item stand before it")
            if gone and len(kept) < top_k:
                record.note(f"per_item_cap left {len(kept)} of the {top_k} asked for. Raise it, or overfetch.")
            record.hand_on(kept)
        return kept

    async def _late(self, expanded: ExpandedQuery, hits: Sequence[Hit]) -> tuple[EvidenceChunk, ...]:
        if self.variant.late is None:
            return ()
        with self.trace.stage("late chunks") as record:
            model = self.level.model or DEFAULT_MODEL
            made = await late_chunks(self.context, self.variant.late, model, expanded.meaning, hits)
            record.note(*made.notes)
            record.ranking = tuple((chunk.chunk_id, chunk.score) for chunk in made.evidence)
        return made.evidence

    # -- after fusion ------------------------------------------------------------------------------------------------

    async def _parents(self, hits: list[Hit]) -> list[Hit]:
        if self.variant.parents == "none":
            return hits
        with self.trace.stage("parents") as record:
            context = self.context
            made = await postprocess.with_parents(
                context.store, context.view, self.chunk_set, hits, self.variant.parents
            )
            record.dropped += made.dropped
            record.note(*made.notes)
            record.hand_on(made.hits)
        return list(made.hits)

    async def _rerank(self, hits: list[Hit]) -> list[Hit]:
        if self.variant.rerank is None or not hits:
            return hits
        with self.trace.stage("rerank") as record:
            made = await self.variant.rerank.rerank(self.context.resources, self.query, hits)
            self.marks = made.marks
            record.dropped += made.dropped
            record.note(*made.notes)
            record.hand_on(made.hits)
        return list(made.hits)

    def _cut(self, hits: list[Hit]) -> tuple[list[Hit], list[Hit]]:
        """The hits that come out, and those whose place alone keeps them from it."""
        with self.trace.stage("cut") as record:
            least, most = self.variant.min_score, self.variant.top_k
            kept = numbered([hit for hit in hits if hit.score >= least])
            if not kept:
                record.note(*out_of_reach(hits, least))
            record.drop((hit.id for hit in hits if hit.score < least), f"its score is below min_score {least:g}")
            record.drop((hit.id for hit in kept[most:]), f"its place is beyond top_k {most}")
            record.hand_on(kept[:most])
        return kept[:most], kept[most:]

    async def _pack(self, hits: Sequence[Hit]) -> ContextPack | None:
        if self.variant.pack is None:
            return None
        with self.trace.stage("pack") as record:
            model = self.level.model or DEFAULT_MODEL
            context = self.context
            counter = context.count_tokens or token_counter(context.embedder(model))
            packed = await pack(
                context.store, context.view, self.chunk_set, self.query, hits, self.variant.pack, counter
            )
            record.note(*packed.trace.notes)
        return packed
