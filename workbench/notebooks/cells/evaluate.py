"""The evaluate cell: variants over labelled queries, scored side by side, as `rankbook eval` does it."""

from __future__ import annotations

import asyncio
import hashlib
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic import Field, field_validator

from core.errors import UnknownName
from evals.evaluation.board import Board, board_table
from evals.evaluation.context import EvalContext
from evals.evaluation.cost_notice import searched
from evals.evaluation.evaluate import evaluate
from evals.measures import METRICS
from evals.presentation import charts
from evals.presentation.leaderboard import leaderboard
from evals.presentation.types import Block, Output, Text
from evals.runs import run_store
from evals.runs.plan import EvalOptions
from workbench.notebooks.cells.base import (
    CellContext,
    CellSpec,
    PythonExport,
    Reference,
    call,
    kinds,
    known_metrics,
    literal,
)


@kinds.register("evaluate")
class EvaluateCell(CellSpec):
    """Variants scored over labelled queries: means with intervals, verdicts against a baseline, kinds of query."""

    icon = ":material/leaderboard:"
    place = 20
    example = 'variants = ["bm25", "vector", "hybrid-retriever"]\nmetrics = ["ndcg@10"]\n'

    variants: tuple[Reference, ...] = Field(
        ("bm25", "vector"), min_length=1, description="What is scored: names, files, or tables."
    )
    metrics: tuple[str, ...] = Field(METRICS, min_length=1, description="The first is the one that decides.")
    baseline: str | None = Field(
        None, description="What the others are compared with: one of them, or a kept run; else the first."
    )
    runs: tuple[str, ...] = Field((), description="Files with runs of other engines, that join as equals.")
    as_shipped: bool = Field(True, description="Score what ships; false asks for as much as metrics count.")
    time_live: int = Field(0, ge=0, description="How many queries are timed, each asked alone.")
    by_kind: bool = Field(True, description="Whether the scores by kind of query are shown too.")

    _metrics = field_validator("metrics")(known_metrics)

    @property
    def references(self) -> tuple[Reference, ...]:
        return self.variants

    def queries(self, context: CellContext, opened: EvalContext) -> list[str]:
        return searched(context.split(self, opened), self.time_live)

    async def run(self, context: CellContext) -> Output:
        return board_output(await self.board(context), by_kind=self.by_kind)

    async def board(self, context: CellContext) -> Board:
        """The scores themselves, for a page that draws them another way."""
        opened = await context.open(self)
        options = EvalOptions(
            self.metrics,
            self.baseline,
            as_shipped=self.as_shipped,
            time_live=self.time_live,
            rules=context.rules(self),
        )
        result = await evaluate(
            opened,
            context.variants(self.variants, opened),
            context.split(self, opened),
            options,
            files=[context.file(each) for each in self.runs],
            progress=context.listener,
        )
        return result.board

    async def resolved(self, context: CellContext) -> dict[str, Any]:
        opened = await context.open(self)
        here = [each.name for each in context.variants(self.variants, opened)]
        kept = [self.baseline] if self.baseline is not None and self.baseline not in here else []
        split = context.split_name(self, opened)
        runs = await resolve_runs(context, [*self.runs, *kept], opened.view.name, split)
        return {**await super().resolved(context), **runs}

    def python(self, export: PythonExport) -> str:
        lab = export.lab(self)
        runs = [f"{lab}.add_run({each!r}, {str(export.folder / each)!r})" for each in self.runs]
        return call(
            f"{lab}.evaluate",
            f"[{', '.join([*map(export.reference, self.variants), *runs])}]",
            metrics=repr(list(self.metrics)),
            split=literal(export.split(self)),
            baseline=literal(self.baseline),
            as_shipped=None if self.as_shipped else "False",
            time_live=repr(self.time_live) if self.time_live else None,
            rules=export.rules(self),
        )


async def resolve_runs(context: CellContext, names: list[str], collection: str, split: str) -> dict[str, str | None]:
    """What files and kept runs stand for right now: a file's digest, a run's id, None where there is none.

    Of several runs of a name it is the one over the same split. What is missing, running the cell says.
    """

    def digest(path: Path) -> str | None:
        """Read piece by piece: a notebook may name a file that has no room in memory."""
        if not path.is_file():
            return None
        with path.open("rb") as file:
            return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()

    resolved: dict[str, str | None] = {}
    for name in names:
        if (content := await asyncio.to_thread(digest, context.file(name))) is not None:
            resolved[f"file {name}"] = content
            continue
        resolved[f"run {name}"] = None
        for over in ({"collection": collection, "split": split}, {}):
            with suppress(UnknownName):
                resolved[f"run {name}"] = (await run_store.find(context.store, name, **over)).id
                break
    return resolved


def board_output(board: Board, *, by_kind: bool = True) -> Output:
    """A board as a cell shows it."""
    scores = leaderboard(board, query_scores=True)
    first = scores.metrics[0]
    blocks: list[Block] = [Text(text=scores.headline, tone="headline"), board_table(board)]
    if len(scores.rows) > 1:
        blocks.append(charts.intervals(scores, first, f"{first.name} with intervals"))
    if by_kind and (groups := charts.groups(scores, first, f"{first.name} by kind of query")) is not None:
        blocks.append(groups)
    return Output(blocks=tuple(blocks), values=scores.cell_values(by_kind=by_kind))
