"""Variants computed from leg runs: what a search of each query would have given, without searching.

Owns the depths at which a roll-up tries again, the units' items and places, and what becomes of a variant whose leg is
missing or failed at a query, each as `core.pipeline.retriever` has it. The fusing itself is `evals.runs.batch_fusion`.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import select

from core.errors import StoreError
from core.pipeline.retriever import DEEPER, DEEPEST
from core.store.engine import Store
from core.store.search_target import SearchTarget
from evals.runs.batch_fusion import FusionArrays, ResultCut, fuse_all
from evals.runs.plan import FusedVariant, LegUse
from evals.runs.queries import leg_target
from evals.runs.query_runs import QueryRunner
from evals.runs.rankings import LegRankings, Ranking, share_units
from evals.runs.types import QueryResults

UNITS_A_STATEMENT = 5000
ARRAYS_KEPT = 8  # variants of the same legs come one after the other
UnitPlace = tuple[str, tuple[int, int] | None]  # which item a unit is part of, and where


@dataclass(slots=True)
class _Round:
    """One round of a roll-up: the queries that are left, how deep, and what the legs found by name."""

    queries: list[str]
    depths: dict[str, int]
    legs: dict[str, QueryResults]


class FusedRunner:
    """The variants of one plan. What they share, arrays and units, is made once."""

    def __init__(self, queries: QueryRunner) -> None:
        self.queries = queries
        self._places: dict[tuple[str, str | None], dict[str, UnitPlace]] = {}
        self._rankings: dict[tuple[str, int, int], dict[str, Ranking]] = {}
        self._arrays: dict[object, FusionArrays] = {}

    async def compute(self, fused_variant: FusedVariant) -> QueryResults:
        """The variant's rankings, with the candidates that only its last cut keeps out."""
        results, variant = QueryResults(), fused_variant.variant
        depths = {use.name: use.depth for use in fused_variant.uses}
        pending = list(self.queries.split.queries)
        for attempt in range(DEEPEST):
            legs = {
                use.name: await self.queries.run_leg(use.task.at_depth(depths[use.name]), pending)
                for use in fused_variant.uses
            }
            now = _Round(pending, depths, legs)
            short = await self._fuse(fused_variant, now, results)
            if variant.rollup is None or attempt == DEEPEST - 1:
                break
            # Where no leg may find more, asking deeper brings nothing.
            deeper = [(found.rankings, depths[name]) for name, found in legs.items()]
            pending = [
                query for query in short if any(query in of and of[query].length >= depth for of, depth in deeper)
            ]
            if not pending:
                break
            depths = {name: depth * DEEPER for name, depth in depths.items()}
        return results

    async def _fuse(self, fused_variant: FusedVariant, now: _Round, results: QueryResults) -> list[str]:
        """Add what comes of these queries; the ids of those that lack results, and may yet have more."""
        groups: dict[tuple[str, ...], list[str]] = {}
        for query in now.queries:
            if reason := next((leg.failures[query] for leg in now.legs.values() if query in leg.failures), None):
                results.failures[query], results.rankings[query] = reason, Ranking()
                continue
            available = tuple(name for name, leg in now.legs.items() if not leg.missing(query))
            groups.setdefault(available, []).append(query)
        short: list[str] = []
        for available, queries in groups.items():
            missing = {name: leg.missing(queries[0]) for name, leg in now.legs.items() if name not in available}
            results.unavailable |= {name: {queries[0]: reason} for name, reason in missing.items()}
            notes = (f"{name} is not available: {reason}" for name, reason in missing.items())
            results.notes = tuple(dict.fromkeys((*results.notes, *notes)))
            if available:
                short += await self._fuse_group(fused_variant, now, available, queries, results)
                continue
            first = next(iter(now.legs.values()))  # all are missing: the first one's reason is given, as in a search
            for query in queries:
                results.failures[query], results.rankings[query] = first.missing(query), Ranking()
        return short

    async def _fuse_group(
        self,
        fused_variant: FusedVariant,
        now: _Round,
        available: Sequence[str],
        queries: Sequence[str],
        results: QueryResults,
    ) -> list[str]:
        variant = fused_variant.variant
        uses = [use for use in fused_variant.uses if use.name in available]
        legs = [
            LegRankings(use.name, use.leg, now.depths[use.name], await self._leg_rankings(use, now, queries))
            for use in uses
        ]
        begun, weights = time.perf_counter(), [use.leg.weight for use in uses]
        key = (tuple((use.name, use.task.digest, now.depths[use.name]) for use in uses), tuple(queries))
        if key not in self._arrays:
            if len(self._arrays) >= ARRAYS_KEPT:
                del self._arrays[next(iter(self._arrays))]
            self._arrays[key] = FusionArrays.of(legs, queries)
        arrays = self._arrays[key]
        rankings = await asyncio.to_thread(fuse_all, arrays, variant.fusion, weights, ResultCut.of(variant).lifted())
        results.rankings |= rankings
        # An estimate: legs run side by side, so the slowest counts, and the fusing is shared out evenly.
        fusing = (time.perf_counter() - begun) * 1000 / len(queries)
        for query in queries:
            spent = {f"leg {name}": now.legs[name].milliseconds[query] for name in available}
            for stage, milliseconds in {**spent, "fuse": fusing}.items():
                of_stage = results.stages.setdefault(stage, {})
                of_stage[query] = of_stage.get(query, 0.0) + milliseconds
            results.milliseconds[query] = results.milliseconds.get(query, 0.0) + max(spent.values()) + fusing
        counted = rankings
        if variant.rollup and variant.min_score > 0:  # what a low score drops, the pipeline does not make up for
            every = ResultCut(fused_depth=variant.fused_depth, rollup=variant.rollup)
            counted = await asyncio.to_thread(fuse_all, arrays, variant.fusion, weights, every)
        short = [query for query in queries if counted[query].length < variant.top_k]
        if not short or not variant.rollup or not variant.fused_depth:
            return short
        # Where as many were fused as may go on, the query has all that it can have.
        whole = fuse_all(arrays, variant.fusion, weights, ResultCut(fused_depth=variant.fused_depth))
        return [query for query in short if whole[query].length != variant.fused_depth]

    async def _leg_rankings(self, use: LegUse, now: _Round, queries: Sequence[str]) -> dict[str, Ranking]:
        """The leg's first so many, with the items and places of what it found."""
        depth, leg = now.depths[use.name], now.legs[use.name]
        task = use.task.at_depth(depth)
        cut = self._rankings.setdefault((task.digest, task.depth, depth), {})
        fresh = {query: leg.rankings[query] for query in queries if query not in cut}
        places = self._places.setdefault((task.chunks, task.model), {})
        lacking = {unit for ranking in fresh.values() for unit in ranking.ids[:depth]} - places.keys()
        context = self.queries.context
        places |= await unit_places(context.store, leg_target(context, task), sorted(lacking))
        cut |= share_units({query: placed(ranking, depth, places) for query, ranking in fresh.items()})
        return cut


