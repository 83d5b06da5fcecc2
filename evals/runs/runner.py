"""Variants over a split: planned once, each shared leg run once, kept, and returned as runs in the variants' order.

Owns the order of the work and what is done again. A kept run of the same collection, queries and depth is not made
again, but for queries that failed in it, and for all queries where a leg answers again that was missing. Stopped at any
moment, by a token, a kill or a lost server, the work goes on where it was. What variants share is the matter of
`evals.runs.plan`, what a run's identity depends on that of `evals.runs.provenance`.

A latency is of searches made one after the other, once everything is loaded: `time_live` says how many of each variant,
and `Run.timed` which. The time of a search while others run is no latency.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from core.context import RequestContext
from core.errors import Cancelled, ConnectionFailed, MissingCapability
from core.pipeline.recall import lagging
from core.progress import Listener, Step, nobody
from core.spread import Cluster
from core.sql_export import index_names
from core.store.resolve_target import search_target
from core.variant import Variant
from evals.runs import run_store
from evals.runs.checkpoints import Batches
from evals.runs.code_digest import ranking_code
from evals.runs.dask_runs import DaskWorkers, cluster_for
from evals.runs.fused_runs import FusedRunner
from evals.runs.plan import EvalOptions, PlanInputs, PlannedRun, RunPlan, deepened, options_of, queries_digest
from evals.runs.provenance import content_of, environment, server_mark, variant_mark, vector_mark
from evals.runs.queries import MissingLegProbe, time_queries
from evals.runs.query_runs import QueryRunner
from evals.runs.rankings import cut_off, share_units
from evals.runs.types import QueryResults, Run, RunSubject
from evals.types import DEFAULT_QUERY_SET, QuerySplit

DEFAULT_OPTIONS = EvalOptions()
REMARKS = 5  # of a run that are listed


async def plan_runs(
    context: RequestContext,
    variants: Sequence[Variant],
    split: QuerySplit,
    *,
    query_set: str = DEFAULT_QUERY_SET,
    options: EvalOptions = DEFAULT_OPTIONS,
) -> RunPlan:
    """What there is to do, and which runs are kept: to be shown and priced before `execute` runs anything.

    Reads the store alone. A variant that names a chunk set or a filter field that is not there is refused here.
    """
    store, view = context.store, context.view
    server = store.capabilities
    content = await content_of(store, view)
    subject = RunSubject(view.name, view.row.version, query_set, split.digest, split.name, content)
    # Made anew, a collection may come to the same version; by other code or another server a leg may rank otherwise.
    state = f"{content} {view.row.created_at.timestamp()} {view.row.version} {ranking_code()} {server_mark(server)}"
    queries, runs = queries_digest(split), []
    for variant in variants:
        target = search_target(store, view, variant.chunks, variant.model)
        target.filtered(variant.filter)  # refuses what is wrong
        mark = variant_mark(server, variant, variant.model or target.model)
        identity = run_store.run_id(subject, variant, options.depth, f"{state} {queries} {mark}")
        runs.append(PlannedRun(variant, deepened(variant, options.depth) if options.depth else variant, identity))
    models = {each.chunks: search_target(store, view, each.chunks).model for each in variants}
    marks = {model: vector_mark(server, model) for model in {*models.values(), *(each.model for each in variants)}}
    inputs = PlanInputs(view.name, state, queries, models, marks)
    kept = {}
    for each in [] if options.again else runs:
        run = await run_store.get(store, each.id)
        if run is not None and not run.failures:
            kept[each.id] = run
    return RunPlan(context, split, subject, inputs, options, tuple(runs)).with_kept(kept)


async def execute(plan: RunPlan, progress: Listener = nobody) -> list[Run]:
    """One run a variant. Stop it by the context's token; its deadline holds for every query by itself."""
    try:
        async with cluster_for(plan.context, work=bool(plan.legs or plan.searched)) as cluster:
            return await _Execution(plan, progress, cluster).run()
    except ConnectionFailed as error:
        raise ConnectionFailed(f"{error} What was done until then is kept: it goes on from there.") from error


async def run(
    context: RequestContext,
    variants: Sequence[Variant],
    split: QuerySplit,
    *,
    query_set: str = DEFAULT_QUERY_SET,
    options: EvalOptions = DEFAULT_OPTIONS,
    progress: Listener = nobody,
) -> list[Run]:
    """Planned and executed."""
    plan = await plan_runs(context, variants, split, query_set=query_set, options=options)
    return await execute(await remake_incomplete(plan), progress)


async def remake_incomplete(plan: RunPlan) -> RunPlan:
    """The plan in which runs that did without a leg are made again, where that leg answers now. It tries such legs."""
    probe = MissingLegProbe(plan.context, plan.split)
    stale = {identity for identity, run in plan.kept.items() if run.without and await probe.any_is_back(run)}
    return plan.with_kept({key: run for key, run in plan.kept.items() if key not in stale}) if stale else plan


