"""Variants computed from leg runs: what a search of each query would have given, without searching.

Owns the depths at which a roll-up asks again, the units' items and places, and what becomes of a variant whose leg is
missing or failed at a query, each as `core.pipeline.retriever` has it. The fusing itself is `evals.runs.batch_fusion`.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import select

from core.errors import StoreError
from core.pipeline.retriever import DEEPER, DEEPEST
from core.store.engine import Store
from core.store.search_target import SearchTarget
from evals.runs.batch_fusion import FusionArrays, ResultCut, fused
from evals.runs.leg_runs import LegQueryResults, LegRunner
from evals.runs.plan import FusedVariant, LegTask, LegUse
from evals.runs.rankings import LegRankings, Ranking, share_units
from evals.runs.types import QueryResults

UNITS_A_STATEMENT = 5000
ARRAYS_KEPT = 8  # variants of the same legs come one after the other
Unit = tuple[str, tuple[int, int] | None]  # which item it is part of, and where


@dataclass(slots=True)
class _Attempt:
    """One round: the queries that are left, how deep, and what is known of the legs then."""

    queries: list[str]
    depths: dict[str, int]
    found: dict[str, LegQueryResults]


class FusedRunner:
    """The variants of one plan. What they share, arrays and units, is made once."""

    def __init__(self, legs: LegRunner) -> None:
        self.legs = legs
        self._units: dict[tuple[str, str | None], dict[str, Unit]] = {}
        self._rankings: dict[tuple[str, int, int], dict[str, Ranking]] = {}
        self._arrays: dict[object, FusionArrays] = {}

    async def compute(self, fusing: FusedVariant) -> QueryResults:
        """The variant's rankings, with the candidates that only its last cut keeps out."""
        made, variant = QueryResults(), fusing.variant
        depths = {share.name: share.depth for share in fusing.shares}
        pending = list(self.legs.split.queries)
        for attempt in range(DEEPEST):
            now = await self._attempt(fusing, pending, depths)
            short = await self._fuse(fusing, now, made)
            if variant.rollup is None or attempt == DEEPEST - 1:
                break
            pending = [query for query in short if not self._exhausted(now, query)]
            if not pending:
                break
            depths = {name: depth * DEEPER for name, depth in depths.items()}
        return made

    # -- what the legs found -----------------------------------------------------------------------------------------

    async def _attempt(self, fusing: FusedVariant, queries: list[str], depths: dict[str, int]) -> _Attempt:
        found = {}
        for share in fusing.shares:
            found[share.name] = await self.legs.found(deep_enough(share, depths[share.name]), queries)
        return _Attempt(queries, depths, found)

    async def _legs(self, shares: Sequence[LegUse], now: _Attempt, queries: Sequence[str]) -> list[LegRankings]:
        """Each leg's first so many, with the items and places of what it found."""
        return [
            LegRankings(share.name, share.leg, now.depths[share.name], await self._cut(share, now, queries))
            for share in shares
        ]

    async def _cut(self, share: LegUse, now: _Attempt, queries: Sequence[str]) -> dict[str, Ranking]:
        depth, found = now.depths[share.name], now.found[share.name]
        task = deep_enough(share, depth)
        cut = self._rankings.setdefault((task.digest, task.depth, depth), {})
        fresh = {query: found.rankings[query] for query in queries if query not in cut}
        units = await self._described(task, {unit for ranked in fresh.values() for unit in ranked.ids[:depth]})
        cut |= share_units({query: _placed(ranked, depth, units) for query, ranked in fresh.items()})
        return cut

    async def _described(self, task: LegTask, ids: Iterable[str]) -> dict[str, Unit]:
        """The item and the place of every unit met on this level so far; none where units are items."""
        known = self._units.setdefault((task.chunks, task.model), {})
        known |= await described(self.legs.context.store, self.legs.level(task), sorted(set(ids) - known.keys()))
        return known

    def _exhausted(self, now: _Attempt, query: str) -> bool:
        """Whether no leg has more, so that asking deeper would bring nothing."""
        return all(
            found.rankings[query].length < now.depths[name] if query in found.rankings else True
            for name, found in now.found.items()
        )

    # -- fusing ------------------------------------------------------------------------------------------------------

    async def _fuse(self, fusing: FusedVariant, now: _Attempt, made: QueryResults) -> list[str]:
        """Put what comes of these queries into `made`; the ids of those that lack results, and may yet have more."""
        groups: dict[tuple[str, ...], list[str]] = {}
        for query in now.queries:
            if why := next((each.failures[query] for each in now.found.values() if query in each.failures), None):
                made.failures[query], made.rankings[query] = why, Ranking()
                continue
            there = tuple(name for name, each in now.found.items() if query not in each.missing)
            groups.setdefault(there, []).append(query)
        short: list[str] = []
        for there, queries in groups.items():
            self._note_missing(now, queries[0], made)
            if not there:
                _fail(now, queries, made)
                continue
            short += await self._fuse_these(fusing, now, there, queries, made)
        return short

    async def _fuse_these(
        self, fusing: FusedVariant, now: _Attempt, there: Sequence[str], queries: Sequence[str], made: QueryResults
    ) -> list[str]:
        variant = fusing.variant
        shares = [share for share in fusing.shares if share.name in there]
        legs = await self._legs(shares, now, queries)
        begun = time.perf_counter()
        arrays, weights = self._array(shares, now, legs, queries), [share.leg.weight for share in shares]
        found = await asyncio.to_thread(fused, arrays, variant.fusion, weights, ResultCut.of(variant).lifted())
        each = (time.perf_counter() - begun) * 1000 / len(queries)
        made.rankings |= found
        self._time(now, there, queries, each, made)
        counted = found
        if variant.rollup and variant.min_score > 0:  # what a low score drops, the pipeline does not make up for
            every = ResultCut(fused_depth=variant.fused_depth, rollup=variant.rollup)
            counted = await asyncio.to_thread(fused, arrays, variant.fusion, weights, every)
        short = [query for query in queries if counted[query].length < variant.top_k]
        return _not_capped(arrays, fusing, weights, short) if variant.rollup and variant.fused_depth else short

    def _array(
        self, shares: Sequence[LegUse], now: _Attempt, legs: Sequence[LegRankings], queries: Sequence[str]
    ) -> FusionArrays:
        key = (tuple((share.name, share.task.digest, now.depths[share.name]) for share in shares), tuple(queries))
        if key not in self._arrays:
            if len(self._arrays) >= ARRAYS_KEPT:
                del self._arrays[next(iter(self._arrays))]
            self._arrays[key] = FusionArrays.of(legs, queries)
        return self._arrays[key]

    def _time(
        self, now: _Attempt, there: Sequence[str], queries: Sequence[str], each: float, made: QueryResults
    ) -> None:
        """An estimate: legs run side by side, so the slowest counts, and the fusing is shared out evenly."""
        for query in queries:
            legs = {f"leg {name}": now.found[name].milliseconds[query] for name in there}
            for stage, spent in {**legs, "fuse": each}.items():
                of_stage = made.stages.setdefault(stage, {})
                of_stage[query] = of_stage.get(query, 0.0) + spent
            made.milliseconds[query] = made.milliseconds.get(query, 0.0) + max(legs.values()) + each

    def _note_missing(self, now: _Attempt, query: str, made: QueryResults) -> None:
        missing = {name: each.missing[query] for name, each in now.found.items() if query in each.missing}
        made.without |= {name: {query: why} for name, why in missing.items()}
        told = (f"{name} is not available: {why}" for name, why in missing.items())
        made.notes = tuple(dict.fromkeys((*made.notes, *told)))


