"""The pipeline: a query and a variant in, hits, evidence and a trace out.

    expand -> route -> legs, at once -> fuse -> roll up, per-item cap, late chunks -> parents -> rerank -> cut -> pack

Each step takes a ranking and gives a ranking, and writes its line in the trace. Cancelling the task, or the context's
token, cancels the statements on the server. Knows no leg, fusion or reranker by name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from core.context import RequestContext
from core.embedding import DEFAULT_MODEL, warm_up
from core.errors import RankbookError
from core.expansion import ExpandedQuery
from core.legs.base import checked_text
from core.packing import ContextPack, pack, token_counter
from core.pipeline import postprocess
from core.pipeline.late_chunking import late_chunks
from core.pipeline.recall import fetch_hits, prepare_query, recall_legs
from core.store.resolve_target import search_target
from core.store.search_target import SearchTarget
from core.tasks import run_cancellable
from core.types import EvidenceChunk, Hit, RelevanceRating, Stage, Trace
from core.variant import Variant

DEEPER, DEEPEST = 3, 3  # a roll-up that finds too few items asks three times as deep, at most three times


@dataclass(frozen=True, slots=True)
class RetrievalResult:
    """The hits of a query, best first, with the evidence and the packed context where the variant asks for them.

    `beyond` are the hits that only `top_k` cut off, ranked on. `ratings` are a language model's, best first, where one
    reranked.
    """

    query: str
    variant: Variant
    hits: tuple[Hit, ...]
    evidence: tuple[EvidenceChunk, ...]
    trace: Trace
    expanded: ExpandedQuery
    kind: str = ""
    pack: ContextPack | None = None
    ratings: tuple[RelevanceRating, ...] = ()
    beyond: tuple[Hit, ...] = ()


async def search(
    context: RequestContext, query: str, variant: Variant, *, excluded: frozenset[str] = frozenset()
) -> RetrievalResult:
    """Run the whole pipeline, as though the `excluded` items were not in the collection."""
    work = _search(context, query, variant, excluded)
    return await run_cancellable(work, context.cancellation, context.deadline)


async def _search(context: RequestContext, query: str, variant: Variant, excluded: frozenset[str]) -> RetrievalResult:
    store, view, resources = context.store, context.view, context.resources
    query = checked_text(query)  # clean from here on: models and endpoints choke on what PostgreSQL refuses
    target = search_target(store, view, variant.chunks, variant.model)
    target = target.filtered(variant.filter).without(excluded)
    chunk_set = None if view.row.attached is not None else view.chunk_set(variant.chunks)
    model = target.model or DEFAULT_MODEL
    await _load_models(context, variant, target)

    trace = Trace()
    expanded, kind, weights = await _expand_and_route(context, target, variant, query, trace)
    hits = await _recall_and_fuse(context, target, variant, expanded, weights, trace)
    if variant.per_item_cap is not None:
        with trace.stage("per-item cap") as record:
            hits = record.write(postprocess.cap_per_item(hits, variant.per_item_cap, variant.top_k)).hits
    evidence: tuple[EvidenceChunk, ...] = ()
    if variant.late is not None:
        with trace.stage("late chunks") as record:
            evidence = record.write(await late_chunks(context, variant.late, model, expanded.meaning, hits)).evidence

    async def parents(hits: tuple[Hit, ...]) -> tuple[Hit, ...]:
        if variant.parents == "none":
            return hits
        with trace.stage("parents") as record:
            return record.write(await postprocess.resolve_parents(store, view, chunk_set, hits, variant.parents)).hits

    if not variant.parents_after_rerank:
        hits = await parents(hits)
    ratings: tuple[RelevanceRating, ...] = ()
    if variant.rerank is not None and hits:
        with trace.stage("rerank") as record:
            reranked = record.write(await variant.rerank.rerank(resources, query, hits))
            hits, ratings = reranked.hits, reranked.ratings
    if variant.parents_after_rerank:
        hits = await parents(hits)
    with trace.stage("cut") as record:
        result, beyond = postprocess.cut(hits, variant.min_score, variant.top_k)
        hits = record.write(result).hits
    packed = None
    if variant.pack is not None:
        with trace.stage("pack") as record:
            count_tokens = context.count_tokens or token_counter(context.embedder(model))
            packed = await pack(store, view, chunk_set, query, hits, variant.pack, count_tokens)
            record.note(*packed.trace.notes)
    trace.close()
    return RetrievalResult(query, variant, hits, evidence, trace, expanded, kind, packed, ratings, beyond)


async def _load_models(context: RequestContext, variant: Variant, target: SearchTarget) -> None:
    """What loads here is loaded before anything is timed. A failure is reported by the stage that needs the model."""
    embeds = any(leg.uses_model for leg in variant.legs) and "vectors" in target.columns
    if target.model is not None and (embeds or variant.late):
        with suppress(RankbookError):
            await warm_up(context.embedder(target.model))
    if variant.rerank is not None:
        with suppress(RankbookError):
            await variant.rerank.warm_up(context.resources)


async def _expand_and_route(
    context: RequestContext, target: SearchTarget, variant: Variant, query: str, trace: Trace
) -> tuple[ExpandedQuery, str, Mapping[str, float]]:
    """The query as the legs get it, its kind, and each leg's weight for it."""
    expanded = ExpandedQuery.unchanged(query)
    if variant.expand is not None:
        with trace.stage("expand") as record:
            expanded = await variant.expand.expand(context, target, query)
            record.note(*expanded.notes)
    own = {name: leg.weight for name, leg in zip(variant.leg_names, variant.legs, strict=True)}
    if variant.route is None:
        return expanded, "", own
    with trace.stage("route") as record:
        kind, weights = variant.route.weights_for(query, own)
        record.note(f"The query is of the kind {kind!r}.")
    return expanded, kind, weights


