"""Variants over one split, carried out and scored: what a suite does for each collection, and `rankbook eval` for one.

Owns the way from names to a board: collection, query set and split found or refused, runs made, runs from elsewhere
joined, scores kept. Runs are made by `evals.running.runner`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from core.errors import InputError, UnknownName
from core.resources import Resources
from core.retriever import RequestContext
from core.store import collections
from core.store.collections import View
from core.store.engine import Store
from core.store.progress import Listener, nobody
from core.variant import Variant
from evals import labelling, query_sets
from evals.board import DEFAULT_RULES, METRICS, Board
from evals.chunk_labels import chunk_labels
from evals.exchange import Foreign, read_run, with_unknown
from evals.metric_names import Metric
from evals.metrics import relevant_queries
from evals.query_sets import DEFAULT, Labelled
from evals.running import candidates, run_store, runner
from evals.running.contents import content_of
from evals.running.runner import Options
from evals.runs import Run, Subject
from evals.splits import ALL, Split
from evals.statistics.verdicts import Rules

DEPTH = 100  # of a deep run at least
LONGEST_NAME = 180  # of a variant, for a deep run to be told by its name


@dataclass(frozen=True, slots=True)
class Opened:
    """A collection with one of its query sets, ready to be asked."""

    context: RequestContext
    labelled: Labelled
    query_set: str = DEFAULT

    @property
    def store(self) -> Store:
        return self.context.store

    @property
    def view(self) -> View:
        return self.context.view

    def until(self, token: asyncio.Event) -> Opened:
        """The same, stopped by that token."""
        return replace(self, context=replace(self.context, cancellation=token))

    def split(self, name: str) -> Split:
        """The queries of that split; refused where none can be scored."""
        split = self.any_split(name)
        if not relevant_queries(split.grades) and not split.spans:
            raise InputError(
                f"No query of {self.view.name!r}, split {name!r}, has a relevant document or an answer span, so "
                "nothing can be scored. Judge what runs find (`rankbook judge`), or compare runs without labels "
                "(`rankbook compare A B --overlap`)."
            )
        return split

    def any_split(self, name: str) -> Split:
        """The same, labelled or not."""
        split = Split.of(self.labelled, name)
        if not split.queries:
            raise InputError(
                f"The query set {self.query_set!r} of {self.view.name!r} has no query. Add some with "
                f"`rankbook queries add {self.view.name}`, or make some with `rankbook queries generate`."
            )
        return split

    async def subject(self, split: Split) -> Subject:
        """What a run over it now would be over."""
        content = await content_of(self.store, self.view)
        return Subject(self.view.name, self.view.row.version, self.query_set, split.digest, split.name, content)


async def opened(
    store: Store,
    collection: str,
    query_set: str = DEFAULT,
    *,
    resources: Resources | None = None,
    cancellation: asyncio.Event | None = None,
) -> Opened:
    """The collection and its queries, or a sentence that says how to come by them."""
    view = await _view(store, collection)
    labelled = await query_sets.load(store, view.name, name=query_set)
    return Opened(RequestContext(store, view, resources or Resources(), cancellation), labelled, query_set)


async def _view(store: Store, name: str) -> View:
    found = await collections.find(store, name)
    if found is None:
        known = [row.name for row in await collections.listed(store)]
        raise UnknownName("collection", name, known, way_out=await asyncio.to_thread(_way_out, name))
    return found


def _way_out(name: str) -> str:
    from evals.sources import bundled_names, catalog

    if name in bundled_names() or name in {entry.name for entry in catalog()}:
        return f"Load it with `rankbook data add {name}`."
    return "Add one with `rankbook data add`."


@dataclass(frozen=True, slots=True)
class Wanted:
    """How variants are run and scored: as they ship, or asked as deep as the deepest metric looks.

    `also` are metrics that are scored and that the table does not show; `cells` the ids of variants of a suite's grid.
    `rename` is the runner's.
    """

    metrics: tuple[str, ...] = METRICS
    baseline: str | None = None
    as_shipped: bool = True
    again: bool = False
    time_live: int = 0
    rules: Rules = DEFAULT_RULES
    also: tuple[str, ...] = ()
    cells: frozenset[str] = frozenset()
    rename: bool = True

    @property
    def depth(self) -> int:
        """How deep a deep run is: to the deepest cut-off, and never less than is usual, as a metric's value must not
        hang on what else was asked for. So a kept run serves whatever metrics are wanted next.
        """
        return max(DEPTH, *(Metric.parse(each).cutoff or 0 for each in (*self.metrics, *self.also)))

    @property
    def options(self) -> Options:
        return Options(0 if self.as_shipped else self.depth, self.again, self.time_live, rename=self.rename)

    @property
    def deep(self) -> Wanted:
        """The same for deep runs, which nobody ships, times or has named."""
        return replace(self, as_shipped=False, time_live=0, rename=False)

    def beyond(self, variant: Variant) -> bool:
        """Whether a metric counts more than the variant ships, so that it takes a deep run of its own."""
        return self.as_shipped and any(
            (Metric.parse(each).cutoff or 0) > variant.top_k for each in (*self.metrics, *self.also)
        )


async def made(
    ground: Opened, variants: Sequence[Variant], split: Split, wanted: Wanted, progress: Listener = nobody
) -> list[Run]:
    """One run a variant, made or kept from before."""
    runs = await runner.run(
        ground.context, variants, split, query_set=ground.query_set, options=wanted.options, progress=progress
    )
    await candidates.enter(ground.store, runs, wanted.cells)
    return runs


async def made_deep(
    ground: Opened, runs: Sequence[Run], split: Split, wanted: Wanted, progress: Listener = nobody
) -> dict[str, Run]:
    """Deep runs for the metrics that look beyond what these ship, by the ids of these."""
    here = [run for run in runs if run.subject == runs[0].subject and not run.depth]
    short = {run.id: run.variant for run in here if run.variant and wanted.beyond(run.variant)}
    if not short:
        return {}
    named = [each.but(name=f"{each.name[:LONGEST_NAME]}, {wanted.depth} deep") for each in short.values()]
    return dict(zip(short, await made(ground, named, split, wanted.deep, progress), strict=True))


async def scored(
    ground: Opened,
    split: Split,
    runs: Sequence[Run],
    wanted: Wanted,
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


async def evaluated(
    ground: Opened,
    variants: Sequence[Variant],
    split: Split,
    wanted: Wanted,
    *,
    files: Sequence[Path] = (),
    progress: Listener = nobody,
) -> tuple[Board, list[Foreign]]:
    """Variants, and runs of other engines from files, in one table. The baseline may be any kept run over the same."""
    foreign = await foreign_runs(ground, split, files)
    here = [*(each.name for each in variants), *(each.run.name for each in foreign)]
    await refuse_unknown_baseline(ground, split, wanted.baseline, here)
    runs = await made(ground, variants, split, wanted, progress) if variants else []
    runs += [each.run for each in foreign]
    runs, baseline = await with_baseline(ground.store, runs, wanted.baseline)
    deep = await made_deep(ground, runs, split, wanted, progress)
    return await scored(ground, split, runs, wanted, baseline, deep), foreign


async def foreign_runs(ground: Opened, split: Split, files: Sequence[Path]) -> list[Foreign]:
    """Runs out of files, kept like any other."""
    if not files:
        return []
    subject, found = await ground.subject(split), []
    for path in files:
        read = await check_documents(ground, await asyncio.to_thread(read_run, path, subject, split))
        found.append(replace(read, run=await run_store.save(ground.store, read.run)))
    return found


async def check_documents(ground: Opened, read: Foreign) -> Foreign:
    """The run, with what to say of documents that the collection has not got."""
    named = sorted({item for ranked in read.run.rankings.values() for item in ranked.item_ids})
    return with_unknown(read, await labelling.absent(ground.store, ground.view, named))


async def refuse_unknown_baseline(ground: Opened, split: Split, name: str | None, here: Sequence[str]) -> None:
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


def every(labelled: Labelled) -> str:
    """The split to take where none is named: test, or what there is."""
    splits = list(labelled.splits)
    return "test" if "test" in splits else splits[0] if len(splits) == 1 else ALL


def tuning_split(labelled: Labelled) -> str:
    """Where weights are looked for: train, where there is any of it; a fold needs two queries at least."""
    return "train" if labelled.splits.get("train", 0) > 1 else every(labelled)
