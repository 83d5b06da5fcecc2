"""A variant as one SQL statement with numbered parameters; running and explaining what was exported."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

from psycopg import AsyncRawCursor, errors, sql
from psycopg.rows import dict_row
from sqlalchemy import BindParameter, Index, Table
from sqlalchemy.schema import CreateIndex
from sqlalchemy.sql.visitors import iterate

from core.context import RequestContext
from core.errors import DeadlineExceeded, MissingCapability, SpecError
from core.fusion import LegRanking
from core.legs.base import LegSql, QueryParameters, checked_text
from core.pipeline.recall import lagging
from core.sql_export.parameters import TEXT, VECTOR_OF_QUERY, Parameter, Parameters, compiled
from core.sql_export.statement import LegStatement, StatementPlan, comment, part, statement, verbatim
from core.store.collections import CollectionView
from core.store.engine import Store, driver_of
from core.store.indexes import wanted
from core.store.resolve_target import search_target
from core.store.schema import ItemRow
from core.store.search_target import SearchTarget
from core.variant import Variant

ITEM_TABLE: Final = ItemRow.__tablename__
NAME: Final = "rankbook_search"  # of the prepared statement
# A generic plan cannot match an index on a metadata field, nor judge a filter: both are parameters to it.
CUSTOM_PLANS: Final = {"plan_cache_mode": "force_custom_plan"}


@dataclass(frozen=True, slots=True)
class ExportedSql:
    """One statement with numbered parameters ($1, $2, ...) and all that is needed to run it.

    It returns, best first: rank, id, score (relative), raw_score, and each leg's rank, score and part. `outside` lists,
    in the order of the pipeline, what the variant does beyond the statement, each in a sentence.
    """

    variant: Variant
    collection: str
    statement: str
    parameters: tuple[Parameter, ...]
    settings: Mapping[str, str]
    indexes: tuple[str, ...]
    outside: tuple[str, ...]
    notes: tuple[str, ...]
    model: str | None

    def values(self, text: str, vector: Sequence[float] | None = None) -> list[Any]:
        """What to give psycopg for $1, $2, ..."""
        from pgvector import Vector

        as_text = None if vector is None else str(Vector(list(vector)).to_text())  # each number as the float32 it is
        of_query = {TEXT.key: checked_text(text), VECTOR_OF_QUERY.key: as_text}
        return [of_query[each.name] if each.of_query else each.value for each in self.parameters]

    @property
    def needs_vector(self) -> bool:
        return any(each.name == VECTOR_OF_QUERY.key for each in self.parameters)

    @property
    def setting_statements(self) -> tuple[str, ...]:
        """For the beginning of the statement's transaction, each sent by itself."""
        return tuple(f"SET LOCAL {name} = {_literal(value)};" for name, value in self.settings.items())

    @property
    def header(self) -> str:
        """Everything about it, as comments."""
        about = f"{self.variant.name} ({self.variant.id[:12]}) over the collection {self.collection}"
        parts = [comment(f"Rankbook: {about}"), *(comment(note) for note in self.notes)]
        parameters = [f"${each.number} {each.type}, {each.name}: {each.meaning}" for each in self.parameters]
        parts += _listed("Parameters", parameters)
        if self.model and self.needs_vector:
            parts.append(comment(f"The query's vector is made by the model {self.model}."))
        parts += _listed("Settings, in the transaction of the statement", self.setting_statements)
        parts += _listed("Indexes that it uses", self.indexes or ["those of the attached table, or none"])
        parts += _listed("Done outside this statement", self.outside)
        return "\n".join(parts)

    @property
    def script(self) -> str:
        """The statement under its header, for a service that sends parameters by number."""
        return f"{self.header}\n\n{self.statement};\n"

    def filled(self, text: str, vector: Sequence[float] | None = None) -> str:
        """Ready for psql: the same statement, prepared and run with this query. Values are quoted by the library."""
        types = ", ".join(each.type for each in self.parameters)
        values = ", ".join(_literal(value) for value in self.values(text, vector))
        given, types = (f"({values})", f" ({types})") if self.parameters else ("", "")
        lines = [self.header, "", "BEGIN;", *self.setting_statements, f"PREPARE {NAME}{types} AS", f"{self.statement};"]
        return "\n".join([*lines, "", f"EXECUTE {NAME}{given};", f"DEALLOCATE {NAME};", "COMMIT;", ""])