def placed(ranking: Ranking, depth: int, places: Mapping[str, UnitPlace]) -> Ranking:
    """The first so many, with each unit's item and its place in it."""
    ids = ranking.ids[:depth]
    found = [places[unit] for unit in ids]
    spans = tuple(span for _, span in found if span is not None)
    items = tuple(item for item, _ in found)
    if items == ids and not spans:
        return ranking if ranking.length <= depth else ranking.at(slice(depth))
    return Ranking(ids, ranking.values[:depth], () if items == ids else items, spans if len(spans) == len(ids) else ())


async def unit_places(store: Store, target: SearchTarget, ids: Sequence[str]) -> dict[str, UnitPlace]:
    """Item and place of these units, their texts left where they are."""
    found: dict[str, UnitPlace] = {}
    for at in range(0, len(ids), UNITS_A_STATEMENT):
        of = target.described(ids[at : at + UNITS_A_STATEMENT]).subquery()
        columns = select(of.c.id, of.c.item_id, of.c.start_at, of.c.end_at)
        async with store.begin(target.namespace, read_only=True) as connection:
            for unit, item, start, end in await connection.execute(columns):
                found[sys.intern(unit)] = (sys.intern(item), None if start is None else (start, end))
    if gone := set(ids) - found.keys():
        raise StoreError(f"{len(gone)} units, {min(gone)!r} for one, vanished while they were evaluated. Run it again.")
    return found
