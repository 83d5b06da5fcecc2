"""The compare cell: two variants or runs, which is better, on which queries, as `rankbook compare` does it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from pydantic import Field, field_validator

from core.errors import UnknownName
from core.variant import Variant
from evals import lab_steps
from evals.board import Board
from evals.evaluation import Opened, Wanted, foreign_runs
from evals.lab_results import Compared
from evals.metrics import DEFAULT_METRIC
from evals.references import known_names
from evals.report.figures import axis_of, layout_of, safe
from evals.running import run_store
from evals.running.run_pairs import compared
from evals.runs import Run
from evals.splits import Split
from evals.statistics.comparison import Comparison
from workbench.book.cells.base import CellSpec, Told, call, kinds, known_metric, literal
from workbench.book.cells.evaluate import outside
from workbench.book.context import CellContext, Reference
from workbench.book.output import Block, Figure, Output, Said, Table
from workbench.book.shared import Shared


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
        difference = made.finding.difference
        counts = f"{made.system} won {made.wins} queries, lost {made.losses}, and {made.ties} were equal."
        blocks: list[Block] = [
            Said(text=f"{metric}: {made.finding.sentence}", tone="headline"),
            Said(text=counts),
            _differences(made, metric),
            _scatter(board, made, metric),
            *map(Table.of, Compared(board, made, metric).tables()[1:]),
        ]
        blocks += [Said(text=warned.message, tone="note") for warned in board.warnings]
        values = {
            "verdict": str(made.finding.verdict),
            "difference": difference.mean,
            "by query": {each.query: each.difference for each in made.queries},
        }
        return Output(blocks=tuple(blocks), values=values)

    async def compared(self, context: CellContext) -> tuple[Board, Comparison]:
        """The numbers themselves, for whoever draws them another way."""
        ground = await context.ground(self)
        split = context.split(self, ground)
        entries = [await self._entry(context, ground, split, each) for each in (self.other, self.one)]
        wanted = Wanted((self.metric,), rules=context.rules(self))
        board = await lab_steps.evaluated(ground, entries, split, wanted, context.listener)
        return board, await asyncio.to_thread(compared, board, board.metrics[0], self.by)

    async def _entry(self, context: CellContext, ground: Opened, split: Split, reference: Reference) -> Variant | Run:
        """Names of variants come before files, and those before kept runs."""
        path = run_file(reference, context.shared, context.folder)
        if path is not None:
            return (await foreign_runs(ground, split, [path]))[0].run
        try:
            return context.variant(reference, ground)
        except UnknownName as error:
            if not isinstance(reference, str):
                raise
            return await _kept(context, ground, reference, error)

    async def resolved(self, context: CellContext) -> dict[str, Any]:
        ground = await context.ground(self)
        told: dict[str, Any] = {}
        for name, reference in (("one", self.one), ("other", self.other)):
            try:
                if run_file(reference, context.shared, context.folder) is None:
                    told[f"{name} meant"] = context.variant(reference, ground).id
                    continue
            except UnknownName:
                pass  # a kept run, or nothing: running it tells
            told |= await outside(context, [str(reference)])
        return {**await super().resolved(context), **told}

    def python(self, told: Told) -> str:
        one, other = (self._told(told, each) for each in (self.one, self.other))
        return call(f"{told.lab(self)}.compare", one, other, repr(self.metric), split=literal(told.split(self)))

    def _told(self, told: Told, reference: Reference) -> str:
        lab, path = told.lab(self), run_file(reference, told.shared, told.folder)
        if path is not None:
            return f"{lab}.add_run({str(reference)!r}, {str(path)!r})"
        try:
            return told.reference(reference)
        except UnknownName:
            return f"{lab}.run({str(reference)!r})"


def run_file(reference: Reference, shared: Shared, folder: Path) -> Path | None:
    """The file of another engine's run that is meant, as `rankbook eval` tells it from a variant's."""
    if not isinstance(reference, str) or reference in (*known_names(), *(each["name"] for each in shared.variants)):
        return None
    path = folder / Path(reference).expanduser()
    return path if path.suffix != ".toml" and path.is_file() else None


async def _kept(context: CellContext, ground: Opened, name: str, error: UnknownName) -> Run:
    try:
        return await run_store.load(context.store, name, collection=ground.view.name)
    except UnknownName as unknown:
        known = [*error.known, *unknown.known]
        raise UnknownName("variant, preset, leg, kept run or file", name, known) from None


# -- charts ------------------------------------------------------------------------------------------------------------


def _differences(made: Comparison, metric: str) -> Figure:
    """Every query's difference, from the greatest gain to the greatest loss."""
    values = [each.difference for each in made.queries]
    colours = ["<win>" if value > 0 else "<loss>" if value < 0 else "<even>" for value in values]
    trace = {
        "type": "bar",
        "x": list(range(1, len(values) + 1)),
        "y": values,
        "marker": {"color": colours},
        "hoverinfo": "text",
        "hovertext": [f"{safe(each.query, 60)}<br>{each.difference:+.3f}" for each in made.queries],
    }
    layout = layout_of(
        280,
        bargap=0.1,
        xaxis=axis_of(title={"text": "Queries, by falling difference"}, showgrid=False),
        yaxis=axis_of(title={"text": f"{safe(metric)}, difference"}),
    )
    says = (
        f"Difference in {metric} of every query: {made.system} won {made.wins}, lost {made.losses} against "
        f"{made.baseline}, {made.ties} equal."
    )
    return Figure(title="Query by query", says=says, figure={"data": [trace], "layout": layout})


def _scatter(board: Board, made: Comparison, metric: str) -> Figure:
    """Every query at its two scores; above the line the first is better."""
    one, other = board.of(made.system, metric), board.of(made.baseline, metric)
    queries = [each.query for each in made.queries]
    trace = {
        "type": "scatter",
        "mode": "markers",
        "x": [other[query] for query in queries],
        "y": [one[query] for query in queries],
        "marker": {"color": "<c0>", "size": 8, "opacity": 0.5},
        "hoverinfo": "text",
        "hovertext": [
            f"{safe(query, 40)}: {safe(board.split.queries[query].text, 80)}<br>{one[query]:.3f} and {other[query]:.3f}"
            for query in queries
        ],
    }
    ends = [0.0, max([1.0, *one.values(), *other.values()])]
    line = {"type": "line", "x0": 0, "y0": 0, "x1": ends[1], "y1": ends[1], "line": {"color": "<muted>", "dash": "dot"}}
    layout = layout_of(
        360,
        xaxis=axis_of(title={"text": safe(made.baseline)}),
        yaxis=axis_of(title={"text": safe(made.system)}),
        shapes=[line],
    )
    says = f"{metric} of each query: {made.system} upwards, {made.baseline} to the right; above the line it is better."
    return Figure(title=f"{metric} of each query under both", says=says, figure={"data": [trace], "layout": layout})