async def export_sql(
    store: Store, view: CollectionView, variant: Variant, *, query: str | None = None, strict: bool = False
) -> ExportedSql:
    """The variant as SQL. `query` decides the weights of a routed variant; `strict` refuses what SQL cannot do."""
    whole = search_target(store, view, variant.chunks, variant.model)
    target = whole.filtered(variant.filter)
    weights: Mapping[str, float] = {name: leg.weight for name, leg in zip(variant.leg_names, variant.legs, strict=True)}
    notes = []
    if variant.route is not None and query is not None:
        kind, weights = variant.route.weights_for(query, weights)
        notes.append(f"The weights are those for queries of the kind {kind!r}, as the one that was given.")
    outside = tuple(_outside(variant, query))
    legs, missing = await _leg_statements(store, target, variant)
    if strict and (left := [*missing, *outside]):
        raise SpecError(f"{variant.name!r} is not one statement: {' '.join(left)}")
    draft = Parameters(_bound(target) - _bound(whole))  # the keys of the values that came in with the filter
    _write(view, variant, target, legs, weights, draft)
    parameters = draft.in_order()
    text = _write(view, variant, target, legs, weights, parameters)
    settings = _settings(legs.values()) | (CUSTOM_PLANS if variant.filter else {})
    serving = _serving(store, view, legs.values(), parameters.tables, filtered=variant.filter is not None)
    indexes = tuple(compiled(CreateIndex(index), view.namespace, Parameters()) + ";" for index in serving)
    return ExportedSql(
        variant, view.name, text, parameters.all, settings, indexes, outside, (*notes, *missing), target.model
    )


async def _leg_statements(
    store: Store, target: SearchTarget, variant: Variant
) -> tuple[dict[str, LegSql], tuple[str, ...]]:
    """Each leg's statement by its name, and a sentence on each leg that is not available here and so left out."""
    found, problems = dict[str, LegSql](), list[MissingCapability]()
    async with store.begin(target.namespace, read_only=True) as connection:
        query = QueryParameters(connection, TEXT, VECTOR_OF_QUERY)
        for name, leg in zip(variant.leg_names, variant.legs, strict=True):
            try:
                written = await leg.as_sql(target, query, variant.depth_of(leg))
                late = await lagging(connection, target, leg)
                found[name] = replace(written, notes=(*written.notes, *late))
            except MissingCapability as error:
                problems.append(error)
    if not found:
        raise problems[0]
    return found, tuple(f"A leg is not available here, and left out. {problem}" for problem in problems)


def _write(
    view: CollectionView,
    variant: Variant,
    target: SearchTarget,
    legs: Mapping[str, LegSql],
    weights: Mapping[str, float],
    parameters: Parameters,
) -> str:
    """The statement. It is written twice, as its parameters can only be put in order once all are known."""
    options, pieces = dict(zip(variant.leg_names, variant.legs, strict=True)), []
    for at, (name, sql_of_leg) in enumerate(legs.items(), start=1):
        leg = options[name]
        ranking = LegRanking(name, weights[name], (), leg.bounds)
        text = compiled(sql_of_leg.statement, target.namespace, parameters)
        term = part(variant.fusion, ranking, at)
        pieces.append(LegStatement(ranking, sql_of_leg, text, term, variant.depth_of(leg)))
    later = variant.rerank is not None
    replaced = variant.parents == "replace" and not (later and variant.parents_after_rerank)
    replaced = replaced and view.row.attached is None
    # The columns of an attached table are its owner's to join, in ways that its indexes serve.
    details = target.among is None
    needed = details or replaced or variant.rollup is not None or variant.per_item_cap is not None
    return statement(
        StatementPlan(
            variant.fusion,
            pieces,
            compiled(target.details, target.namespace, parameters) if needed else "",
            details,
            variant.fused_depth,
            variant.rollup,
            variant.per_item_cap,
            replaced,
            variant.min_score,
            None if later else variant.top_k,
        )
    )


def _outside(variant: Variant, query: str | None) -> Iterator[str]:
    """What the statement does not do, in the order of the pipeline."""
    if variant.expand:
        yield f"Expansion of the query: {TEXT.key} and {VECTOR_OF_QUERY.key} are what comes of it."
    if variant.route and query is None:
        yield "Routing: these are the variant's own weights; export with a query for those of its kind."
    if variant.rollup:
        yield "Asking the legs three times as deep where the roll-up leaves fewer than top_k items."
    if variant.late:
        yield "Late chunks, made of the items that come out."
    if variant.parents == "annotate":
        yield "Annotation of children with the beginning of their parents; it changes no order."
    if variant.rerank is not None:
        yield "Reranking: the statement gives everything that was fused."
        if variant.parents == "replace" and variant.parents_after_rerank:
            yield "Replacing children by their parents, after the reranking."
        yield f"The cut by min_score {variant.min_score:g} and top_k {variant.top_k}, after the reranking."
    if variant.pack:
        yield "Packing of the results into a context."


def _bound(target: SearchTarget) -> set[str]:
    """The keys of the values that the target's conditions are bound to."""
    conditions = [each.where for each in target.columns.values()] + ([target.lexicon.where] if target.lexicon else [])
    return {each.key for where in conditions for each in iterate(where) if isinstance(each, BindParameter)}


