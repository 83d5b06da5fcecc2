"""Which indexes an attached table lacks that a leg would use, with the statement to run; never runs it.

The server's planner decides, with scans and sorts made expensive: it knows partial indexes, expressions, and the tables
under a view.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from typing import Any

from pgvector.sqlalchemy import HALFVEC
from psycopg import sql
from sqlalchemy import Select, Text, any_, column, func, literal, null, select, table
from sqlalchemy import cast as sql_cast
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, TSQUERY
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from core.store.attached.columns import AttachedColumns, written
from core.store.attached.mapping import Attachment
from core.store.collections import LARGEST_INDEXED_DIMENSION, CollectionView
from core.store.engine import Store
from core.store.indexes import plan

METHODS = table("pg_am", column("oid"), column("amname"))
INDEXES = table("pg_class", column("relname"), column("relam"))


@dataclass(frozen=True, slots=True)
class Advice:
    """What is missing for what, why it would help, and the statement to copy; None where none would do."""

    subject: str
    why: str
    statement: str | None


@dataclass(frozen=True, slots=True)
class WantedIndex:
    """An index that a leg would use: queries whose plan would show it, methods that serve, and how it is made."""

    subject: str
    why: str
    probes: tuple[Select[Any], ...]
    methods: tuple[str, ...]
    using: sql.Composable
    partial: bool = False


async def advice(store: Store, view: CollectionView) -> list[Advice]:
    """The indexes that would help the legs on this table; empty where all are there."""
    attachment = Attachment.of(view)
    columns = AttachedColumns(attachment.table, attachment.facts)
    indexes, unindexable = _wanted_indexes(columns, attachment, missing=store.capabilities.missing)
    async with store.begin(read_only=True) as connection:
        names = ("enable_seqscan", "enable_sort")
        await connection.execute(select(*(func.set_config(name, "off", True) for name in names)))
        wanted = [_advice(columns, index) for index in indexes if not await _served(connection, index)]
    return [Advice("vector", unindexable, None), *wanted] if unindexable else wanted


def _wanted_indexes(
    columns: AttachedColumns, attachment: Attachment, missing: Container[str]
) -> tuple[list[WantedIndex], str | None]:
    """What each leg and filter would use; and why no index can serve the vectors, if so."""
    mapping, indexes, unindexable = columns.mapping, list[WantedIndex](), None
    if mapping.embedding is not None and "vector" not in missing:
        unindexable = _unindexable(columns)
        if not unindexable:
            indexes.append(_vector_index(columns))
    if attachment.aside is None:
        made = sql.SQL("to_tsvector({}, {})").format(sql.Literal(mapping.language), sql.Identifier(mapping.text))
        apart = "." if mapping.tsv else " and takes its words apart each time. What is built aside would serve as well."
        indexes.append(
            WantedIndex(
                "fulltext",
                f"Without it a full-text search reads every row{apart}",
                _probes(columns, columns.lexemes.op("@@")(sql_cast(literal("x", Text), TSQUERY))),
                ("gin", "gist"),
                sql.SQL("gin ({})").format(sql.Identifier(mapping.tsv) if mapping.tsv else made),
            )
        )
    if "pg_trgm" not in missing:
        indexes.append(
            WantedIndex(
                "trigram",
                "Without it a trigram search compares the query with every stretch of every text.",
                _probes(columns, literal("example", Text).op("<%")(columns.text)),
                ("gin", "gist"),
                sql.SQL("gin ({} gin_trgm_ops)").format(sql.Identifier(mapping.text)),
            )
        )
    for name in (mapping.metadata,) if isinstance(mapping.metadata, str) else mapping.metadata or ():
        condition, method, indexed = _field(columns, name)
        why = f"Without it a filter on {name!r} reads every row, and vector search misses rows where it keeps few."
        using = sql.SQL("{} ({})").format(sql.SQL(method), indexed)
        indexes.append(WantedIndex("filter", why, _probes(columns, condition), (method,), using))
    return indexes, unindexable


def _vector_index(columns: AttachedColumns) -> WantedIndex:
    dimension = columns.facts.dimension or 0
    kind = "halfvec" if isinstance(columns.vectors.type, HALFVEC) else "vector"
    stored: sql.Composable = sql.Identifier(columns.mapping.embedding or "")
    if not columns.facts.fixed:
        stored = sql.SQL("({}::{}({}))").format(stored, sql.SQL(kind), sql.Literal(dimension))
    nearest = columns.vectors.op("<=>")([1.0] * dimension)
    return WantedIndex(
        "vector",
        "Without it a vector search by cosine compares the query with every row.",
        (select(columns.id).where(columns.has_vector).order_by(nearest).limit(10),),
        ("hnsw", "ivfflat"),
        sql.SQL("hnsw ({} {})").format(stored, sql.SQL(f"{kind}_cosine_ops")),
        partial=True,  # neighbours among another collection's rows would be found only to be thrown away
    )


def _unindexable(columns: AttachedColumns) -> str | None:
    """Why no index can serve the vectors, if so."""
    name, dimension = columns.mapping.embedding, columns.facts.dimension
    if dimension is None:
        return f"{name!r} fixes no dimension and holds no vector yet, so no index can be made for it."
    kind = "halfvec" if isinstance(columns.vectors.type, HALFVEC) else "vector"
    if dimension <= (most := LARGEST_INDEXED_DIMENSION[kind]):
        return None
    return (
        f"{name!r} has {dimension} dimensions; pgvector indexes {most} of a {kind}. Searches are exact: right, but "
        "slow on many rows."
    )


def _probes(columns: AttachedColumns, condition: Any) -> tuple[Select[Any], ...]:
    """With the collection's conditions, which a partial index needs; and without, as their index may be preferred."""
    query = select(columns.id).where(condition)
    return query.where(columns.where), query


