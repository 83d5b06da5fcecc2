"""The compare cell: two variants or runs, which is better, on which queries, as `rankbook compare` does it."""

from __future__ import annotations

import asyncio
import tomllib
from pathlib import Path
from typing import Any

from pydantic import Field, field_validator

from core.errors import UnknownName
from core.variant import Variant
from evals.evaluation.board import Board
from evals.evaluation.compare_runs import compared
from evals.evaluation.context import EvalContext
from evals.evaluation.evaluate import evaluate, foreign_runs
from evals.measures import DEFAULT_METRIC
from evals.presentation import charts
from evals.presentation.comparison import comparison, rank_changes
from evals.presentation.types import Block, Output, Text
from evals.runs.plan import EvalOptions
from evals.runs.run_store import resolve_run
from evals.runs.types import Run
from evals.statistics.comparison import PairComparison
from evals.types import QuerySplit
from evals.variants import run_file
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
from workbench.notebooks.cells.evaluate import resolve_runs
from workbench.notebooks.shared import SharedOptions
from workbench.services import weight_payload


@kinds.register("compare")
class CompareCell(CellSpec):
    """Whether one variant or run is better than another, by how much, and which queries decide it."""

    icon = ":material/compare_arrows:"
    place = 30
    example = 'one = "hybrid-retriever"\nother = "bm25"\n'

    one: Reference = Field(description="A variant; or a kept run, by name, pin or id; or a file of another engine's.")
    other: Reference = Field(description="What it is held against.")
    metric: str = Field(DEFAULT_METRIC, description="By what.")
    by: str = Field("kind", pattern="^(kind|tag)$", description="How the difference is broken down: by kind, or tag.")

    _metric = field_validator("metric")(known_metric)

    def check(self, shared: SharedOptions, folder: Path) -> None:
        """Names may be those of kept runs, which only the database knows."""

    async def run(self, context: CellContext) -> Output:
        board, pair = await self.compared(context)
        opened, metric = await context.open(self), board.metrics[0]
        changes = rank_changes(board, pair, metric)
        items = list(dict.fromkeys(each.item for rows in changes.values() for each in rows))
        titles = dict(zip(items, await weight_payload.titles(opened, items), strict=True))
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
            *(Text(text=warning.message, tone="note") for warning in board.warnings),
        ]
        values = {**shown.cell_values(), "searchable": await self._searchable(context, board)}
        return Output(blocks=tuple(blocks), values=values)

    async def compared(self, context: CellContext) -> tuple[Board, PairComparison]:
        """The scores themselves, for a page that draws them another way."""
        opened = await context.open(self)
        split = context.split(self, opened)
        entries = [await self._entry(context, opened, split, each) for each in (self.other, self.one)]
        options = EvalOptions((self.metric,), rules=context.rules(self))
        board = (await evaluate(opened, entries, split, options, progress=context.listener)).board
        return board, await asyncio.to_thread(compared, board, board.metrics[0], self.by)

    async def _searchable(self, context: CellContext, board: Board) -> list[Reference]:
        """Those of the two that can be searched with: a run of another engine cannot."""
        opened, searchable = await context.open(self), []
        for name, reference in zip(board.names, (self.other, self.one), strict=True):
            variant = board.run(name).variant
            if _variant(context, opened, reference) is not None:
                searchable.append(reference)
            elif variant is not None:
                searchable.append(tomllib.loads(variant.to_toml()))
        return searchable

    async def _entry(
        self, context: CellContext, opened: EvalContext, split: QuerySplit, reference: Reference
    ) -> Variant | Run:
        """Names of variants come before files, and those before kept runs."""
        path = _run_file(reference, context.shared, context.folder)
        if path is not None:
            return (await foreign_runs(opened, split, [path]))[0].run
        try:
            return context.variant(reference, opened)
        except UnknownName as error:
            if not isinstance(reference, str):
                raise
            known = error.known
        try:
            return await resolve_run(context.store, reference, collection=opened.view.name, split=split.name)
        except UnknownName as error:
            known = [*known, *error.known]
            raise UnknownName("variant, preset, leg, kept run or file", reference, known) from None

    async def searches(self, context: CellContext) -> list[Variant]:
        """The variants. A kept run asks nobody."""
        opened = await context.open(self)
        variants = (_variant(context, opened, each) for each in (self.one, self.other))
        return [each for each in variants if each is not None]

    async def resolved(self, context: CellContext) -> dict[str, Any]:
        opened = await context.open(self)
        resolved: dict[str, Any] = {}
        for name, reference in (("one", self.one), ("other", self.other)):
            variant = _variant(context, opened, reference)
            if variant is not None:
                resolved[f"{name} meant"] = variant.id
            else:
                split = context.split_name(self, opened)
                resolved |= await resolve_runs(context, [str(reference)], opened.view.name, split)
        return {**await super().resolved(context), **resolved}

    def python(self, export: PythonExport) -> str:
        lab = export.lab(self)

        def entry(reference: Reference) -> str:
            path = _run_file(reference, export.shared, export.folder)
            if path is not None:
                return f"{lab}.add_run({str(reference)!r}, {str(path)!r})"
            try:
                return export.reference(reference)
            except UnknownName:
                return f"{lab}.run({str(reference)!r})"

        split = literal(export.split(self))
        return call(f"{lab}.compare", entry(self.one), entry(self.other), repr(self.metric), split=split)


def _run_file(reference: Reference, shared: SharedOptions, folder: Path) -> Path | None:
    return run_file(reference, known=[each["name"] for each in shared.variants], folder=folder)


def _variant(context: CellContext, opened: EvalContext, reference: Reference) -> Variant | None:
    """None where the reference is to a run."""
    if _run_file(reference, context.shared, context.folder) is not None:
        return None
    try:
        return context.variant(reference, opened)
    except UnknownName:
        return None
