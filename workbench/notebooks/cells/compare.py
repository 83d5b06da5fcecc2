"""The compare cell: two variants or runs, which is better, on which queries, as `rankbook compare` does it."""

from __future__ import annotations

import asyncio
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pydantic import Field, field_validator

from core.errors import UnknownName
from core.variant import Variant
from evals.evaluation.board import Board
from evals.evaluation.compare_runs import compared
from evals.evaluation.context import EvalContext
from evals.evaluation.evaluate import evaluate, foreign_runs
from evals.lab.results import Compared
from evals.measures import DEFAULT_METRIC, Metric
from evals.reports.model import line
from evals.runs.plan import EvalOptions
from evals.runs.run_store import resolve_run
from evals.runs.types import Run
from evals.statistics.comparison import PairComparison, QueryDifference
from evals.types import QuerySplit
from evals.variants import run_file
from workbench.notebooks.cells import compare_charts, moving
from workbench.notebooks.cells.base import (
    CellContext,
    CellSpec,
    PythonExport,
    Reference,
    call,
    kinds,
    known_metric,
    literal,
)
from workbench.notebooks.cells.evaluate import LONGEST_QUERY, outside
from workbench.notebooks.output import Block, Output, Said, Table
from workbench.notebooks.shared import Shared


@kinds.register("compare")
class CompareCell(CellSpec):
    """Whether one variant or run is better than another, by how much, and which queries decide it."""

    example = 'one = "hybrid-retriever"\nother = "bm25"\n'

    one: Reference = Field(description="A variant; or a kept run, by name, pin or id; or a file of another engine's.")
    other: Reference = Field(description="What it is held against.")
    metric: str = Field(DEFAULT_METRIC, description="By what.")
    by: str = Field("kind", pattern="^(kind|tag)$", description="How the difference is broken down: by kind, or tag.")

    _metric = field_validator("metric")(known_metric)

    def check(self, shared: Shared, folder: Path) -> None:
        """Names may be those of kept runs, which only the database knows."""

    async def run(self, context: CellContext) -> Output:
        board, made = await self.compared(context)
        metric = board.metrics[0]
        found = await moving.rank_changes(await context.ground(self), board, made)
        counts = f"{made.system} won {made.wins} queries, lost {made.losses}, and {made.ties} were equal."
        stood = moving.table(made, found)
        blocks: list[Block] = [
            Said(text=f"{metric}: {made.finding.sentence}", tone="headline"),
            Said(text=counts),
            compare_charts.differences(board, made, metric),
            compare_charts.scatter(board, made, metric),
            *map(Table.of, Compared(board, made, metric).tables()[1:]),
            *([stood] if stood else []),
        ]
        blocks += [Said(text=warned.message, tone="note") for warned in board.warnings]
        values = {**plain(board, made, found), "searchable": await self._searchable(context, board)}
        return Output(blocks=tuple(blocks), values=values)

    async def compared(self, context: CellContext) -> tuple[Board, PairComparison]:
        """The numbers themselves, for whoever draws them another way."""
        ground = await context.ground(self)
        split = context.split(self, ground)
        entries = [await self._entry(context, ground, split, each) for each in (self.other, self.one)]
        wanted = EvalOptions((self.metric,), rules=context.rules(self))
        board = (await evaluate(ground, entries, split, wanted, progress=context.listener)).board
        return board, await asyncio.to_thread(compared, board, board.metrics[0], self.by)

    async def _searchable(self, context: CellContext, board: Board) -> list[Reference]:
        """What of the two can be searched with: a run of another engine cannot."""
        ground, found = await context.ground(self), []
        for name, reference in zip(board.names, (self.other, self.one), strict=True):
            variant = board.run(name).variant
            if _meant(context, ground, reference) is not None:
                found.append(reference)
            elif variant is not None:
                found.append(tomllib.loads(variant.to_toml()))
        return found

    async def _entry(
        self, context: CellContext, ground: EvalContext, split: QuerySplit, reference: Reference
    ) -> Variant | Run:
        """Names of variants come before files, and those before kept runs."""
        path = _run_file(reference, context.shared, context.folder)
        if path is not None:
            return (await foreign_runs(ground, split, [path]))[0].run
        try:
            return context.variant(reference, ground)
        except UnknownName as error:
            if not isinstance(reference, str):
                raise
            try:
                return await resolve_run(context.store, reference, collection=ground.view.name, split=split.name)
            except UnknownName as unknown:
                known = [*error.known, *unknown.known]
                raise UnknownName("variant, preset, leg, kept run or file", reference, known) from None

    async def searches(self, context: CellContext) -> list[Variant]:
        """None of what may be a kept run, which asks nobody."""
        ground = await context.ground(self)
        meant = (_meant(context, ground, each) for each in (self.one, self.other))
        return [each for each in meant if each is not None]

    async def resolved(self, context: CellContext) -> dict[str, Any]:
        ground = await context.ground(self)
        told: dict[str, Any] = {}
        for name, reference in (("one", self.one), ("other", self.other)):
            variant = _meant(context, ground, reference)
            if variant is not None:
                told[f"{name} meant"] = variant.id
            else:  # a kept run or a file, or nothing: running it tells
                told |= await outside(context, [str(reference)], ground.view.name, context.split_name(self, ground))
        return {**await super().resolved(context), **told}

    def python(self, told: PythonExport) -> str:
        one, other = (self._told(told, each) for each in (self.one, self.other))
        return call(f"{told.lab(self)}.compare", one, other, repr(self.metric), split=literal(told.split(self)))

    def _told(self, told: PythonExport, reference: Reference) -> str:
        lab, path = told.lab(self), _run_file(reference, told.shared, told.folder)
        if path is not None:
            return f"{lab}.add_run({str(reference)!r}, {str(path)!r})"
        try:
            return told.reference(reference)
        except UnknownName:
            return f"{lab}.run({str(reference)!r})"


