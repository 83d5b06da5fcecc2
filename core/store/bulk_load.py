"""Bulk loading by binary COPY, and removal of items with everything derived from them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from pgvector.psycopg import register_vector_async
from psycopg import sql
from sqlalchemy import BigInteger, Integer, Table, column, delete, func, literal, select, update
from sqlalchemy.dialects import postgresql
from sqlalchemy.dialects.postgresql import ARRAY, JSONB
from sqlalchemy.ext.asyncio import AsyncConnection

from core.store.collections import CollectionView
from core.store.engine import driver_of
from core.store.schema import (
    HERE,
    CachedChunks,
    ChunkSet,
    ItemRow,
    chunk_table,
    lexeme_table,
    posting_table,
    term_table,
    vector_table,
)

_DIALECT = postgresql.dialect()  # type: ignore[no-untyped-call]


async def prepare_vectors(connection: AsyncConnection) -> None:
    """Register the vector type for binary COPY, once a connection: it queries the server and makes classes."""
    known = (await connection.get_raw_connection()).info
    if "vectors" not in known:
        await register_vector_async(await driver_of(connection))
        known["vectors"] = True


async def copy(connection: AsyncConnection, table: Table, rows: Iterable[Sequence[Any]]) -> None:
    """Load rows whose values are in the order of the table's columns."""
    namespace = connection.sync_connection.get_execution_options()["schema_translate_map"][HERE]  # type: ignore[union-attr]
    statement = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT BINARY)").format(
        sql.Identifier(namespace, table.name), sql.SQL(", ").join(sql.Identifier(column.name) for column in table.c)
    )
    async with (await driver_of(connection)).cursor() as cursor, cursor.copy(statement) as into:
        into.set_types([_type_name(column) for column in table.c])
        for row in rows:
            await into.write_row(row)


def _type_name(column: Any) -> str:
    """The type as the driver's registry spells it."""
    if isinstance(column.type, JSONB):
        return "jsonb"
    spelled: str = column.type.compile(dialect=_DIALECT).lower()
    return {"integer": "int4", "bytea": "bytea", "smallint": "int2"}.get(spelled, re.split(r"[( ]", spelled)[0])


async def remove_items(connection: AsyncConnection, view: CollectionView, keys: list[int]) -> None:
    """Delete items with their chunks, vectors, lexemes and postings, and keep BM25's statistics right."""
    if not keys:
        return
    for chunk_set in view.chunk_sets:
        await _remove_texts(connection, chunk_set.key, keys)
        if chunk_set.key:
            await _delete_of(connection, chunk_table(chunk_set.key), keys)
    for each in view.embedding_sets:
        await _delete_of(connection, vector_table(each.key, each.dimension), keys)
    await connection.execute(delete(CachedChunks).where(CachedChunks.item_key.in_(keys)))
    await connection.execute(delete(ItemRow).where(ItemRow.key.in_(keys)))


async def _delete_of(connection: AsyncConnection, table: Table, keys: list[int]) -> None:
    await connection.execute(delete(table).where(table.c.item_key.in_(keys)))


async def _remove_texts(connection: AsyncConnection, chunk_set: int, keys: list[int]) -> None:
    postings, terms, lexemes = posting_table(chunk_set), term_table(chunk_set), lexeme_table(chunk_set)
    counted = select(postings.c.term_key, func.count().label("documents")).where(postings.c.item_key.in_(keys))
    counts = (await connection.execute(counted.group_by(postings.c.term_key))).all()
    # Apart from the count: Citus refuses to read one shard and change a reference table in a single statement.
    if counts:
        removed = func.unnest(
            literal([row.term_key for row in counts], ARRAY(Integer)),
            literal([row.documents for row in counts], ARRAY(BigInteger)),
        ).table_valued(column("term_key", Integer), column("documents", BigInteger), with_ordinality="place")
        gone = removed.render_derived("removed")
        fewer = terms.c.documents - gone.c.documents
        await connection.execute(update(terms).where(terms.c.key == gone.c.term_key).values(documents=fewer))
    await _delete_of(connection, postings, keys)
    posted = await connection.scalar(select(ChunkSet.posted_to).where(ChunkSet.key == chunk_set))
    lost = select(func.count().label("units"), func.coalesce(func.sum(lexemes.c.length), 0).label("length"))
    row = (await connection.execute(lost.where(lexemes.c.item_key.in_(keys), lexemes.c.key <= posted))).one()
    await _delete_of(connection, lexemes, keys)
    await connection.execute(
        update(ChunkSet)
        .where(ChunkSet.key == chunk_set)
        .values(units=ChunkSet.units - row.units, length=ChunkSet.length - row.length)
    )
