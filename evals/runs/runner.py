"""Variants over a split: planned, asked once where they share, kept, and given back as runs in the order they came in.

Owns the order of the work and what is done again. A run that is kept, of the same collection as it stands, the same
queries and the same depth, is not made again; queries that failed in it are asked anew, and so are all where a leg is
there again that it had to do without. Stopped at any moment, by a token, a kill or a lost server, it goes on where it
was. What variants are asked for is stated in `evals.runs.plan`, what a run's identity hangs on beside in
`evals.runs.provenance`.

A latency is of queries that are asked alone, one after the other, once everything is loaded: `time_live` says how many
of each variant, and a run which (`Run.timed`). What searches took while others were under way is none.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

from core.context import RequestContext
from core.errors import Cancelled, ConnectionFailed, MissingCapability
from core.pipeline.recall import lagging
from core.progress import Listener, Step, nobody
from core.spread import Cluster
from core.sql_export import index_names
from core.store import collections
from core.store.resolve_target import search_target
from core.variant import Variant
from evals.runs import run_store
from evals.runs.checkpoints import Batches
from evals.runs.code_digest import ranking_code
from evals.runs.dask_runs import SpreadLegs, SpreadQueries, cluster_for
from evals.runs.fused_runs import FusedRunner
from evals.runs.leg_runs import CONNECTIONS, LegRunner, MissingLegProbe, reasons
from evals.runs.plan import Ground, LegPlan, asked_of, deepened, describe, plan, queries_digest
from evals.runs.provenance import content_of, environment, server_mark, variant_mark, vector_mark
from evals.runs.query_runs import QueryRuns, told
from evals.runs.rankings import cut_off, share_units
from evals.runs.types import QueryResults, Run, RunSubject
from evals.types import DEFAULT_QUERY_SET, QuerySplit


@dataclass(frozen=True, slots=True)
class RunOptions:
    """`deep` is the deepest cut-off of any metric, for deep runs; at 0 variants are asked for what they ship.

    `again` asks anew for what is kept. `time_live` is how many queries of each variant are timed by themselves.
    `connections` is how many queries are under way at once. `rename` is whether kept runs are listed under the names
    that they are asked for under: somebody's own names are for that, a suite's, a grid's or a sweep's are not.
    """

    deep: int = 0
    again: bool = False
    time_live: int = 0
    connections: int = CONNECTIONS
    rename: bool = True


USUAL = RunOptions()


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """A variant, as it ships and as it is asked, and the identity of its run."""

    variant: Variant
    asked: Variant
    id: str


@dataclass(frozen=True, slots=True)
class RunPlan:
    """All that is known before the first query: what there is to do, and what is there already."""

    context: RequestContext
    split: QuerySplit
    subject: RunSubject
    state: str
    asked: tuple[PlannedRun, ...]
    plan: LegPlan
    kept: dict[str, Run]
    options: RunOptions


async def plan_runs(
    context: RequestContext,
    variants: Sequence[Variant],
    split: QuerySplit,
    *,
    query_set: str = DEFAULT_QUERY_SET,
    options: RunOptions = USUAL,
) -> RunPlan:
    """The plan, to be shown before anything is asked; `evals.runs.plan.describe` says it in a line.

    A variant that names a chunk set or a filter field that is not there is refused here.
    """
    context = replace(context, view=await collections.get(context.store, context.view.name))
    view = context.view
    content = await content_of(context.store, view)
    subject = RunSubject(view.name, view.row.version, query_set, split.digest, split.name, content)
    # Made anew, a collection may come to the same version; by other code or another server a leg may rank otherwise.
    server = context.store.capabilities
    state = f"{content} {view.row.created_at.timestamp()} {view.row.version} {ranking_code()} {server_mark(server)}"
    asked = tuple(_asked(context, each, split, subject, state, options) for each in variants)
    kept = {} if options.again else await _kept(context, asked, split)
    once = _first(asked)
    left = [each.asked for each in once.values() if each.id not in kept]
    models = _models(context, left)
    marks = {model: vector_mark(server, model) for model in {*models.values(), *(each.model for each in left)}}
    ground = Ground(view.name, state, queries_digest(split), models, marks)
    there = [each.variant for each in once.values() if each.id in kept]
    planned = plan(left, ground, there, len(asked) - len(once))
    return RunPlan(context, split, subject, state, asked, planned, kept, options)


def _first(asked: Sequence[PlannedRun]) -> dict[str, PlannedRun]:
    """Each run once: of variants that are alike, a grid's point and its base say, under the name that came first."""
    found: dict[str, PlannedRun] = {}
    for each in asked:
        found.setdefault(each.id, each)
    return found


