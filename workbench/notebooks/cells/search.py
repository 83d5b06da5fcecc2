"""The search cell: one query, variants as columns, why a document is where it is, and the SQL of each column."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from core.embedding import is_served
from core.errors import SpecError
from core.explain import explain
from core.pipeline.retriever import RetrievalResult, search
from core.sql_export import export_sql
from core.store.resolve_target import search_target
from core.variant import Variant
from evals.evaluation import evaluate
from evals.evaluation.context import EvalContext
from evals.measures import DEFAULT_METRIC
from evals.presentation.search_results import column_values, search_results
from evals.presentation.types import Block, Code, Output, Text
from evals.runs.plan import EvalOptions
from workbench.notebooks.cells.base import (
    CellContext,
    CellQuery,
    CellSpec,
    PythonExport,
    Reference,
    call,
    exactly_one,
    find_query,
    kinds,
    known_metric,
    literal,
)


@kinds.register("search")
class SearchCell(CellSpec):
    """One query, typed or labelled, asked of several variants side by side."""

    icon = ":material/search:"
    place = 10
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
        opened = await context.open(self)
        query, reason = await self._query(context, opened)
        columns = self.columns(context, opened)
        await _preload_models(opened, columns)
        bundles = [await search(opened.context, query.text, each) for each in columns]
        results = search_results(query.text, bundles, query_id=query.id, grades=query.grades)
        blocks: list[Block] = [*reason, Text(text=_in_common(bundles)), results]
        for document in self.why:
            for each in columns:
                account = await explain(opened.context, query.text, each, document)
                blocks.append(Text(text=f"{each.name}: {' '.join(account.sentences())}"))
        for each in columns if self.sql else ():
            statement = await export_sql(opened.store, opened.view, each)
            blocks.append(Code(title=f"{each.name} as SQL", language="sql", text=statement.script))
        return Output(blocks=tuple(blocks), values={"columns": [column_values(bundle) for bundle in bundles]})

    def queries(self, context: CellContext, opened: EvalContext) -> list[str]:
        """A picked query is not known yet and may be any labelled one. Each explanation asks the query again."""
        labelled = super().queries(context, opened) if self.pick else []
        query = labelled[0] if self.pick else find_query(opened, self.query, self.query_id).text
        return [*labelled, query, *[query] * len(self.why)]

    def columns(self, context: CellContext, opened: EvalContext) -> list[Variant]:
        """The variants as this cell asks them."""
        return [each.but(top_k=self.top_k) for each in context.variants(self.variants, opened)]

    async def _query(self, context: CellContext, opened: EvalContext) -> tuple[CellQuery, list[Text]]:
        """The query, and of a picked one why it was picked."""
        if self.pick is None:
            return find_query(opened, self.query, self.query_id), []
        split, options = context.split(self, opened), EvalOptions((self.metric,), rules=context.rules(self))
        variants = context.variants(self.variants, opened)
        runs = await evaluate.run_variants(opened, variants, split, options, context.listener)
        board = await evaluate.score_runs(opened, split, runs, options, None)
        metric = board.metrics[0]
        values = board.values(metric)
        keys = values[0] if self.pick == "worst" else values.min(axis=0) - values.max(axis=0)
        query = min(zip(keys.tolist(), board.queries(metric), strict=True))[1]
        scores = ", ".join(f"{name} {board.of(name, metric)[query]:.3f}" for name in board.names)
        reason = f"{board.names[0]} does worst on" if self.pick == "worst" else "the table is most divided over"
        sentence = f"Of {len(board.queries(metric))} labelled queries this is the one that {reason}: {metric} {scores}."
        return find_query(opened, None, query), [Text(text=sentence)]

    def python(self, export: PythonExport) -> str:
        lab = export.lab(self)
        lines = []
        if self.pick is not None:
            board = call(
                f"{lab}.evaluate",
                export.several(self.variants),
                metrics=repr(self.metric),
                split=literal(export.split(self)),
                rules=export.rules(self),
            )
            picked = "values[0]" if self.pick == "worst" else "values.min(axis=0) - values.max(axis=0)"
            lines += [
                f"board = {board}",
                "metric = board.metrics[0]",
                "values = board.values(metric)",
                f"query_id = min(zip({picked}, board.queries(metric)))[1]",
                "query = board.split.queries[query_id].text",
            ]
        elif self.query_id is not None:
            lines.append(f"query = {lab}.queries().set_index('query').loc[{self.query_id!r}, 'text']")
        else:
            lines.append(f"query = {self.query!r}")
        calls = [call(f"{lab}.search", "query", export.several(self.variants), top_k=repr(self.top_k))]
        for document in self.why:
            calls += [call(f"{lab}.why", "query", export.reference(each), repr(document)) for each in self.variants]
        if self.sql:
            calls += [call(f"{lab}.sql", export.reference(each)) for each in self.variants]
        return "\n".join([*lines, *(calls if len(calls) == 1 else [f"display({each})" for each in calls])])


# -- what is shown -----------------------------------------------------------------------------------------------------


def _in_common(bundles: Sequence[RetrievalResult]) -> str:
    documents = [{hit.item_id for hit in bundle.hits} for bundle in bundles]
    every = set().union(*documents)
    if len(documents) == 1 or not every:
        return f"{len(every)} documents were found."
    shared = set.intersection(*documents)
    who = "Both" if len(documents) == 2 else f"All {len(documents)}"
    return f"{who} have {len(shared)} of the {len(every)} documents in common."


async def _preload_models(opened: EvalContext, variants: Sequence[Variant]) -> None:
    """Have models in memory before anything is timed: loading one takes longer than thousands of searches.

    A model behind an endpoint is loaded there, and a query to it costs money.
    """
    context = opened.context
    embedding = [each for each in variants if any(leg.uses_model for leg in each.legs)]
    models = [search_target(context.store, context.view, each.chunks, each.model).model for each in embedding]
    for model in dict.fromkeys(filter(None, models)):
        if not is_served(model):
            await context.embedder(model).embed(["warm"], "query")
