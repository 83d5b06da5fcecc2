"""Indexes of a collection: which it should have, how they are built, and whether a statement uses one."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any, Literal, cast

import psycopg
from pgvector.sqlalchemy import BIT, HALFVEC
from sqlalchemy import (
    ClauseElement,
    Column,
    ColumnElement,
    Executable,
    Index,
    MetaData,
    Table,
    Text,
    func,
    inspect,
    literal,
    literal_column,
    text,
)
from sqlalchemy import cast as sql_cast
from sqlalchemy.dialects.postgresql import JSONB, TSVECTOR
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.schema import CreateIndex

from core.errors import RankbookError
from core.progress import Listener, Step, nobody
from core.store.citus import is_distributed
from core.store.collections import LARGEST_INDEXED_DIMENSION, CollectionView
from core.store.engine import Store, driver_of
from core.store.names import quoted, written
from core.store.schema import (
    ITEM_TABLE,
    EmbeddingSet,
    chunk_table,
    lexeme_table,
    posting_table,
    term_table,
    vector_table,
)
from core.tasks import side_by_side

OPERATORS = {"vector": "vector_cosine_ops", "halfvec": "halfvec_cosine_ops", "bit": "bit_hamming_ops"}
HNSW = {"m": 16, "ef_construction": 128}
MOST_AT_ONCE = 4
TITLES = "titled"  # ends the name of the index on what of a tsvector stands in the title
LEAST_MEMORY = 1024  # kB; PostgreSQL 15 and 16 take no less
# The memory that the server allows one build, divided among those at work, for this transaction.
SHARE = text(
    "SELECT set_config(name, CAST(greatest(CAST(setting AS integer) / :builds, least) AS text), true)"
    " FROM pg_settings JOIN (VALUES ('maintenance_work_mem', :memory), ('max_parallel_maintenance_workers', 0))"
    " AS wanted (name, least) USING (name)"
)
# A graph that outgrows this memory is built on disk from there on, many times slower. It takes about twice its table's
# size; it gets at most a quarter of the machine, half of what the embedded server takes for its cache.
GRAPH = text(
    "SELECT set_config('maintenance_work_mem', CAST(greatest(CAST(setting AS bigint), least("
    "2 * pg_table_size(to_regclass(:table)), pg_size_bytes(current_setting('effective_cache_size')) / 2 / :builds"
    ") / 1024) AS text), true) FROM pg_settings WHERE name = 'maintenance_work_mem'"
)

# The progress of a build, seen from another connection. Builds on a cluster's workers do not show.
REACHED = text("SELECT blocks_done, blocks_total FROM pg_stat_progress_create_index WHERE pid = :pid")
EVERY = 2.0  # seconds between two looks at it


def wanted(view: CollectionView, *, trigrams: bool = True) -> Iterator[Index]:
    """Every index of the collection, the most expensive first, so that two workers end at about the same time."""
    for embedding_set in view.embedding_sets:
        yield from _vector_indexes(embedding_set)
    for chunk_set in view.chunk_sets:
        units = _copied(ITEM_TABLE) if chunk_set.key == 0 else _copied(chunk_table(chunk_set.key))
        terms = _copied(term_table(chunk_set.key))
        if trigrams:
            yield _gin(units, units.c.text, "gin_trgm_ops")
            yield _gin(terms, terms.c.lexeme, "gin_trgm_ops")
        lexemes, postings = _copied(lexeme_table(chunk_set.key)), _copied(posting_table(chunk_set.key))
        yield _gin(lexemes, lexemes.c.tsv)
        yield Index(
            f"{lexemes.name}_{TITLES}", titled(lexemes.c.tsv).label("titled"), postgresql_using="gin", _table=lexemes
        )
        yield _btree(postings, postings.c.term_key)
        yield _btree(postings, postings.c.item_key)
        yield _btree(lexemes, lexemes.c.item_key, lexemes.c.key)
        if chunk_set.key:
            yield _btree(units, units.c.item_key, units.c.ordinal)
            yield _btree(units, units.c.key)
            yield _btree(units, units.c.id)
    items = _copied(
        ITEM_TABLE
    )  # a B-tree on each field's JSON value serves eq and ranges of any type; one GIN serves containment
    for number, name in enumerate(view.row.fields):
        yield Index(f"items_field_{number}", field_value(items, name).label("field"), _table=items)
    if view.row.fields:
        yield _gin(items, items.c.metadata, "jsonb_path_ops")


def _copied(table: Table) -> Table:
    """A copy to define indexes on: the mapped table would collect them, call after call."""
    return table.to_metadata(MetaData())


def _btree(table: Table, *columns: Column[Any]) -> Index:
    return Index(f"{table.name}_{'_'.join(each.name for each in columns)}", *columns, _table=table)


def _gin(table: Table, indexed: Column[Any], operators: str = "") -> Index:
    return Index(
        f"{table.name}_{indexed.name}_gin",
        indexed,
        postgresql_using="gin",
        postgresql_ops={indexed.name: operators} if operators else {},
        _table=table,
    )


def titled(lexemes: ColumnElement[Any]) -> ColumnElement[Any]:
    """The part of a tsvector that is in the title. Small, with an index that needs no reading of the texts' part."""
    return func.ts_filter(lexemes, literal_column("'{a}'"), type_=TSVECTOR)


