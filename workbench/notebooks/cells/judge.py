"""The judge cell: of a pool what is judged, what is next, how judges agree, as `rankbook judge queue` has the pool.

Headless it tells how judging stands; the judging itself is done on a page, to which its view leads.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

from pydantic import Field, model_validator

from core.errors import SpecError
from evals.evaluation.context import EvalContext
from evals.evaluation.cost_notice import searched
from evals.judging.queue import Queue, QueueSpec, build_queue
from evals.measures import DEFAULT_METRIC
from evals.presentation.types import Block, Output, Text
from evals.runs.types import Run
from evals.types import QuerySplit
from evals.variants import every_name, resolve_variant
from workbench.behind.judging import shown as judging_shown
from workbench.behind.judging.asked import JudgeState, joined, order_of
from workbench.behind.judging.shown import State
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

NEXT = 5  # pairs that are shown


@dataclass(frozen=True, slots=True)
class Pool:
    """What is judged: runs over a split, and the queue of them."""

    ground: EvalContext
    split: QuerySplit
    runs: tuple[Run, ...]
    spec: QueueSpec


@kinds.register("judge")
class JudgeCell(CellSpec):
    """What is judged of a pool, what to judge next, and how judges agree. The page it opens is where one judges."""

    example = 'variants = ["bm25", "hybrid-retriever"]\ndepth = 10\n'

    variants: tuple[Reference, ...] = Field(
        (), description="Whose results are the pool: names, files, or tables; none with `between`."
    )
    between: tuple[Reference, Reference] | None = Field(
        None, description="Two variants: what would tell them apart soonest, instead of a pool by depth."
    )
    depth: int = Field(10, ge=1, le=1000, description="How deep the pool goes.")
    metric: str = Field(DEFAULT_METRIC, description="What is scored; and settled, with `between`.")
    judge: str | None = Field(None, min_length=1, max_length=200, description="Who judges; else the page asks.")
    again: bool = Field(False, description="Also what others have judged or labels say, so that agreement can be told.")

    @model_validator(mode="after")
    def _has_one_pool(self) -> Self:
        known_metric(self.metric)
        if bool(self.variants) == (self.between is not None):
            raise SpecError('Say whose results are judged: variants = ["bm25", "vector"], or between = ["A", "B"].')
        if self.again and self.judge is None:
            raise SpecError("`again` asks for what this judge has not judged yet: name the `judge`.")
        return self

    @property
    def references(self) -> tuple[Reference, ...]:
        return self.between or self.variants

    async def run(self, context: CellContext) -> Output:
        pool = await self.pool(context)
        found = await judging_shown.state(pool.ground, pool.runs, pool.split, pool.spec, rules=context.rules(self))
        left = await build_queue(context.store, pool.ground.view, pool.runs, pool.spec, self.judge or "")
        values = {**judging_shown.plain(found), "sitting": self.sitting(pool).parameters(), "left": len(left.tasks)}
        return Output(blocks=tuple(_blocks(found, left)), values=values)

    async def pool(self, context: CellContext) -> Pool:
        """The runs, made or taken from before, and what of them is to be judged."""
        ground = await context.ground(self)
        split = self._split(context, ground)
        entries = context.variants(self.references, ground)
        runs = await judging_shown.runs_of(ground, entries, split, context.listener)
        order = "settle" if self.between else "depth"
        given = {"order": order, "metric": self.metric, "depth": self.depth, "again": self.again}
        return Pool(
            ground, split, tuple(runs), QueueSpec.model_validate({**given, "seed": self._order(context.seed(self))})
        )

    def _split(self, context: CellContext, ground: EvalContext) -> QuerySplit:
        """Labelled or not: labels are what judging is to bring."""
        return ground.any_split(context.split_name(self, ground))

    def queries(self, context: CellContext, ground: EvalContext) -> list[str]:
        return searched(self._split(context, ground))

    def _order(self, seed: int) -> int:
        """A judge who is named finds the documents on the page in the order of the cell."""
        return order_of(self.judge) if self.judge else seed

    def sitting(self, pool: Pool) -> JudgeState:
        """The judging page on exactly these runs."""
        return JudgeState(
            collection=pool.ground.view.name,
            query_set=pool.ground.query_set,
            split=pool.split.name,
            judge=self.judge or "",
            what="settle" if self.between else "",
            variants=joined(_addressed(run, pool.ground) for run in pool.runs),
            depth=str(self.depth),
            metric=self.metric,
            again="1" if self.again else "",
            begun="1" if self.judge else "",
        )

    async def resolved(self, context: CellContext) -> dict[str, Any]:
        """Every judgement makes another output."""
        ground = await context.ground(self)
        given = await judging_shown.mark(context.store, ground.view.name)
        return {**await super().resolved(context), "judgements": given}

    def python(self, told: PythonExport) -> str:
        lab = told.lab(self)
        board = call(f"{lab}.evaluate", told.several(self.references), split=literal(told.split(self)))
        options: dict[str, str | None] = {
            "judge": literal(self.judge),
            "order": repr("settle" if self.between else "depth"),
            "metric": repr(self.metric) if self.between else None,
            "depth": repr(self.depth),
            "again": "True" if self.again else None,
            "seed": repr(order) if (order := self._order(told.seed(self))) else None,
        }
        return call(f"{lab}.pool", board, **options)


def _addressed(run: Run, ground: EvalContext) -> str:
    """By its id; where whoever is here keeps no runs, by the name that its variant is known by."""
    if ground.store.keeps or run.variant is None or run.name not in every_name():
        return run.id
    return run.name if resolve_variant(run.name, chunks=ground.view.default_chunk_set).id == run.variant.id else run.id


def _blocks(found: State, left: Queue) -> Iterator[Block]:
    yield Text(text=found.figures.headline, tone="headline")
    yield judging_shown.scores_table(found.figures)
    if left.tasks:
        yield judging_shown.next_table(left.tasks[:NEXT])
    yield from judging_shown.agreement_blocks(found.agreed)
    if left.gone:
        yield Text(text=f"{left.gone} documents of the pool are no longer in the collection.", tone="note")
