"""The compare cell: two variants or runs, which is better, on which queries, as `rankbook compare` does it."""

from __future__ import annotations

import asyncio
import tomllib
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic import Field, field_validator

from core.errors import UnknownName
from core.variant import Variant
from evals.evaluation.board import Board
from evals.evaluation.compare_runs import compared
from evals.evaluation.context import EvalContext, EvalOptions
from evals.evaluation.evaluate import evaluate_entries, foreign_runs
from evals.measures import DEFAULT_METRIC
from evals.presentation import charts
from evals.presentation.comparison import comparison, rank_changes
from evals.presentation.types import Block, Output, Text
from evals.runs import run_store
from evals.runs.types import Run
from evals.statistics.comparison import PairComparison
from evals.types import QuerySplit
from evals.variants import every_name
from workbench.behind.weights import weighing
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
from workbench.notebooks.cells.evaluate import outside
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
        board, pair = await self.compared(context)
        ground, metric = await context.ground(self), board.metrics[0]
        changes = rank_changes(board, pair, metric)
        items = list(dict.fromkeys(each.item for rows in changes.values() for each in rows))
        titles = dict(zip(items, await weighing.titles(ground, items), strict=True))
        titled = {
            query: [each.model_copy(update={"title": titles[each.item]}) for each in rows]
            for query, rows in changes.items()
        }
        shown = comparison(board, pair, metric, titled)
        tables = (shown.deciding_table(), shown.kinds_table(), shown.rank_table())
        blocks: list[Block] = [
            Text(text=shown.headline, tone="headline"),
            Text(text=shown.counts),
            charts.query_differences(shown),
            charts.query_scores(shown),
            *(table for table in tables if table is not None),
            *(Text(text=warned.message, tone="note") for warned in board.warnings),
        ]
        values = {**shown.cell_values(), "searchable": await self._searchable(context, board)}
        return Output(blocks=tuple(blocks), values=values)

    async def compared(self, context: CellContext) -> tuple[Board, PairComparison]:
        """The numbers themselves, for whoever draws them another way."""
        ground = await context.ground(self)
        split = context.split(self, ground)
        entries = [await self._entry(context, ground, split, each) for each in (self.other, self.one)]
        wanted = EvalOptions((self.metric,), rules=context.rules(self))
        board = await evaluate_entries(ground, entries, split, wanted, context.listener)
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
        path = run_file(reference, context.shared, context.folder)
        if path is not None:
            return (await foreign_runs(ground, split, [path]))[0].run
        try:
            return context.variant(reference, ground)
        except UnknownName as error:
            if not isinstance(reference, str):
                raise
            return await _kept(context, ground, split, reference, error)

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
        lab, path = told.lab(self), run_file(reference, told.shared, told.folder)
        if path is not None:
            return f"{lab}.add_run({str(reference)!r}, {str(path)!r})"
        try:
            return told.reference(reference)
        except UnknownName:
            return f"{lab}.run({str(reference)!r})"


def run_file(reference: Reference, shared: Shared, folder: Path) -> Path | None:
    """The file of another engine's run that is meant, as `rankbook eval` tells it from a variant's."""
    if not isinstance(reference, str) or reference in (*every_name(), *(each["name"] for each in shared.variants)):
        return None
    path = folder / Path(reference).expanduser()
    return path if path.suffix != ".toml" and path.is_file() else None


def _meant(context: CellContext, ground: EvalContext, reference: Reference) -> Variant | None:
    """The variant, where it is one and no run."""
    if run_file(reference, context.shared, context.folder) is not None:
        return None
    try:
        return context.variant(reference, ground)
    except UnknownName:
        return None


async def _kept(context: CellContext, ground: EvalContext, split: QuerySplit, name: str, error: UnknownName) -> Run:
    """Of several runs of that name the one over the same queries."""
    with suppress(UnknownName):
        return await run_store.load(context.store, name, collection=ground.view.name, split=split.name)
    try:
        return await run_store.load(context.store, name, collection=ground.view.name)
    except UnknownName as unknown:
        known = [*error.known, *unknown.known]
        raise UnknownName("variant, preset, leg, kept run or file", name, known) from None
