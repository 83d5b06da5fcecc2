"""Which index of theirs a leg would use and does not find. Says what to run; never runs it.

The planner itself is asked, with scans and sorts made dear: it knows partial indexes, expressions, and what lies under
a view.
"""

from __future__ import annotations

from collections.abc import Iterator
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
from core.store.attached.mapping import AttachedTable, Attachment
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
class Wish:
    """An index that a leg would use: queries of which one would show it, methods that will do, and how it is made."""

    subject: str
    why: str
    probes: tuple[Select[Any], ...]
    methods: tuple[str, ...]
    using: sql.Composable
    partial: bool = False


async def advice(store: Store, view: CollectionView) -> list[Advice]:
    """The indexes that would help the legs on this table, none where all are there."""
    attachment = Attachment.of(view)
    theirs = AttachedColumns(attachment.table, attachment.facts)
    vectors = theirs.mapping.embedding is not None and "vector" not in store.capabilities.missing
    unindexable = _unindexable(theirs) if vectors else None
    wishes = [*_text_wishes(store, attachment, theirs), *_metadata_wishes(theirs)]
    if vectors and not unindexable:
        wishes.insert(0, _vector_wish(theirs))
    async with store.begin(read_only=True) as connection:
        await _make_scans_dear(connection)
        wanted = [_advice(theirs, wish) for wish in wishes if not await _served(connection, wish)]
    return [Advice("vector", unindexable, None), *wanted] if unindexable else wanted


def _vector_wish(theirs: AttachedColumns) -> Wish:
    dimension = theirs.facts.dimension or 0
    kind = "halfvec" if isinstance(theirs.vectors.type, HALFVEC) else "vector"
    stored: sql.Composable = sql.Identifier(theirs.mapping.embedding or "")
    if not theirs.facts.fixed:
        stored = sql.SQL("({}::{}({}))").format(stored, sql.SQL(kind), sql.Literal(dimension))
    nearest = theirs.vectors.op("<=>")([1.0] * dimension)
    return Wish(
        "vector",
        "Without it a vector search by cosine compares the query with every row.",
        (select(theirs.id).where(theirs.has_vector).order_by(nearest).limit(10),),
        ("hnsw", "ivfflat"),
        sql.SQL("hnsw ({} {})").format(stored, sql.SQL(f"{kind}_cosine_ops")),
        partial=True,  # neighbours among another collection's rows would be found only to be thrown away
    )


def _unindexable(theirs: AttachedColumns) -> str | None:
    """Why no index can serve the vectors, if so."""
    name, dimension = theirs.mapping.embedding, theirs.facts.dimension
    if dimension is None:
        return f"{name!r} fixes no dimension and holds no vector yet, so no index can be made for it."
    kind = "halfvec" if isinstance(theirs.vectors.type, HALFVEC) else "vector"
    if dimension <= (most := LARGEST_INDEXED_DIMENSION[kind]):
        return None
    return (
        f"{name!r} has {dimension} dimensions; pgvector indexes {most} of a {kind}. Searches are exact: right, but "
        "slow on many rows."
    )


def _text_wishes(store: Store, attachment: Attachment, theirs: AttachedColumns) -> Iterator[Wish]:
    if attachment.aside is None:
        yield _lexeme_wish(theirs)
    if "pg_trgm" not in store.capabilities.missing:
        yield Wish(
            "trigram",
            "Without it a trigram search compares the query with every stretch of every text.",
            _probes(theirs, literal("example", Text).op("<%")(theirs.text)),
            ("gin", "gist"),
            sql.SQL("gin ({} gin_trgm_ops)").format(sql.Identifier(theirs.mapping.text)),
        )


def _lexeme_wish(theirs: AttachedColumns) -> Wish:
    mapping = theirs.mapping
    made = sql.SQL("to_tsvector({}, {})").format(sql.Literal(mapping.language), sql.Identifier(mapping.text))
    return Wish(
        "fulltext",
        "Without it a full-text search reads every row"
        + ("." if mapping.tsv else " and takes its words apart each time. What is built aside would serve as well."),
        _probes(theirs, theirs.lexemes.op("@@")(sql_cast(literal("x", Text), TSQUERY))),
        ("gin", "gist"),
        sql.SQL("gin ({})").format(sql.Identifier(mapping.tsv) if mapping.tsv else made),
    )