def _field(columns: AttachedColumns, name: str) -> tuple[Any, str, sql.Composable]:
    """How a filter compares the column, and the index for that."""
    kind, stored, quoted = columns.facts.types[name], columns.raw(name), sql.Identifier(name)
    if kind in ("json", "jsonb"):
        holds = sql_cast(stored, JSONB).op("@>")(sql_cast(literal('{"a": 1}', Text), JSONB))
        whole = quoted if kind == "jsonb" else sql.SQL("({}::jsonb)").format(quoted)
        return holds, "gin", sql.SQL("{} jsonb_path_ops").format(whole)
    if kind.endswith("[]"):
        return stored.op("@>")(sql_cast(literal("{}", Text), columns.type_of(name))), "gin", quoted
    # A subquery, because the planner would see through a NULL.
    return stored == select(sql_cast(null(), columns.type_of(name))).scalar_subquery(), "btree", quoted


async def _served(connection: AsyncConnection, index: WantedIndex) -> bool:
    """Whether the planner finds an index of a fitting method for one of the probes."""
    for probe in index.probes:
        try:
            async with connection.begin_nested():
                nodes = await plan(connection, probe)
        except DBAPIError:
            return True  # a type that cannot be compared so: no index would change that
        named = literal([node["Index Name"] for node in nodes if "Index Name" in node], ARRAY(Text))
        method = select(METHODS.c.amname).join_from(METHODS, INDEXES, METHODS.c.oid == INDEXES.c.relam)
        if set(await connection.scalars(method.where(INDEXES.c.relname == any_(named)))) & set(index.methods):
            return True
    return False


def _advice(columns: AttachedColumns, index: WantedIndex) -> Advice:
    kind, name = columns.facts.kind, columns.mapping.full_name
    if kind in ("view", "foreign table"):
        place = "on the table under it" if kind == "view" else "on the server that holds it"
        belongs = f"{name} is a {kind}: the index belongs {place}, USING {index.using.as_string()}."
        return Advice(index.subject, f"{index.why} {belongs}", None)
    how, why = sql.SQL("CREATE INDEX CONCURRENTLY"), index.why
    if kind == "partitioned table":
        how, why = sql.SQL("CREATE INDEX"), f"{why} On a partitioned table it cannot be built concurrently."
    mapping, where = columns.mapping, sql.SQL("").format()
    if index.partial and mapping.where:
        conditions = (
            sql.SQL("{} = {}").format(sql.Identifier(column), sql.Literal(written(value)))
            for column, value in mapping.where.items()
        )
        where = sql.SQL(" WHERE {}").format(sql.SQL(" AND ").join(conditions))
    relation = sql.Identifier(mapping.namespace, mapping.table)
    statement = sql.SQL("{} ON {} USING {}{};").format(how, relation, index.using, where)
    return Advice(index.subject, why, statement.as_string())
