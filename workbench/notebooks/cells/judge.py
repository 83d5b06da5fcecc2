"""The judge cell: of a pool what is judged, what is next, how judges agree, as `rankbook judge queue` has the pool.

It shows how far judging is; the judging itself is done on a page, to which its view leads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from pydantic import Field, model_validator

from core.errors import SpecError
from evals.evaluation.context import EvalContext
from evals.evaluation.cost_notice import searched
from evals.judging.judgements import change_mark
from evals.judging.queue import QueueSpec, build_queue
from evals.measures import DEFAULT_METRIC
from evals.presentation.types import Block, Output, Text
from evals.runs.types import Run
from evals.types import QuerySplit
from evals.variants import every_name, resolve_variant
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
from workbench.services import judging as judging_shown
from workbench.services.pool_request import JudgeState, join_entries, seed_of

NEXT = 5  # pairs that are shown


@dataclass(frozen=True, slots=True)
class RunPool:
    """Runs over a split whose results are judged, and in which order."""

    opened: EvalContext
    split: QuerySplit
    runs: tuple[Run, ...]
    spec: QueueSpec


@kinds.register("judge")
class JudgeCell(CellSpec):
    """What is judged of a pool, what to judge next, and how judges agree. The page it opens is where one judges."""

    icon = ":material/gavel:"
    place = 60
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
        state = await judging_shown.pool_status(
            pool.opened, pool.runs, pool.split, pool.spec, rules=context.rules(self)
        )
        pending = await build_queue(context.store, pool.opened.view, pool.runs, pool.spec, self.judge or "")
        values = {
            **judging_shown.status_values(state),
            "sitting": self.page(pool).parameters(),
            "left": len(pending.tasks),
        }
        blocks: list[Block] = [
            Text(text=state.figures.headline, tone="headline"),
            judging_shown.scores_table(state.figures),
            *([judging_shown.next_table(pending.tasks[:NEXT])] if pending.tasks else []),
            *judging_shown.agreement_blocks(state.agreed),
        ]
        if pending.gone:
            sentence = f"{pending.gone} documents of the pool are no longer in the collection."
            blocks.append(Text(text=sentence, tone="note"))
        return Output(blocks=tuple(blocks), values=values)

    async def pool(self, context: CellContext) -> RunPool:
        """The runs, made or taken from before, and what of them is to be judged."""
        opened = await context.open(self)
        split = self._split(context, opened)
        entries = context.variants(self.references, opened)
        runs = await judging_shown.runs_of(opened, entries, split, context.listener)
        order = "settle" if self.between else "depth"
        options = {"order": order, "metric": self.metric, "depth": self.depth, "again": self.again}
        spec = QueueSpec.model_validate({**options, "seed": self._order(context.seed(self))})
        return RunPool(opened, split, tuple(runs), spec)

    def _split(self, context: CellContext, opened: EvalContext) -> QuerySplit:
        """Labelled or not: labels are what judging is to bring."""
        return opened.any_split(context.split_name(self, opened))

    def queries(self, context: CellContext, opened: EvalContext) -> list[str]:
        return searched(self._split(context, opened))

    def _order(self, seed: int) -> int:
        """The seed of the order: a judge who is named finds the same order on the page."""
        return seed_of(self.judge) if self.judge else seed

    def page(self, pool: RunPool) -> JudgeState:
        """The address of the judging page for exactly these runs."""
        return JudgeState(
            collection=pool.opened.view.name,
            query_set=pool.opened.query_set,
            split=pool.split.name,
            judge=self.judge or "",
            what="settle" if self.between else "",
            variants=join_entries(_run_in_address(run, pool.opened) for run in pool.runs),
            depth=str(self.depth),
            metric=self.metric,
            again="1" if self.again else "",
            begun="1" if self.judge else "",
        )

    async def resolved(self, context: CellContext) -> dict[str, Any]:
        opened = await context.open(self)
        mark = await change_mark(context.store, opened.view.name)  # another one after every judgement
        return {**await super().resolved(context), "judgements": mark}

    def python(self, export: PythonExport) -> str:
        lab = export.lab(self)
        board = call(f"{lab}.evaluate", export.several(self.references), split=literal(export.split(self)))
        options: dict[str, str | None] = {
            "judge": literal(self.judge),
            "order": repr("settle" if self.between else "depth"),
            "metric": repr(self.metric) if self.between else None,
            "depth": repr(self.depth),
            "again": "True" if self.again else None,
            "seed": repr(order) if (order := self._order(export.seed(self))) else None,
        }
        return call(f"{lab}.pool", board, **options)


def _run_in_address(run: Run, opened: EvalContext) -> str:
    """The run's id; for a reader, whose runs are not kept, the name of its variant where it has a known one."""
    if opened.store.keeps or run.variant is None or run.name not in every_name():
        return run.id
    return run.name if resolve_variant(run.name, chunks=opened.view.default_chunk_set).id == run.variant.id else run.id
