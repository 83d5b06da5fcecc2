"""The search cell: one query, variants as columns, why a document is where it is, and the SQL of each column."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from core.embedding import is_served
from core.errors import SpecError
from core.explain import explain
from core.pipeline.retriever import RetrievalResult, search
from core.sql_export import export
from core.store.resolve_target import search_target
from core.variant import Variant
from evals.evaluation import evaluate
from evals.evaluation.context import EvalContext, EvalOptions
from evals.measures import DEFAULT_METRIC
from evals.presentation.search_results import column_values, search_results
from evals.presentation.types import Block, Code, Output, Text
from workbench.notebooks.cells.base import (
    CellContext,
    CellQuery,
    CellSpec,
    PythonExport,
    Reference,
    asked,
    call,
    exactly_one,
    kinds,
    known_metric,
    literal,
)


@kinds.register("search")
class SearchCell(CellSpec):
    """One query, typed or labelled, asked of several variants side by side."""

    example = 'query = "how do I reset a hub 3"\nvariants = ["bm25", "vector"]\ntop_k = 5\n'

    query: str | None = Field(None, min_length=1, description="What is looked for.")
    query_id: str | None = Field(None, min_length=1, description="Or a labelled query, by its id.")
    pick: Literal["worst", "most-different"] | None = Field(
        None,
        description="Or the labelled query that the first variant does worst on, or that the variants differ most on.",
    )
    variants: tuple[Reference, ...] = Field(
        ("bm25", "vector"), min_length=1, max_length=8, description="The columns: names, files, or tables."
    )
    top_k: int = Field(5, ge=1, le=100, description="How many results each shows.")
    metric: str = Field(DEFAULT_METRIC, description="For pick: by what a query is called worst or different.")
    why: tuple[str, ...] = Field((), description="Documents to explain: why each is where it is, or is missing.")
    sql: bool = Field(False, description="Whether each variant's SQL statement is shown.")

    _metric = field_validator("metric")(known_metric)

    @model_validator(mode="after")
    def _asks_one(self) -> Self:
        exactly_one(query=self.query, query_id=self.query_id, pick=self.pick)
        if self.query is not None and not self.query.strip():
            raise SpecError("The query is blank. Say what to look for.")
        return self

    @property
    def references(self) -> tuple[Reference, ...]:
        return self.variants

    async def run(self, context: CellContext) -> Output:
        ground = await context.ground(self)
        what, chosen = await self._asked(context, ground, context.variants(self.variants, ground))
        short = self.columns(context, ground)
        await _warmed(ground, short)
        bundles = [await search(ground.context, what.text, each) for each in short]
        results = search_results(what.text, bundles, query_id=what.id, grades=what.grades)
        blocks: list[Block] = [*chosen, Text(text=_shared(bundles)), results]
        for document in self.why:
            blocks += [await _why(ground, what, each, document) for each in short]
        if self.sql:
            blocks += [await _sql(ground, each) for each in short]
        return Output(blocks=tuple(blocks), values={"columns": [column_values(bundle) for bundle in bundles]})

    def queries(self, context: CellContext, ground: EvalContext) -> list[str]:
        """Of many the one that is picked is not known yet. It is searched for again for each account of a document."""
        among = super().queries(context, ground) if self.pick else []
        shown = among[0] if self.pick else asked(ground, self.query, self.query_id).text
        return [*among, shown, *[shown] * len(self.why)]

    def columns(self, context: CellContext, ground: EvalContext) -> list[Variant]:
        """The variants as this cell asks them."""
        return [each.but(top_k=self.top_k) for each in context.variants(self.variants, ground)]

    async def _asked(
        self, context: CellContext, ground: EvalContext, variants: Sequence[Variant]
    ) -> tuple[CellQuery, list[Text]]:
        """The query, and for a picked one how it came to be picked."""
        if self.pick is None:
            return asked(ground, self.query, self.query_id), []
        split, wanted = context.split(self, ground), EvalOptions((self.metric,), rules=context.rules(self))
        runs = await evaluate.run_variants(ground, variants, split, wanted, context.listener)
        board = await evaluate.score_runs(ground, split, runs, wanted, None)
        metric = board.metrics[0]
        values = board.values(metric)
        low, high = (values[0], values[0]) if self.pick == "worst" else (values.min(axis=0), values.max(axis=0))
        keys = low if self.pick == "worst" else low - high
        query = min(zip(keys.tolist(), board.queries(metric), strict=True))[1]
        scores = ", ".join(f"{name} {board.of(name, metric)[query]:.3f}" for name in board.names)
        words = "does worst on" if self.pick == "worst" else "is most divided over"
        who = board.names[0] if self.pick == "worst" else "the table"
        said = (
            f"Of {len(board.queries(metric))} labelled queries this is the one that {who} {words}: {metric} {scores}."
        )
        return asked(ground, None, query), [Text(text=said)]

    def python(self, told: PythonExport) -> str:
        options = {"top_k": repr(self.top_k)}
        made = []
        if self.query is None and self.query_id is None:
            board = call(
                f"{told.lab(self)}.evaluate",
                told.several(self.variants),
                metrics=repr(self.metric),
                split=literal(told.split(self)),
                rules=told.rules(self),
            )
            picked = "values[0]" if self.pick == "worst" else "values.min(axis=0) - values.max(axis=0)"
            made += [
                f"board = {board}",
                "metric = board.metrics[0]",
                "values = board.values(metric)",
                f"query_id = min(zip({picked}, board.queries(metric)))[1]",
                "query = board.split.queries[query_id].text",
            ]
        elif self.query_id is not None:
            queries = f"{told.lab(self)}.queries()"
            made.append(f"query = {queries}.set_index('query').loc[{self.query_id!r}, 'text']")
        else:
            made.append(f"query = {self.query!r}")
        made.append(call(f"{told.lab(self)}.search", "query", told.several(self.variants), **options))
        shown = [made.pop()]
        for document in self.why:
            shown += [
                call(f"{told.lab(self)}.why", "query", told.reference(each), repr(document)) for each in self.variants
            ]
        if self.sql:
            shown += [call(f"{told.lab(self)}.sql", told.reference(each)) for each in self.variants]
        shown = shown if len(shown) == 1 else [f"display({each})" for each in shown]
        return "\n".join([*made, *shown])


# -- what is shown -----------------------------------------------------------------------------------------------------


def _shared(bundles: Sequence[RetrievalResult]) -> str:
    found = [{hit.item_id for hit in bundle.hits} for bundle in bundles]
    every = set().union(*found)
    if len(found) == 1 or not every:
        return f"{len(every)} documents were found."
    shared = set.intersection(*found)
    who = "Both" if len(found) == 2 else f"All {len(found)}"
    return f"{who} have {len(shared)} of the {len(every)} documents in common."


async def _warmed(ground: EvalContext, variants: Sequence[Variant]) -> None:
    """Have models in memory before anything is timed: loading one takes longer than thousands of searches.

    What is served is loaded elsewhere, and asking costs somebody money.
    """
    context = ground.context
    asking = [each for each in variants if any(leg.uses_model for leg in each.legs)]
    models = [search_target(context.store, context.view, each.chunks, each.model).model for each in asking]
    for model in dict.fromkeys(filter(None, models)):
        if not is_served(model):
            await context.embedder(model).embed(["warm"], "query")


async def _why(ground: EvalContext, what: CellQuery, variant: Variant, document: str) -> Text:
    account = await explain(ground.context, what.text, variant, document)
    return Text(text=f"{variant.name}: {' '.join(account.sentences())}")


async def _sql(ground: EvalContext, variant: Variant) -> Code:
    made = await export(ground.store, ground.view, variant)
    return Code(title=f"{variant.name} as SQL", language="sql", text=made.script)