class _Execution:
    """One pass over a plan. Queries may go to the workers of a cluster; what they bring is fused and kept here."""

    def __init__(self, plan: RunPlan, progress: Listener, cluster: Cluster | None) -> None:
        self.plan, self.progress = plan, progress
        self.context, self.split, self.options = plan.context, plan.split, plan.options
        self.store = self.context.store
        self.batches = Batches(self.store, self.context.view, plan.inputs.state)
        most = self.options.connections
        workers = DaskWorkers(cluster, self.context, self.split, most) if cluster else None
        self.queries = QueryRunner(
            self.context, self.split, self.batches, connections=most, progress=progress, workers=workers
        )
        self.runs = dict(plan.kept)
        self._title, self._total = plan.describe(), len(plan.distinct)
        self._environment: dict[str, Any] | None = None
        self._indexes: dict[object, list[str]] = {}

    async def run(self) -> list[Run]:
        plan = self.plan
        self._report()
        await self._keep_names(plan.kept)
        await self.batches.forget_older()
        if self.options.again:
            await self.batches.forget([task.digest for task in plan.legs] + [each.id for each in plan.runs])
        for task in plan.legs:
            await self.queries.run_leg(task, self.split.queries)
        fused = FusedRunner(self.queries)
        for each in plan.fused:
            if self.context.cancellation and self.context.cancellation.is_set():
                raise Cancelled("The evaluation was cancelled. What was done is kept: run it again, and it goes on.")
            await self._finish(each.run, await fused.compute(each))
        for planned in plan.searched:
            await self._search(planned)
        await self._keep_names(self.runs)
        wanted = min(self.options.time_live, len(self.split.queries))
        for identity, kept in plan.kept.items():
            if len(kept.timed) < wanted:
                self.runs[identity] = await self._save(await self._timed(kept))
        return [replace(self.runs[each.id], name=each.variant.name, variant=each.variant) for each in plan.runs]

    def _report(self) -> None:
        self.progress(Step(self._title, len(self.runs), self._total, "variants"))

    async def _keep_names(self, identities: Collection[str]) -> None:
        """Variants that are alike share a run, which is found under the names of all."""
        names: dict[str, list[str]] = {}
        for each in self.plan.runs:
            if each.id in identities:
                names.setdefault(each.id, []).append(each.variant.name)
        await run_store.mark_used(self.store, names, rename=self.options.rename)

    async def _search(self, planned: PlannedRun) -> None:
        earlier = None if self.options.again else await run_store.get(self.store, planned.id)
        before = None
        if earlier is not None and not earlier.without:  # else it is not known which queries are whole
            whole = {query: ranking for query, ranking in earlier.lifted.items() if query not in earlier.failures}
            stages = {stage: dict(spent) for stage, spent in earlier.stages.items()}
            before = QueryResults(whole, {}, dict(earlier.milliseconds), stages, earlier.notes)
        await self._finish(planned, await self.queries.run_search(planned.deepened, planned.id, before))
        await self.batches.forget([planned.id])

    async def _finish(self, planned: PlannedRun, results: QueryResults) -> None:
        """Keep what came of it as a run."""
        variant = planned.variant
        every = share_units({query: results.rankings[query] for query in self.split.queries})
        rankings, beyond = cut_off(every, planned.deepened.top_k, keep=self.options.as_shipped)
        if self._environment is None:
            self._environment = await environment(self.store, self.context.view)
        frequent = sorted(results.remarks.items(), key=lambda pair: (-len(set(pair[1])), pair[0]))
        of = len(self.split.queries)
        remarks = [f"{len(set(ids))} of {of} queries: {remark}" for remark, ids in frequent[:REMARKS]]
        if len(frequent) > REMARKS:
            remarks.append(f"... and {len(frequent) - REMARKS} more remarks of single stages.")
        lag: tuple[str, ...] = ()  # what its legs read behind an attached table may have been written to while they ran
        target = search_target(self.store, self.context.view, variant.chunks, variant.model)
        if target.lag is not None:
            async with self.store.begin(target.namespace, read_only=True) as connection:
                lag = await lagging(connection, target, *variant.legs)
        made = Run(
            variant.name,
            self.plan.subject,
            rankings,
            variant,
            results.failures,
            results.milliseconds,
            results.stages,
            {**self._environment, "own indexes": await self._own_indexes(variant)},
            id=planned.id,
            depth=self.options.depth,
            notes=(*results.notes, *remarks, *lag),
            without={leg: next(iter(why.values())) for leg, why in results.unavailable.items() if why},
            beyond=beyond,
        )
        self.runs[planned.id] = await self._save(await self._timed(made))
        self._report()

    async def _save(self, run: Run) -> Run:
        """Whoever may only read has it for as long as it is held in memory."""
        return await run_store.save(self.store, run, rename=self.options.rename) if self.store.keeps else run

    async def _timed(self, run: Run) -> Run:
        if not self.options.time_live or run.variant is None:
            return run
        live = await time_queries(self.context, self.split, run.variant, self.options.time_live, self.progress)
        stages = {stage: dict(spent) for stage, spent in run.stages.items()}
        for stage, spent in live.stages.items():
            stages.setdefault(stage, {}).update(spent)
        times = {**run.milliseconds, **live.milliseconds}
        return replace(run, milliseconds=times, stages=stages, timed=tuple(live.milliseconds))

    async def _own_indexes(self, variant: Variant) -> list[str]:
        """The names of the indexes that serve the variant's legs and filter; none of an attached table."""
        if self.context.view.row.attached is not None:
            return []
        legs = tuple(json.dumps(options_of(leg), sort_keys=True, default=str) for leg in variant.legs)
        key = (variant.chunks, variant.model, variant.filter is None, legs)
        if key not in self._indexes:
            try:
                self._indexes[key] = list(await index_names(self.store, self.context.view, variant))
            except MissingCapability:  # no leg is there: the run says so
                self._indexes[key] = []
        return self._indexes[key]