def _asked(
    context: RequestContext, variant: Variant, split: QuerySplit, subject: RunSubject, state: str, options: RunOptions
) -> PlannedRun:
    at = search_target(context.store, context.view, variant.chunks, variant.model)
    at.filtered(variant.filter)  # refuses what is wrong
    mark = variant_mark(context.store.capabilities, variant, variant.model or at.model)
    asked = deepened(variant, options.deep) if options.deep else variant
    identity = run_store.run_id(subject, variant, options.deep, f"{state} {queries_digest(split)} {mark}")
    return PlannedRun(variant, asked, identity)


async def _kept(context: RequestContext, asked: Sequence[PlannedRun], split: QuerySplit) -> dict[str, Run]:
    """The runs that are there and whole, or as whole as they can be while the same legs are missing."""
    found = {each.id: await run_store.get(context.store, each.id) for each in asked}
    whole = {identity: run for identity, run in found.items() if run is not None and not run.failures}
    returned = MissingLegProbe(context, next((query.text for query in split.queries.values()), ""))
    return {identity: run for identity, run in whole.items() if not (run.without and await returned.any_of(run))}


def _models(context: RequestContext, variants: Sequence[Variant]) -> dict[str, str | None]:
    names = dict.fromkeys(variant.chunks for variant in variants)
    return {chunks: search_target(context.store, context.view, chunks).model for chunks in names}


async def run(
    context: RequestContext,
    variants: Sequence[Variant],
    split: QuerySplit,
    *,
    query_set: str = DEFAULT_QUERY_SET,
    options: RunOptions = USUAL,
    progress: Listener = nobody,
) -> list[Run]:
    """One run a variant. Stop it by the context's token; its deadline holds for every query by itself."""
    try:
        ready = await plan_runs(context, variants, split, query_set=query_set, options=options)
        async with cluster_for(context, work=bool(ready.plan.legs or ready.plan.searched)) as cluster:
            return await _Suite(ready, progress, cluster).run()
    except ConnectionFailed as error:
        raise ConnectionFailed(f"{error} What was done until then is kept: it goes on from there.") from error