def _vector_indexes(embedding_set: EmbeddingSet) -> Iterator[Index]:
    table = _copied(vector_table(embedding_set.key, embedding_set.dimension))
    yield _btree(table, table.c.item_key, table.c.key)
    if embedding_set.dimension > LARGEST_INDEXED_DIMENSION[embedding_set.index]:
        return  # searched exactly; pgvector indexes no more dimensions than that
    other = indexed_vector(table.c.embedding, embedding_set)
    indexed = table.c.embedding if other is None else other.label("indexed")
    yield Index(
        f"{table.name}_hnsw",
        indexed,
        postgresql_using="hnsw",
        postgresql_ops={indexed.name: OPERATORS[embedding_set.index]},
        postgresql_with=HNSW,
        _table=table,
    )


def indexed_vector(stored: ColumnElement[Any], embedding_set: EmbeddingSet) -> ColumnElement[Any] | None:
    """What the HNSW index holds, where that is not the vector itself. A search must use this very expression."""
    if embedding_set.index == "halfvec":
        return sql_cast(stored, HALFVEC(embedding_set.dimension))
    if embedding_set.index == "bit":
        return sql_cast(func.binary_quantize(stored), BIT(embedding_set.dimension))
    return None


def field_value(items: Table, name: str) -> ColumnElement[Any]:
    """A metadata field as its index holds it. Subscripting the column is another expression, which uses no index."""
    return items.c.metadata.op("->", return_type=JSONB())(literal(name, Text))


async def build(store: Store, view: CollectionView, listener: Listener = nobody, *, loaded: bool = False) -> None:
    """Create missing indexes, a few at once; then, or if something was `loaded`, refresh the planner's statistics."""
    async with store.begin(view.namespace) as connection:
        there = await connection.run_sync(present, view)
    trigrams = "pg_trgm" not in store.capabilities.missing
    missing = [index for index in wanted(view, trigrams=trigrams) if index.name not in there]
    # A cluster's workers build an index in all shards at once.
    at_once = 1 if store.capabilities.distributed else min(MOST_AT_ONCE, os.cpu_count() or 1, len(missing) or 1)
    done, workers = 0, asyncio.Semaphore(at_once)

    async def create_in_turn(index: Index) -> None:
        nonlocal done
        async with workers, store.begin(view.namespace, fresh=True) as connection:
            await create(connection, store, view, index, listener, at_once=at_once)
        done += 1
        listener(Step(f"Index {index.name}", done, len(missing), "indexes"))

    await side_by_side(*(create_in_turn(index) for index in missing))
    if missing or loaded:
        await analyze(store, view)