def _settings(legs: Iterable[LegSql]) -> dict[str, str]:
    """One value for all legs: the lowest threshold, as each leg states its own too, and the largest index option."""
    gathered: dict[str, list[Any]] = {}
    for leg in legs:
        for name, value in leg.settings.items():
            gathered.setdefault(name.replace("__", "."), []).append(value)
    return {name: str(min(values) if "threshold" in name else max(values)) for name, values in gathered.items()}


async def index_names(store: Store, view: CollectionView, variant: Variant) -> tuple[str, ...]:
    """Rankbook's own indexes that serve the variant's legs and its filter."""
    target = search_target(store, view, variant.chunks, variant.model).filtered(variant.filter)
    legs, _ = await _leg_statements(store, target, variant)
    searched = [column.relation for column in target.columns.values()]
    searched += [target.lexicon.postings, target.lexicon.terms] if target.lexicon else []
    tables = {ITEM_TABLE} | {table.name for table in searched if isinstance(table, Table)}
    serving = _serving(store, view, legs.values(), tables, filtered=variant.filter is not None)
    return tuple(str(index.name) for index in serving)


def _serving(
    store: Store, view: CollectionView, legs: Iterable[LegSql], tables: set[str], *, filtered: bool
) -> Iterator[Index]:
    """The indexes of these tables that the legs use. Those of an attached table are its owner's."""
    trigrams = "pg_trgm" not in store.capabilities.missing
    ends = tuple(end for leg in legs for end in leg.indexes)
    of_chunks = any(table.startswith("chunks_") for table in tables)
    for index in wanted(view, trigrams=trigrams):
        name, table = str(index.name), index.table.name if index.table is not None else ""
        serves = filtered and name.startswith(("items_field_", "items_metadata_"))
        serves = serves or (name.endswith(ends) and not (table == ITEM_TABLE and of_chunks))
        if table in tables and serves:
            yield index


def _listed(title: str, lines: Iterable[str]) -> list[str]:
    """Lines under a title, as comments; empty without lines."""
    comments = [f"--   {verbatim(' '.join(line.split()))}" for line in lines]
    return [f"--\n-- {title}:", *comments] if comments else []


def _literal(value: Any) -> str:
    return sql.Literal(value).as_string(None)


MOST_SECONDS: Final = 10.0  # that a statement may take to be explained; a search takes thousandths


@dataclass(frozen=True, slots=True)
class Explained:
    """A statement with its plan in PostgreSQL's words; where `measured`, with what each step really took."""

    made: ExportedSql
    plan: str
    measured: bool


async def run(
    store: Store, made: ExportedSql, text: str, vector: Sequence[float] | None = None
) -> list[dict[str, Any]]:
    """The statement's rows, best first, in a transaction of their own with its settings."""
    async with _ready(store, made) as cursor:
        await cursor.execute(made.statement.encode(), made.values(text, vector))
        return await cursor.fetchall()


async def explained(
    context: RequestContext, variant: Variant, query: str, *, measured: bool = True, seconds: float = MOST_SECONDS
) -> Explained:
    """The server's plan of the variant's statement for this query. To be measured, it is run and its rows dropped."""
    made = await export_sql(context.store, context.view, variant, query=query)
    vector = await vector_of(context, made, query)
    options = "ANALYZE, BUFFERS" if measured else "COSTS"
    explain = f"EXPLAIN ({options}) {made.statement}"
    try:
        async with _ready(context.store, made, seconds) as cursor:
            await cursor.execute(explain.encode(), made.values(query, vector))
            lines = await cursor.fetchall()
    except errors.QueryCanceled as error:
        raise DeadlineExceeded(
            f"The statement of {variant.name!r} did not end within {seconds:g} s, so there is no measured plan of it. "
            "The plan alone, which runs nothing, is there at once."
        ) from error
    return Explained(made, "\n".join(line["QUERY PLAN"] for line in lines), measured)


async def vector_of(context: RequestContext, made: ExportedSql, text: str) -> Sequence[float] | None:
    """The query's vector, where the statement takes one."""
    if not made.needs_vector or made.model is None:
        return None
    vectors = await context.embedder(made.model).embed([checked_text(text)], "query")
    found: Sequence[float] = vectors[0]
    return found


@asynccontextmanager
async def _ready(
    store: Store, made: ExportedSql, seconds: float | None = None
) -> AsyncIterator[AsyncRawCursor[dict[str, Any]]]:
    """A cursor in a read-only transaction, with the statement's settings in force."""
    settings = list(made.setting_statements)
    if seconds is not None:
        settings.append(f"SET LOCAL statement_timeout = {max(1, round(seconds * 1000))}")
    async with (
        store.begin(read_only=True) as connection,
        AsyncRawCursor(await driver_of(connection), row_factory=dict_row) as cursor,
    ):
        for setting in settings:
            await cursor.execute(setting.encode())
        yield cursor
