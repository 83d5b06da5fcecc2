"""Variants and runs in, a scored board out: what `rankbook eval` does once, and a suite for each collection."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from core.errors import InputError, SpecError, UnknownName
from core.progress import Listener, nobody
from core.store.engine import Store
from core.variant import Variant
from evals.evaluation.board import Board
from evals.evaluation.context import EvalContext, EvalOptions
from evals.labels import label_files, query_sets
from evals.measures import Metric
from evals.metrics.run_scores import chunk_labels
from evals.runs import candidates, run_store, runner
from evals.runs.exchange import ForeignRun, read_run, with_unknown
from evals.runs.types import Run
from evals.types import QuerySplit

# -- scoring -----------------------------------------------------------------------------------------------------------


async def evaluate_entries(
    ground: EvalContext, entries: Sequence[Variant | Run], split: QuerySplit, wanted: EvalOptions, listener: Listener
) -> Board:
    """One row an entry, in the order given."""
    if not entries:
        raise InputError("There is nothing to evaluate: name a variant, such as 'bm25'.")
    variants = [each for each in entries if isinstance(each, Variant)]
    runs = iter(await run_variants(ground, variants, split, wanted, listener) if variants else [])
    ordered = [each if isinstance(each, Run) else next(runs) for each in entries]
    await _refuse_outdated(ground, split, [each for each in entries if isinstance(each, Run)])
    ordered, baseline = await with_baseline(ground.store, ordered, wanted.baseline)
    deep = await run_deep(ground, ordered, split, wanted, listener)
    return await score_runs(ground, split, ordered, wanted, baseline, deep)


async def _refuse_outdated(ground: EvalContext, split: QuerySplit, runs: Sequence[Run]) -> None:
    """Runs that are handed over must be over what is scored: ids mean other texts, or labels other queries, else."""
    subject = await ground.subject(split) if runs else None
    for run in runs:
        if run.subject != subject:
            raise SpecError(
                f"{run.name!r} was made over {run.subject.split!r} of {run.subject.collection!r} as it was then, which "
                f"is not {split.name!r} of {ground.view.name!r} as it is now. Evaluate its variant, or add it anew."
            )


LONGEST_NAME = 180  # of a variant, for a deep run to be told by its name


async def run_variants(
    ground: EvalContext,
    variants: Sequence[Variant],
    split: QuerySplit,
    wanted: EvalOptions,
    progress: Listener = nobody,
) -> list[Run]:
    """One run a variant, made or kept from before."""
    runs = await runner.run(
        ground.context, variants, split, query_set=ground.query_set, options=wanted.options, progress=progress
    )
    await candidates.enter(ground.store, runs, wanted.cells)
    return runs


async def run_deep(
    ground: EvalContext, runs: Sequence[Run], split: QuerySplit, wanted: EvalOptions, progress: Listener = nobody
) -> dict[str, Run]:
    """Deep runs for the metrics that look beyond what these ship, by the ids of these."""
    here = [run for run in runs if run.subject == runs[0].subject and not run.depth]
    short = {run.id: run.variant for run in here if run.variant and wanted.beyond(run.variant)}
    if not short:
        return {}
    named = [each.but(name=f"{each.name[:LONGEST_NAME]}, {wanted.depth} deep") for each in short.values()]
    return dict(zip(short, await run_variants(ground, named, split, wanted.deep, progress), strict=True))


async def score_runs(
    ground: EvalContext,
    split: QuerySplit,
    runs: Sequence[Run],
    wanted: EvalOptions,
    baseline: str | None,
    deep: Mapping[str, Run] | None = None,
) -> Board:
    """The table, with what import found wrong; its scores are kept beside the runs."""
    flaws = await query_sets.flaws(ground.store, ground.view.name, name=ground.query_set)
    metrics = tuple(dict.fromkeys((*wanted.metrics, *wanted.also)))
    of_chunks = any(Metric.parse(each).level == "units" for each in metrics)
    labels = await chunk_labels(ground.store, ground.view, runs, split) if of_chunks else None
    place = await candidates.place_of(ground.store, runs, metrics)
    options: dict[str, Any] = {"baseline": baseline, "rules": wanted.rules, "flaws": flaws, "place": place}
    board = await asyncio.to_thread(Board, split, runs, metrics, chunk_labels=labels, deep=deep, **options)
    for run in board.runs:
        for identity, scores in (await asyncio.to_thread(scores_of, board, run)).items():
            await run_store.keep_scores(ground.store, identity, scores)
    return board


def scores_of(board: Board, run: Run) -> dict[str, dict[str, Any]]:
    """What is kept of a run's scores, by the id of the run that they are of, itself or its deep one: by metric the
    mean, under "METRIC interval" and "METRIC by query" the rest.
    """
    kept: dict[str, dict[str, Any]] = {}
    for metric in board.metrics:
        cell, of = board.cells(metric).get(run.name), board.told_of(run, metric)
        if cell is not None and of.id:
            kept.setdefault(of.id, {}).update(
                {
                    metric: cell.mean,
                    f"{metric} interval": [cell.low, cell.high],
                    f"{metric} by query": board.of(run.name, metric),
                }
            )
    return kept


async def evaluate(
    ground: EvalContext,
    variants: Sequence[Variant],
    split: QuerySplit,
    wanted: EvalOptions,
    *,
    files: Sequence[Path] = (),
    progress: Listener = nobody,
) -> tuple[Board, list[ForeignRun]]:
    """Variants, and runs of other engines from files, in one table. The baseline may be any kept run over the same."""
    foreign = await foreign_runs(ground, split, files)
    here = [*(each.name for each in variants), *(each.run.name for each in foreign)]
    await refuse_unknown_baseline(ground, split, wanted.baseline, here)
    runs = await run_variants(ground, variants, split, wanted, progress) if variants else []
    runs += [each.run for each in foreign]
    runs, baseline = await with_baseline(ground.store, runs, wanted.baseline)
    deep = await run_deep(ground, runs, split, wanted, progress)
    return await score_runs(ground, split, runs, wanted, baseline, deep), foreign


async def foreign_runs(ground: EvalContext, split: QuerySplit, files: Sequence[Path]) -> list[ForeignRun]:
    """Runs out of files, kept like any other."""
    if not files:
        return []
    subject, found = await ground.subject(split), []
    for path in files:
        read = await check_documents(ground, await asyncio.to_thread(read_run, path, subject, split))
        found.append(replace(read, run=await run_store.save(ground.store, read.run)))
    return found


async def check_documents(ground: EvalContext, read: ForeignRun) -> ForeignRun:
    """The run, with what to say of documents that the collection has not got."""
    named = sorted({item for ranked in read.run.rankings.values() for item in ranked.item_ids})
    return with_unknown(read, await label_files.missing_items(ground.store, ground.view, named))


async def refuse_unknown_baseline(
    ground: EvalContext, split: QuerySplit, name: str | None, here: Sequence[str]
) -> None:
    """Before the work and not after it."""
    if name is not None and name not in here:
        await _kept(ground.store, name, here, ground.view.name, split.name)


async def with_baseline(store: Store, runs: list[Run], name: str | None) -> tuple[list[Run], str | None]:
    """The runs, with a kept one that is the baseline at their end; and what the baseline is called among them."""
    here = [run.name for run in runs]
    if name is None or name in here:
        return runs, name
    subject = runs[0].subject
    return joined(runs, await _kept(store, name, here, subject.collection, subject.split), name)


async def _kept(store: Store, name: str, here: Sequence[str], collection: str, split: str) -> Run:
    """The kept run of that name; of several the one over the same. One over other data is for the board to refuse."""
    with suppress(UnknownName):
        return await run_store.load(store, name, collection=collection, split=split)
    try:
        return await run_store.load(store, name)
    except UnknownName as error:
        raise UnknownName("variant here, and no kept run,", name, [*here, *error.known]) from None


def joined(runs: list[Run], kept: Run, name: str) -> tuple[list[Run], str]:
    """The kept run among the others, under that name; where it is one of them, its name there."""
    for run in runs:
        if run.id == kept.id:
            return runs, run.name
    return [*runs, replace(kept, name=name)], name
