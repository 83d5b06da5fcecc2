"""The search cell: one query, variants as columns, why a document is where it is, and the SQL of each column."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from core.embedding import is_served
from core.errors import SpecError
from core.explain import explain
from core.legs import legs
from core.pipeline.retriever import RetrievalResult, search
from core.snippets import snippet
from core.sql_export import export_sql
from core.store.resolve_target import search_target
from core.types import Hit
from core.variant import Variant
from evals.evaluation import evaluate
from evals.evaluation.context import EvalContext
from evals.measures import DEFAULT_METRIC
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
from workbench.notebooks.output import Block, Code, FoundHit, HitColumn, Hits, LegShare, Output, Said
from workbench.services.search import passage_of

SNIPPET = 240  # characters


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
        blocks: list[Block] = [*reason, Said(text=_in_common(bundles)), _hits(query, bundles)]
        for document in self.why:
            for each in columns:
                account = await explain(opened.context, query.text, each, document)
                blocks.append(Said(text=f"{each.name}: {' '.join(account.sentences())}"))
        for each in columns if self.sql else ():
            statement = await export_sql(opened.store, opened.view, each)
            blocks.append(Code(title=f"{each.name} as SQL", language="sql", text=statement.script))
        return Output(blocks=tuple(blocks), values={"columns": [_stages(bundle) for bundle in bundles]})

    def queries(self, context: CellContext, opened: EvalContext) -> list[str]:
        """A picked query is not known yet and may be any labelled one. Each explanation asks the query again."""
        labelled = super().queries(context, opened) if self.pick else []
        query = labelled[0] if self.pick else find_query(opened, self.query, self.query_id).text
        return [*labelled, query, *[query] * len(self.why)]

    def columns(self, context: CellContext, opened: EvalContext) -> list[Variant]:
        """The variants as this cell asks them."""
        return [each.but(top_k=self.top_k) for each in context.variants(self.variants, opened)]

    async def _query(self, context: CellContext, opened: EvalContext) -> tuple[CellQuery, list[Said]]:
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
        return find_query(opened, None, query), [Said(text=sentence)]

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


def _hits(query: CellQuery, bundles: Sequence[RetrievalResult]) -> Hits:
    """The columns. Each hit has its document's rank in the first column, and says if its document stands above it."""
    ranks = [{hit.item_id: hit.rank for hit in reversed(bundle.hits)} for bundle in bundles]  # of the best passage

    def as_block(hit: Hit, column: int) -> FoundHit:
        place = " > ".join(hit.heading_path)
        return FoundHit(
            rank=hit.rank,
            id=hit.id,
            item=hit.item_id,
            title=hit.title,
            where=f"{place} (p. {hit.page_first})".strip() if hit.page_first else place,
            score=hit.score,
            snippet=tuple(pieces(passage_of(hit), query.keywords)),
            legs=tuple(
                LegShare(leg=each.leg, rank=each.rank, raw=each.raw, contribution=each.contribution)
                for each in hit.legs
            ),
            grade=query.grades.get(hit.item_id),
            before=ranks[0].get(hit.item_id) if column else None,
            again=ranks[column][hit.item_id] < hit.rank,
        )

    columns = tuple(
        HitColumn(
            variant=bundle.variant.name,
            milliseconds=bundle.trace.milliseconds,
            hits=tuple(as_block(hit, column) for hit in bundle.hits),
            notes=bundle.trace.notes,
        )
        for column, bundle in enumerate(bundles)
    )
    return Hits(query=query.text, query_id=query.id, columns=columns)


def pieces(text: str, keywords: Sequence[str], most: int = SNIPPET) -> Iterator[tuple[str, bool]]:
    """The best stretch of a text, cut where matched words begin and end."""
    best, at = snippet(text, keywords, most), 0
    for start, end in best.highlights:
        yield best.text[at:start], False
        yield best.text[start:end], True
        at = end
    yield best.text[at:], False


def _stages(bundle: RetrievalResult) -> dict[str, Any]:
    """How a column came about: its legs, what each stage kept and dropped, and the ranks of each hit on its way."""
    stages = {stage.name: stage for stage in bundle.trace.stages}  # of a stage that was done again, the last
    variant = bundle.variant
    ways: dict[str, list[list[Any]]] = {hit.id: [] for hit in bundle.hits}
    for stage in stages.values():
        for rank, (unit, score) in enumerate(stage.ranking, start=1):
            if unit in ways and not stage.name.startswith("leg "):
                ways[unit].append([stage.name, rank, score])
    return {
        "variant": variant.name,
        "legs": [
            {"name": name, "kind": legs.name_of(type(leg)), "weight": leg.weight}
            for name, leg in zip(variant.leg_names, variant.legs, strict=True)
        ],
        "stages": [
            {
                "name": stage.name,
                "milliseconds": stage.milliseconds,
                "kept": len(stage.ranking),
                "dropped": [
                    {"reason": reason, "code": code, "limit": limit, "count": count}
                    for (reason, code, limit), count in Counter(
                        (each.reason, each.code, each.limit) for each in stage.dropped
                    ).items()
                ],
            }
            for stage in stages.values()
        ],
        "ways": ways,
    }


def _in_common(bundles: Sequence[RetrievalResult]) -> str:
    documents = [{hit.item_id for hit in bundle.hits} for bundle in bundles]
    every = set().union(*documents)
    if len(documents) == 1 or not every:
        return f"{len(every)} documents were documents."
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