def deep_enough(share: LegUse, depth: int) -> LegTask:
    """The planned task, or where a roll-up goes deeper than that, or another way, one of its own."""
    task = share.task
    if task.depth == depth or (task.leg.deepens and task.depth >= depth):
        return task
    return LegTask(task.digest, task.leg, depth, task.chunks, task.model, task.filter)


def _fail(now: _Attempt, queries: Iterable[str], made: QueryResults) -> None:
    """All legs are missing: the first one's reason stands, as in a search."""
    first = next(iter(now.found.values()))
    for query in queries:
        made.failures[query], made.rankings[query] = first.missing[query], Ranking()


def _not_capped(
    arrays: FusionArrays, fusing: FusedVariant, weights: Sequence[float], short: Sequence[str]
) -> list[str]:
    """Those that fewer candidates than may go on were fused for: others have all that they can have."""
    most = fusing.variant.fused_depth
    whole = fused(arrays, fusing.variant.fusion, weights, ResultCut(fused_depth=most))
    return [query for query in short if whole[query].length != most]


def _placed(ranked: Ranking, depth: int, units: Mapping[str, Unit]) -> Ranking:
    ids = ranked.ids[:depth]
    placed = [units[unit] for unit in ids]
    spans = tuple(span for _, span in placed if span is not None)
    items = tuple(item for item, _ in placed)
    if items == ids and not spans:
        return ranked if ranked.length <= depth else ranked.at(slice(depth))
    return Ranking(ids, ranked.values[:depth], () if items == ids else items, spans if len(spans) == len(ids) else ())


async def described(store: Store, level: SearchTarget, ids: Sequence[str]) -> dict[str, Unit]:
    """Item and place of these units, their texts left where they are."""
    found: dict[str, Unit] = {}
    for at in range(0, len(ids), UNITS_A_STATEMENT):
        of = level.described(ids[at : at + UNITS_A_STATEMENT]).subquery()
        asked = select(of.c.id, of.c.item_id, of.c.start_at, of.c.end_at)
        async with store.begin(level.namespace, read_only=True) as connection:
            for unit, item, start, end in await connection.execute(asked):
                found[sys.intern(unit)] = (sys.intern(item), None if start is None else (start, end))
    if gone := set(ids) - found.keys():
        raise StoreError(f"{len(gone)} units, {min(gone)!r} for one, vanished while they were evaluated. Run it again.")
    return found