async def _recall_and_fuse(
    context: RequestContext,
    target: SearchTarget,
    variant: Variant,
    expanded: ExpandedQuery,
    weights: Mapping[str, float],
    trace: Trace,
) -> tuple[Hit, ...]:
    """Fused hits; recalled deeper where rolling them up leaves too few items, and more candidates could go on."""
    legs = dict(zip(variant.leg_names, variant.legs, strict=True))
    depths = {name: variant.depth_of(leg) for name, leg in legs.items()}
    for attempt in range(DEEPEST):
        results = await recall_legs(context.store, target, prepare_query(context.embedder, expanded), legs, depths)
        for each in results:
            unavailable = str(each.unavailable or "")
            notes = (*each.found.notes, *([f"{each.name} is not available: {unavailable}"] if unavailable else []))
            ranking = tuple((candidate.id, candidate.score) for candidate in each.found)
            trace.stages.append(
                Stage(f"leg {each.name}", each.milliseconds, ranking, notes=notes, unavailable=unavailable)
            )
        with trace.stage("fuse") as record:
            available = [each.ranking(weights[each.name]) for each in results if each.unavailable is None]
            fused = variant.fusion.fuse(available)
            depth = variant.fused_depth or len(fused)
            if not variant.fusion.voting_legs(available):
                record.note("Every leg has the weight 0, so all results count alike. Give one of them a weight.")
            if not fused and variant.filter is not None:
                record.note("Nothing that the filter lets through matches the query.")
            beyond: Sequence[str] = [each.id for each in fused[depth:]]
            record.drop(beyond, f"its place is beyond fused_depth {depth}", "fused_depth", str(depth))
            hits = tuple(await fetch_hits(context.store, target, fused[:depth]))
            record.hand_on(hits)
        if variant.rollup is None:
            return hits
        full = len(hits) == variant.fused_depth
        with trace.stage("roll up") as record:
            hits = record.write(postprocess.roll_up(hits, variant.rollup, variant.top_k, variant.fused_depth)).hits
        if len(hits) >= variant.top_k or full or all(each.exhausted for each in results) or attempt == DEEPEST - 1:
            break
        depths = {name: depth * DEEPER for name, depth in depths.items()}
    return hits
