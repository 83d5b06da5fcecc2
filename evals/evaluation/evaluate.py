"""Variants and runs in, a scored board out: the one workflow of `rankbook eval`, cells, pages, suites and the Lab."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from core.errors import InputError, SpecError, UnknownName
from core.progress import Listener, nobody
from core.store.engine import Store
from core.variant import Variant
from evals.evaluation.board import Board
from evals.evaluation.context import EvalContext
from evals.labels import label_files, query_sets
from evals.measures import Metric
from evals.metrics.run_scores import chunk_labels
from evals.runs import candidates, run_store
from evals.runs.exchange import ForeignRun, read_run, with_unknown
from evals.runs.plan import EvalOptions, RunPlan
from evals.runs.runner import execute, remake_incomplete
from evals.runs.types import Run
from evals.types import QuerySplit

LONGEST_NAME = 180  # of a variant within the name of its deep run


@dataclass(frozen=True, slots=True)
class EvalResult:
    """The scored table, with the runs of other engines that were read for it, and the plan of what was run."""

    board: Board
    foreign: tuple[ForeignRun, ...] = ()
    plan: RunPlan | None = None


async def evaluate(
    ctx: EvalContext,
    entries: Sequence[Variant | Run],
    split: QuerySplit,
    options: EvalOptions,
    *,
    plan: RunPlan | None = None,
    files: Sequence[Path] = (),
    kept: Sequence[Run] = (),
    progress: Listener = nobody,
) -> EvalResult:
    """One row an entry in the order given, then those of the files, then the baseline where it is a kept run.

    `plan` is that of the variants among the entries, where it was made before. `kept` are runs that stand at the end,
    unless they are among the others.
    """
    if not entries and not files:
        raise InputError("There is nothing to evaluate: name a variant, such as 'bm25'.")
    kept_runs = [each for each in entries if isinstance(each, Run)]
    subject = await ctx.subject(split) if kept_runs else None
    for run in kept_runs:  # ids would mean other texts, or labels other queries
        if run.subject != subject:
            raise SpecError(
                f"{run.name!r} was made over {run.subject.split!r} of {run.subject.collection!r} as it was then, which "
                f"is not {split.name!r} of {ctx.view.name!r} as it is now. Evaluate its variant, or add it anew."
            )
    foreign = await foreign_runs(ctx, split, files)
    await refuse_unknown_baseline(ctx, split, options.baseline, [each.name for each in (*entries, *_runs_of(foreign))])
    variants = [each for each in entries if isinstance(each, Variant)]
    if plan is None and variants:
        plan = await ctx.plan(variants, split, options)
    made: Iterator[Run] = iter(())
    if plan is not None:
        plan = await remake_incomplete(replace(plan, context=ctx.context))
        made = iter(await run_plan(ctx, plan, progress))
    runs = [each if isinstance(each, Run) else next(made) for each in entries] + _runs_of(foreign)
    runs, baseline = await with_baseline(ctx.store, runs, options.baseline)
    for each in kept:
        runs, _ = _with_kept(runs, each, each.name)
    deep = await run_deep(ctx, runs, split, options, progress)
    return EvalResult(await score_runs(ctx, split, runs, options, baseline, deep), tuple(foreign), plan)


def _runs_of(foreign: Sequence[ForeignRun]) -> list[Run]:
    return [each.run for each in foreign]


# -- runs --------------------------------------------------------------------------------------------------------------


async def run_variants(
    ctx: EvalContext,
    variants: Sequence[Variant],
    split: QuerySplit,
    options: EvalOptions,
    progress: Listener = nobody,
) -> list[Run]:
    """One run a variant, made or kept from before."""
    if not variants:
        return []
    return await run_plan(ctx, await remake_incomplete(await ctx.plan(variants, split, options)), progress)


async def run_plan(ctx: EvalContext, plan: RunPlan, progress: Listener = nobody) -> list[Run]:
    """The same of variants that were planned before."""
    runs = await execute(plan, progress)
    await candidates.enter(ctx.store, runs, plan.options.cells)
    return runs


async def run_deep(
    ctx: EvalContext, runs: Sequence[Run], split: QuerySplit, options: EvalOptions, progress: Listener = nobody
) -> dict[str, Run]:
    """Deep runs for the metrics that look beyond what these ship, by the ids of these."""
    here = [run for run in runs if run.subject == runs[0].subject and not run.depth]
    short = {run.id: run.variant for run in here if run.variant and options.needs_deep_run(run.variant)}
    if not short:
        return {}
    deep = options.deep
    named = [each.but(name=f"{each.name[:LONGEST_NAME]}, {deep.depth} deep") for each in short.values()]
    return dict(zip(short, await run_variants(ctx, named, split, deep, progress), strict=True))


async def foreign_runs(ctx: EvalContext, split: QuerySplit, files: Sequence[Path]) -> list[ForeignRun]:
    """Runs out of files, kept like any other."""
    if not files:
        return []
    subject, found = await ctx.subject(split), []
    for path in files:
        read = await check_documents(ctx, await asyncio.to_thread(read_run, path, subject, split))
        found.append(replace(read, run=await run_store.save(ctx.store, read.run)))
    return found


async def check_documents(ctx: EvalContext, read: ForeignRun) -> ForeignRun:
    """The run, with what to say of documents that the collection has not got."""
    named = sorted({item for ranking in read.run.rankings.values() for item in ranking.item_ids})
    return with_unknown(read, await label_files.missing_items(ctx.store, ctx.view, named))


# -- the baseline ------------------------------------------------------------------------------------------------------


async def refuse_unknown_baseline(ctx: EvalContext, split: QuerySplit, name: str | None, here: Sequence[str]) -> None:
    """Before the work and not after it."""
    if name is not None and name not in here:
        await _kept_baseline(ctx.store, name, here, ctx.view.name, split.name)


async def with_baseline(store: Store, runs: list[Run], name: str | None) -> tuple[list[Run], str | None]:
    """The runs, with a kept one that is the baseline at their end; and what the baseline is called among them."""
    here = [run.name for run in runs]
    if name is None or name in here:
        return runs, name
    subject = runs[0].subject
    return _with_kept(runs, await _kept_baseline(store, name, here, subject.collection, subject.split), name)


async def _kept_baseline(store: Store, name: str, here: Sequence[str], collection: str, split: str) -> Run:
    """A run over other data is for the board to refuse."""
    try:
        return await run_store.resolve_run(store, name, collection=collection, split=split, anywhere=True)
    except UnknownName as error:
        raise UnknownName("variant here, and no kept run,", name, [*here, *error.known]) from None


def _with_kept(runs: list[Run], kept: Run, name: str) -> tuple[list[Run], str]:
    """The runs and a kept one at their end, under that name; where it is one of them, its name there."""
    for run in runs:
        if run.id == kept.id:
            return runs, run.name
    return [*runs, replace(kept, name=name)], name


# -- scoring -----------------------------------------------------------------------------------------------------------


async def score_runs(
    ctx: EvalContext,
    split: QuerySplit,
    runs: Sequence[Run],
    options: EvalOptions,
    baseline: str | None,
    deep: Mapping[str, Run] | None = None,
) -> Board:
    """The table, with what import found wrong; its scores are kept with the runs."""
    flaws = await query_sets.flaws(ctx.store, ctx.view.name, name=ctx.query_set)
    metrics = tuple(dict.fromkeys((*options.metrics, *options.also)))
    of_chunks = any(Metric.parse(each).level == "units" for each in metrics)
    labels = await chunk_labels(ctx.store, ctx.view, runs, split) if of_chunks else None
    place = await candidates.place_of(ctx.store, runs, metrics)
    more: dict[str, Any] = {"baseline": baseline, "rules": options.rules, "flaws": flaws, "place": place}
    board = await asyncio.to_thread(Board, split, runs, metrics, chunk_labels=labels, deep=deep, **more)
    for run in board.runs:
        for identity, scores in (await asyncio.to_thread(scores_of, board, run)).items():
            await run_store.keep_scores(ctx.store, identity, scores)
    return board


def scores_of(board: Board, run: Run) -> dict[str, dict[str, Any]]:
    """What is kept of a run's scores, by the id of the run that they are of, itself or its deep one: by metric the
    mean, under "METRIC interval" and "METRIC by query" the rest.
    """
    kept: dict[str, dict[str, Any]] = {}
    for metric in board.metrics:
        cell, of = board.cells(metric).get(run.name), board.scored_run(run, metric)
        if cell is not None and of.id:
            kept.setdefault(of.id, {}).update(
                {
                    metric: cell.mean,
                    f"{metric} interval": [cell.low, cell.high],
                    f"{metric} by query": board.of(run.name, metric),
                }
            )
    return kept