class _Suite:
    """One pass over a plan. Leg runs and searches may go over a cluster; what they bring is fused and kept here."""

    def __init__(self, ready: RunPlan, progress: Listener, cluster: Cluster | None) -> None:
        self.ready, self.progress = ready, progress
        self.context, self.options = ready.context, ready.options
        self.batches = Batches(self.context.store, self.context.view, ready.state)
        most, given = self.options.connections, (self.context, ready.split)
        askers = SpreadLegs(cluster, *given, most) if cluster else None
        searchers = SpreadQueries(cluster, *given, most) if cluster else None
        self.legs = LegRunner(*given, self.batches, connections=most, listener=progress, elsewhere=askers)
        self.queries = QueryRuns(*given, self.batches, most, progress, searchers)
        self.runs = dict(ready.kept)
        self._environment: dict[str, Any] | None = None
        self._indexes: dict[object, list[str]] = {}

    async def run(self) -> list[Run]:
        plan = self.ready.plan
        self._tell()
        await self._keep_names(self.ready.kept)
        await self.batches.forget_older()
        if self.options.again:
            await self.batches.forget([task.digest for task in plan.legs] + [each.id for each in self.ready.asked])
        for task in plan.legs:
            await self.legs.found(task, self.ready.split.queries)
        waiting = self._waiting()
        computing = FusedRunner(self.legs)
        for fusing in plan.fused:
            self._stop_if_told()
            await self._done(waiting[fusing.variant.id].pop(0), await computing.compute(fusing))
        for variant in plan.searched:
            await self._search(waiting[variant.id].pop(0))
        await self._keep_names(self.runs)
        await self._time_kept()
        return [replace(self.runs[each.id], name=each.variant.name, variant=each.variant) for each in self.ready.asked]

    async def _keep_names(self, identities: Collection[str]) -> None:
        """Variants that are alike share a run, which is found under the names of all."""
        names: dict[str, list[str]] = {}
        for each in self.ready.asked:
            if each.id in identities:
                names.setdefault(each.id, []).append(each.variant.name)
        await run_store.used(self.context.store, names, rename=self.options.rename)

    def _waiting(self) -> dict[str, list[PlannedRun]]:
        """What is to be done, by what is asked: variants that ship different lengths may be asked the same."""
        waiting: dict[str, list[PlannedRun]] = {}
        for identity, each in _first(self.ready.asked).items():
            if identity not in self.runs:
                waiting.setdefault(each.asked.id, []).append(each)
        return waiting

    async def _search(self, asked: PlannedRun) -> None:
        before = None if self.options.again else await run_store.get(self.context.store, asked.id)
        usable = before is not None and not before.without  # else nobody knows which queries are whole
        found = await self.queries.searched(asked.asked, asked.id, _answered(before) if before and usable else None)
        await self._done(asked, found)
        await self.batches.forget([asked.id])

    async def _done(self, asked: PlannedRun, found: QueryResults) -> None:
        every = share_units({query: found.rankings[query] for query in self.ready.split.queries})
        rankings, beyond = cut_off(every, asked.asked.top_k, keep=not self.options.deep)
        made = Run(
            asked.variant.name,
            self.ready.subject,
            rankings,
            asked.variant,
            found.failures,
            found.milliseconds,
            found.stages,
            {**await self._surroundings(), "own indexes": await self._own_indexes(asked.variant)},
            id=asked.id,
            depth=self.options.deep,
            notes=(
                *found.notes,
                *told(found.remarks, len(self.ready.split.queries)),
                *await self._lag(asked.variant),
            ),
            without=reasons(found.without),
            beyond=beyond,
        )
        self.runs[asked.id] = await self._kept(await self._timed(made))
        self._tell()

    async def _time_kept(self) -> None:
        """Kept runs are timed where that is asked for and was not done yet."""
        wanted = min(self.options.time_live, len(self.ready.split.queries))
        for identity, run in self.ready.kept.items():
            if len(run.timed) < wanted:
                self.runs[identity] = await self._kept(await self._timed(run))

    async def _kept(self, run: Run) -> Run:
        """Whoever may only read has it for as long as it is held in memory."""
        store = self.context.store
        return await run_store.save(store, run, rename=self.options.rename) if store.keeps else run

    async def _timed(self, run: Run) -> Run:
        if not self.options.time_live or run.variant is None:
            return run
        live = await self.queries.timed(run.variant, self.options.time_live)
        stages = {stage: dict(spent) for stage, spent in run.stages.items()}
        for stage, spent in live.stages.items():
            stages.setdefault(stage, {}).update(spent)
        times = {**run.milliseconds, **live.milliseconds}
        return replace(run, milliseconds=times, stages=stages, timed=tuple(live.milliseconds))

    async def _surroundings(self) -> dict[str, Any]:
        if self._environment is None:
            self._environment = await environment(self.context.store, self.context.view)
        return self._environment

    async def _own_indexes(self, variant: Variant) -> list[str]:
        """By name: what the variant's legs and filter are served by. None of a table that is somebody else's."""
        if self.context.view.row.attached is not None:
            return []
        legs = tuple(json.dumps(asked_of(leg), sort_keys=True, default=str) for leg in variant.legs)
        key = (variant.chunks, variant.model, variant.filter is None, legs)
        if key not in self._indexes:
            try:
                self._indexes[key] = list(await index_names(self.context.store, self.context.view, variant))
            except MissingCapability:  # no leg is there: the run says so
                self._indexes[key] = []
        return self._indexes[key]

    async def _lag(self, variant: Variant) -> tuple[str, ...]:
        """That its legs read what is behind an attached table, which may have been written to while they ran."""
        at = search_target(self.context.store, self.context.view, variant.chunks, variant.model)
        if at.lag is None:
            return ()
        async with self.context.store.begin(at.namespace, read_only=True) as connection:
            return await lagging(connection, at, *variant.legs)

    def _tell(self) -> None:
        wanted = len({each.id for each in self.ready.asked})
        self.progress(Step(describe(self.ready.plan), len(self.runs), wanted, "variants"))

    def _stop_if_told(self) -> None:
        if self.context.cancellation and self.context.cancellation.is_set():
            raise Cancelled("The evaluation was cancelled. What was done is kept: run it again, and it goes on.")


def _answered(run: Run) -> QueryResults:
    """What an earlier run has, but for the queries that failed."""
    rankings = {query: ranked for query, ranked in run.lifted.items() if query not in run.failures}
    stages = {stage: dict(spent) for stage, spent in run.stages.items()}
    return QueryResults(rankings, {}, dict(run.milliseconds), stages, run.notes)
