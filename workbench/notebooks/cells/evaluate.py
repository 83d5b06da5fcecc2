"""The evaluate cell: variants over labelled queries, scored side by side, as `rankbook eval` does it."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic import Field, field_validator

from core.errors import UnknownName
from core.store.engine import Store
from evals.evaluation.board import METRICS, Board, board_table
from evals.evaluation.context import EvalContext, EvalOptions
from evals.evaluation.cost_notice import searched
from evals.evaluation.evaluate import evaluate
from evals.presentation import charts
from evals.presentation.leaderboard import leaderboard
from evals.presentation.types import Block, Output, Text
from evals.runs import run_store
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

    def queries(self, context: CellContext, ground: EvalContext) -> list[str]:
        return searched(context.split(self, ground), self.time_live)

    async def run(self, context: CellContext) -> Output:
        return shown(await self.board(context), by_kind=self.by_kind)

    async def board(self, context: CellContext) -> Board:
        """The table itself, for whoever draws it another way."""
        ground = await context.ground(self)
        wanted = EvalOptions(
            self.metrics,
            self.baseline,
            as_shipped=self.as_shipped,
            time_live=self.time_live,
            rules=context.rules(self),
        )
        board, _ = await evaluate(
            ground,
            context.variants(self.variants, ground),
            context.split(self, ground),
            wanted,
            files=[context.file(each) for each in self.runs],
            progress=context.listener,
        )
        return board

    async def resolved(self, context: CellContext) -> dict[str, Any]:
        ground = await context.ground(self)
        here = [each.name for each in context.variants(self.variants, ground)]
        kept = [self.baseline] if self.baseline is not None and self.baseline not in here else []
        told = await outside(context, [*self.runs, *kept], ground.view.name, context.split_name(self, ground))
        return {**await super().resolved(context), **told}

    def python(self, told: PythonExport) -> str:
        lab = told.lab(self)
        made = [f"{lab}.add_run({each!r}, {str(told.folder / each)!r})" for each in self.runs]
        entries = [*map(told.reference, self.variants), *made]
        return call(
            f"{lab}.evaluate",
            f"[{', '.join(entries)}]",
            metrics=repr(list(self.metrics)),
            split=literal(told.split(self)),
            baseline=literal(self.baseline),
            as_shipped=None if self.as_shipped else "False",
            time_live=repr(self.time_live) if self.time_live else None,
            rules=told.rules(self),
        )


async def outside(context: CellContext, names: list[str], collection: str, split: str) -> dict[str, Any]:
    """What files and kept runs stand for right now: another file or pin of that name is another input."""
    import asyncio

    found: dict[str, Any] = {}
    for name in names:
        path = context.file(name)
        if await asyncio.to_thread(path.is_file):
            found[f"file {name}"] = await asyncio.to_thread(_digest, path)
            continue
        found[f"run {name}"] = await _kept(context.store, name, collection, split)
    return found


def _digest(path: Path) -> str:
    """Read piece by piece: whoever wrote the notebook may name a file that has no room in memory."""
    import hashlib

    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


async def _kept(store: Store, name: str, collection: str, split: str) -> str | None:
    """The run's id, of several of that name the one over the same; None where there is none: running it tells."""
    for over in ({"collection": collection, "split": split}, {}):
        with suppress(UnknownName):
            return (await run_store.find(store, name, **over)).id
    return None


def shown(board: Board, *, by_kind: bool = True) -> Output:
    """A board as a cell shows it."""
    scores = leaderboard(board, query_scores=True)
    first = scores.metrics[0]
    blocks: list[Block] = [Text(text=scores.headline, tone="headline"), board_table(board)]
    if len(scores.rows) > 1:
        blocks.append(charts.intervals(scores, first, f"{first.name} with intervals"))
    groups = charts.groups(scores, first, f"{first.name} by kind of query") if by_kind else None
    if groups is not None:
        blocks.append(groups)
    return Output(blocks=tuple(blocks), values=scores.cell_values(by_kind=by_kind))