async def create(
    connection: AsyncConnection,
    store: Store,
    view: CollectionView,
    index: Index,
    listener: Listener = nobody,
    *,
    at_once: int = 1,
    every: float = EVERY,
) -> None:
    """One index, with its share of the memory where so many are built at once."""
    await connection.execute(SHARE, {"builds": at_once, "memory": LEAST_MEMORY})
    if store.server and index.dialect_options["postgresql"]["using"] == "hnsw":
        table = quoted(view.namespace, cast("Table", index.table))
        await connection.execute(GRAPH, {"table": table, "builds": min(at_once, len(view.embedding_sets))})
    async with _reporting(connection, store, index, listener, every):
        await connection.execute(CreateIndex(index, if_not_exists=True))


@asynccontextmanager
async def _reporting(
    connection: AsyncConnection, store: Store, index: Index, listener: Listener, every: float
) -> AsyncIterator[None]:
    """Report the progress of the build on that connection: the graph of a million vectors takes long."""
    if listener is nobody or store.capabilities.distributed:  # a coordinator does not see what workers build
        yield
        return
    pid = await connection.scalar(text("SELECT pg_backend_pid()"))
    over = False

    async def look() -> None:
        while not over:
            await asyncio.sleep(every)
            try:
                async with store.begin(read_only=True) as other:
                    reached = (await other.execute(REACHED, {"pid": pid})).first()
            except RankbookError:  # where no connection is free, the build goes on, and the next look reports
                continue
            if reached is not None and reached.blocks_total:
                listener(Step(f"Building {index.name}", reached.blocks_done, reached.blocks_total, "blocks"))

    looking = asyncio.ensure_future(look())
    try:
        yield
    finally:
        over = True
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)  # a build is not lost because its progress is


def present(connection: Any, view: CollectionView) -> set[str]:
    found = inspect(connection).get_multi_indexes(schema=view.namespace)
    return {str(index["name"]) for indexes in found.values() for index in indexes}


async def analyze(store: Store, view: CollectionView) -> None:
    """Let the planner know what is in the tables now."""
    async with store.begin(view.namespace, fresh=True) as connection:
        tables = await connection.run_sync(lambda sync: inspect(sync).get_table_names(schema=view.namespace))
        for table in tables:
            await connection.execute(written("ANALYZE {table}", view.namespace, table=table))


class Explain(Executable, ClauseElement):
    """The plan of a statement, its values bound as they are when it runs."""

    inherit_cache = False

    def __init__(self, statement: Executable, form: Literal["JSON", "TEXT"] = "JSON") -> None:
        self.statement, self.form = statement, form


@compiles(Explain)
def _explain(element: Explain, compiler: Any, **options: Any) -> str:
    return f"EXPLAIN (FORMAT {element.form}) {compiler.process(element.statement, **options)}"


async def plan(connection: AsyncConnection, statement: Executable) -> list[dict[str, Any]]:
    """Every node of the plan, outer ones first."""
    async with values_in_place(connection):
        return list(_nodes(await connection.scalar(Explain(statement))))


@asynccontextmanager
async def values_in_place(connection: AsyncConnection) -> AsyncIterator[None]:
    """Values as literals instead of parameters, for an EXPLAIN on a cluster."""
    if not is_distributed(connection):
        yield
        return
    raw = await driver_of(connection)
    usual, raw.cursor_factory = raw.cursor_factory, psycopg.AsyncClientCursor
    try:
        yield
    finally:
        raw.cursor_factory = usual


async def ordered_by_index(connection: AsyncConnection, statement: Executable) -> bool:
    """Whether some index gives the rows in the order of a distance."""
    return any("Order By" in node for node in await plan(connection, statement))


def _nodes(found: Any) -> Iterator[dict[str, Any]]:
    if isinstance(found, dict):
        if "Node Type" in found:
            yield found
        found = list(found.values())
    if isinstance(found, list):
        for part in found:
            yield from _nodes(part)