def _probes(theirs: AttachedColumns, condition: Any) -> tuple[Select[Any], ...]:
    """With the collection's own conditions, which a partial index needs; and without, as theirs may be preferred."""
    asked = select(theirs.id).where(condition)
    return asked.where(theirs.where), asked


def _metadata_wishes(theirs: AttachedColumns) -> Iterator[Wish]:
    metadata = theirs.mapping.metadata
    for name in (metadata,) if isinstance(metadata, str) else metadata or ():
        condition, method, indexed = _field(theirs, name)
        why = f"Without it a filter on {name!r} reads every row, and vector search misses rows where it keeps few."
        using = sql.SQL("{} ({})").format(sql.SQL(method), indexed)
        yield Wish("filter", why, _probes(theirs, condition), (method,), using)


def _field(theirs: AttachedColumns, name: str) -> tuple[Any, str, sql.Composable]:
    """How a filter compares the column, and the index for that."""
    kind, stored, quoted = theirs.facts.types[name], theirs.raw(name), sql.Identifier(name)
    if kind in ("json", "jsonb"):
        holds = sql_cast(stored, JSONB).op("@>")(sql_cast(literal('{"a": 1}', Text), JSONB))
        whole = quoted if kind == "jsonb" else sql.SQL("({}::jsonb)").format(quoted)
        return holds, "gin", sql.SQL("{} jsonb_path_ops").format(whole)
    if kind.endswith("[]"):
        return stored.op("@>")(sql_cast(literal("{}", Text), theirs.type_of(name))), "gin", quoted
    # A subquery, because the planner would see through a NULL.
    return stored == select(sql_cast(null(), theirs.type_of(name))).scalar_subquery(), "btree", quoted


async def _make_scans_dear(connection: AsyncConnection) -> None:
    names = ("enable_seqscan", "enable_sort")
    await connection.execute(select(*(func.set_config(name, "off", True) for name in names)))


async def _served(connection: AsyncConnection, wish: Wish) -> bool:
    """Whether the planner finds an index of a fitting method for one of the probes."""
    for probe in wish.probes:
        try:
            async with connection.begin_nested():
                nodes = await plan(connection, probe)
        except DBAPIError:
            return True  # a type that cannot be compared so: no index would change that
        named = literal([node["Index Name"] for node in nodes if "Index Name" in node], ARRAY(Text))
        method = select(METHODS.c.amname).join_from(METHODS, INDEXES, METHODS.c.oid == INDEXES.c.relam)
        if set(await connection.scalars(method.where(INDEXES.c.relname == any_(named)))) & set(wish.methods):
            return True
    return False


def _advice(theirs: AttachedColumns, wish: Wish) -> Advice:
    kind, name = theirs.facts.kind, theirs.mapping.full_name
    if kind in ("view", "foreign table"):
        where = "on the table under it" if kind == "view" else "on the server that holds it"
        belongs = f"{name} is a {kind}: the index belongs {where}, USING {wish.using.as_string()}."
        return Advice(wish.subject, f"{wish.why} {belongs}", None)
    how, why = sql.SQL("CREATE INDEX CONCURRENTLY"), wish.why
    if kind == "partitioned table":
        how, why = sql.SQL("CREATE INDEX"), f"{why} On a partitioned table it cannot be built concurrently."
    relation = sql.Identifier(theirs.mapping.namespace, theirs.mapping.table)
    statement = sql.SQL("{} ON {} USING {}{};").format(how, relation, wish.using, _predicate(theirs.mapping, wish))
    return Advice(wish.subject, why, statement.as_string())


def _predicate(mapping: AttachedTable, wish: Wish) -> sql.Composable:
    if not (wish.partial and mapping.where):
        return sql.SQL("")
    conditions = (
        sql.SQL("{} = {}").format(sql.Identifier(name), sql.Literal(written(value)))
        for name, value in mapping.where.items()
    )
    return sql.SQL(" WHERE {}").format(sql.SQL(" AND ").join(conditions))
