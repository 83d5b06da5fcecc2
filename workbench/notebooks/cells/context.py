"""The context cell: what an answer would be written from, what did not fit, and the gain that a budget buys."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import asdict
from typing import Self

from pydantic import Field, model_validator

from core.packing import ContextPack, Packing, PackTrace
from core.pipeline.retriever import search
from core.tasks import side_by_side
from core.variant import Variant
from evals.display import Table
from evals.evaluation import packed_contexts
from evals.evaluation.context import EvalContext
from evals.evaluation.cost_notice import searched
from evals.evaluation.packed_contexts import ContextPoint
from evals.presentation.charts import axis_of, layout_of, vertical
from evals.presentation.types import Block, Chart, Code, Output, Text
from evals.types import QuerySplit
from workbench.notebooks.cells.base import (
    CellContext,
    CellQuery,
    CellSpec,
    PythonExport,
    Reference,
    exactly_one,
    find_query,
    kinds,
)

TOGETHER = 4  # queries that are under way at once
STEPS = 8  # budgets of the curve
ROOMIER = 2  # times the budget, up to which one query's own curve goes
ROLES = {"primary": "<c0>", "parent": "<c2>", "sibling": "<c4>", "neighbour": "<c5>"}


@kinds.register("context")
class ContextCell(CellSpec):
    """The context that a variant's results are packed into for an answer, within a budget of tokens."""

    icon = ":material/article:"
    place = 50
    example = 'query = "how do I reset a hub 3"\nvariant = "hybrid-retriever"\nbudget = 1500\n'

    query: str | None = Field(None, min_length=1, description="What is looked for.")
    query_id: str | None = Field(None, min_length=1, description="Or a labelled query, by its id.")
    variant: Reference = Field("hybrid-retriever", description="Whose results are packed.")
    budget: int = Field(2000, ge=1, description="The most tokens the context may take.")
    packing: Packing | None = Field(
        None, description="How it is packed: the variant's own way, or as usual, but for the budget."
    )
    over: int = Field(
        0, ge=0, le=1000, description="Of how many labelled queries the gain by budget is shown; drawn by the seed."
    )

    @model_validator(mode="after")
    def _asks_one(self) -> Self:
        exactly_one(query=self.query, query_id=self.query_id)
        return self

    @property
    def references(self) -> tuple[Reference, ...]:
        return (self.variant,)

    def queries(self, context: CellContext, opened: EvalContext) -> list[str]:
        """Its own, once more for the curve of a labelled one, and the sample."""
        query = find_query(opened, self.query, self.query_id)
        sample = searched(self._sample(context, opened)) if self.over else []
        return [query.text, *([query.text] if query.labelled else []), *sample]

    async def run(self, context: CellContext) -> Output:
        opened = await context.open(self)
        variant = self.packed(context.variant(self.variant, opened))
        query = find_query(opened, self.query, self.query_id)
        pack = await _pack(opened, query.text, variant)
        blocks = self._blocks(pack, query)
        curve: tuple[ContextPoint, ...] = ()
        own = await self._own_curve(opened, query, variant)
        if own:
            blocks.append(_curve_chart(own, "this query", self.budget))
        if self.over:
            split = self._sample(context, opened)
            curve = await self._mean_curve(opened, split, variant)
            blocks.append(_curve_chart(curve, f"{len(split.queries)} queries of {split.name}"))
        values = {
            "tokens": pack.trace.tokens,
            "budget": self.budget,
            "curve": _points(curve),
            "own curve": _points(own),
            "passages": [
                {
                    "id": chunk.id,
                    "item": chunk.item_id,
                    "role": chunk.role,
                    "tokens": chunk.tokens,
                    "mark": chunk.mark,
                    "beside": chunk.beside,  # the hit that brought it in
                    "citation": str(chunk.citation),
                    "text": chunk.text,
                    "grade": query.grades.get(chunk.item_id),
                }
                for chunk in pack.chunks
            ],
            "dropped": [asdict(each) for each in pack.trace.dropped],
        }
        return Output(blocks=tuple(blocks), values=values)

    def packed(self, variant: Variant) -> Variant:
        """The variant with this cell's budget."""
        packing = self.packing or variant.pack or Packing()
        return variant.but(pack=packing.model_copy(update={"final_max_tokens": self.budget}))

    def _blocks(self, pack: ContextPack, query: CellQuery) -> list[Block]:
        tokens = f"{pack.trace.tokens:,} of {self.budget:,} tokens"
        items = len({chunk.item_id for chunk in pack.chunks})
        headline = f"{len(pack.chunks)} passages of {items} documents stand in the context: {tokens}."
        blocks: list[Block] = [Text(text=headline, tone="headline")]
        if query.labelled:
            share = packed_contexts.score_pack(pack, self.budget, query.grades).gain_share
            blocks.append(Text(text=f"It brings {share:.0%} of the labelled gain of this query."))
        if pack.chunks:
            rows = [
                (at, chunk.role, f"{chunk.tokens:,}", str(chunk.citation))
                for at, chunk in enumerate(pack.chunks, start=1)
            ]
            columns = ("", "role", "tokens", "citation")
            blocks += [_bar(pack, self.budget), Table.of("What stands in it", columns, rows, ("", "tokens"))]
        if pack.trace.dropped:
            dropped = [(each.id, each.role, each.reason) for each in pack.trace.dropped]
            blocks.append(Table.of("What was left out", ("passage", "role", "why"), dropped))
        blocks += [Text(text=note, tone="note") for note in pack.trace.notes]
        return [*blocks, Code(title="The context as a model would read it", text=pack.context)]

    async def _own_curve(self, opened: EvalContext, query: CellQuery, variant: Variant) -> tuple[ContextPoint, ...]:
        """This query's gain for smaller and larger budgets, all from one pack of the largest."""
        if not query.labelled or variant.pack is None:
            return ()
        most = self.budget * ROOMIER
        roomy = variant.but(pack=variant.pack.model_copy(update={"final_max_tokens": most}))
        budgets = [max(1, most * step // (STEPS * ROOMIER)) for step in range(1, STEPS * ROOMIER + 1)]
        return packed_contexts.curve(await _pack(opened, query.text, roomy), budgets, query.grades)

    def _sample(self, context: CellContext, opened: EvalContext) -> QuerySplit:
        """A sample of the labelled queries, the same for the same seed."""
        split = context.split(self, opened)
        known = sorted(split.grades.keys() & split.queries.keys())
        draw = random.Random(context.seed(self))  # noqa: S311 - a sample, and no secret
        return split.only(set(draw.sample(known, min(self.over, len(known)))))

    async def _mean_curve(self, opened: EvalContext, split: QuerySplit, variant: Variant) -> tuple[ContextPoint, ...]:
        budgets = sorted({max(1, self.budget * step // STEPS) for step in range(1, STEPS + 1)})
        gate = asyncio.Semaphore(TOGETHER)

        async def one(query: str) -> Sequence[ContextPoint]:
            async with gate:
                pack = await _pack(opened, split.queries[query].text, variant)
            return packed_contexts.curve(pack, budgets, split.grades[query])

        curves = await side_by_side(*(one(query) for query in split.queries))
        weights = {query: each.weight for query, each in split.queries.items()}
        return packed_contexts.mean_curve(dict(zip(split.queries, curves, strict=True)), weights)

    def python(self, export: PythonExport) -> str:
        lab, pack = export.lab(self), self.packed(export.variant(self.variant)).pack
        text = repr(self.query)
        if self.query is None:
            text = f"{lab}.queries().set_index('query').loc[{self.query_id!r}, 'text']"
        variant = f"{lab}.variant({export.reference(self.variant)}).but(pack={pack.model_dump() if pack else None!r})"
        return f"packed = {variant}\nfound = {lab}.search({text}, packed)\nprint(found.bundle.pack.context)"


async def _pack(opened: EvalContext, query: str, variant: Variant) -> ContextPack:
    bundle = await search(opened.context, query, variant)
    return bundle.pack or ContextPack(query, (), (), PackTrace(), "")


# -- what is shown -----------------------------------------------------------------------------------------------------


def _points(curve: Sequence[ContextPoint]) -> list[dict[str, float]]:
    return [{"budget": each.budget, "tokens": each.tokens, "gain": each.gain_share} for each in curve]


def _bar(pack: ContextPack, budget: int) -> Chart:
    """The budget as one bar, each passage its tokens' share."""
    traces = [
        {
            "type": "bar",
            "orientation": "h",
            "x": [chunk.tokens],
            "y": [0],
            "marker": {"color": ROLES[chunk.role], "line": {"color": "<card>", "width": 1}},
            "hoverinfo": "text",
            "hovertext": [f"{at}. {chunk.role}, {chunk.tokens} tokens"],
        }
        for at, chunk in enumerate(pack.chunks, start=1)
    ]
    end = {"type": "line", "x0": budget, "x1": budget, "yref": "paper", "y0": 0, "y1": 1, "line": {"color": "<loss>"}}
    layout = layout_of(
        110,
        barmode="stack",
        xaxis=axis_of(title={"text": f"Tokens, of {budget:,}"}, rangemode="tozero"),
        yaxis=axis_of(showticklabels=False, showgrid=False),
        shapes=[end],
    )
    says = f"{pack.trace.tokens:,} tokens of a budget of {budget:,}, in {len(pack.chunks)} passages."
    return Chart(title="The budget", description=says, figure={"data": traces, "layout": layout})


def _curve_chart(curve: Sequence[ContextPoint], of: str, budget: int | None = None) -> Chart:
    """The mean share by budget; `budget` is marked in it."""
    trace = {
        "type": "scatter",
        "mode": "lines+markers",
        "x": [point.budget for point in curve],
        "y": [point.gain_share for point in curve],
        "line": {"color": "<c0>", "width": 2},
        "hoverinfo": "text",
        "hovertext": [f"within {point.budget:,.0f} tokens<br>{point.gain_share:.1%} of the gain" for point in curve],
    }
    layout = layout_of(
        320,
        xaxis=axis_of(title={"text": "Budget in tokens"}, rangemode="tozero"),
        yaxis=axis_of(title={"text": "Share of the labelled gain"}, rangemode="tozero", tickformat=".0%"),
        shapes=[vertical(budget, "dash")] if budget else [],
    )
    ends = f"{curve[0].gain_share:.0%} within {curve[0].budget:,.0f} tokens, {curve[-1].gain_share:.0%} within "
    says = f"Mean share of the labelled gain by budget over {of}: {ends}{curve[-1].budget:,.0f}."
    return Chart(title=f"Gain by budget, {of}", description=says, figure={"data": [trace], "layout": layout})