def _run_file(reference: Reference, shared: Shared, folder: Path) -> Path | None:
    return run_file(reference, known=[each["name"] for each in shared.variants], folder=folder)


def _meant(context: CellContext, ground: EvalContext, reference: Reference) -> Variant | None:
    """The variant, where it is one and no run."""
    if _run_file(reference, context.shared, context.folder) is not None:
        return None
    try:
        return context.variant(reference, ground)
    except UnknownName:
        return None


# -- for whoever draws or computes further -----------------------------------------------------------------------------


def plain(board: Board, made: PairComparison, found: Mapping[str, Sequence[moving.HistoryStep]]) -> dict[str, Any]:
    """The verdict in numbers, both scores of every query by falling difference, and how documents moved."""
    metric = board.metrics[0]
    difference = made.finding.difference
    return {
        "verdict": str(made.finding.verdict),
        "difference": difference.mean,
        "by query": {each.query: each.difference for each in made.queries},
        "metric": metric,
        "formula": Metric.parse(metric).explanation,
        "system": made.system,
        "baseline": made.baseline,
        "finding": asdict(difference),
        "sentence": made.finding.sentence,
        "level": board.rules.level,
        "queries": [_query(board, made, metric, each) for each in made.queries],
        "groups": [
            {
                "by": each.by,
                "name": each.group,
                "verdict": str(each.finding.verdict),
                "sentence": each.finding.sentence,
                "finding": asdict(each.finding.difference),
            }
            for each in made.groups
        ],
        "deciding": [each.query for each in made.deciding],
        "moved": {query: [asdict(each) for each in rows] for query, rows in found.items()},
        "notes": [warned.message for warned in board.warnings],
    }


def _query(board: Board, made: PairComparison, metric: str, each: QueryDifference) -> dict[str, Any]:
    asked = board.split.queries[each.query]
    return {
        "id": each.query,
        "text": line(asked.text, LONGEST_QUERY),
        "kind": asked.kind,
        "tags": list(asked.tags),
        "one": board.of(made.system, metric)[each.query],
        "other": board.of(made.baseline, metric)[each.query],
        "difference": each.difference,
        "influence": each.influence,
    }
