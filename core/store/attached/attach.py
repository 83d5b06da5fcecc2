"""Attaching an existing table or view: checking its mapping against the server, and entering it as a collection."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy import func, inspect, select, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession

from core.errors import MissingCapability, SpecError, StoreError, UnknownName
from core.store import collections, names, readable_tables
from core.store.attached.columns import AttachedColumns
from core.store.attached.mapping import AttachedTable, Attachment, TableFacts, relation_name
from core.store.collections import CollectionView
from core.store.db_errors import reason
from core.store.engine import Store
from core.store.names import TRASH_PREFIX
from core.store.readable_tables import refuse_system_schema
from core.store.roles import RoleStore
from core.store.schema import CachedEmbedding, Collection

KINDS = {"r": "table", "p": "partitioned table", "v": "view", "m": "materialized view", "f": "foreign table"}

SCHEMAS = "SELECT nspname FROM pg_namespace WHERE nspname !~ '^pg_' AND nspname <> 'information_schema'"
RELATIONS = """
SELECT relation.relname
FROM pg_class AS relation
JOIN pg_namespace AS namespace ON namespace.oid = relation.relnamespace
WHERE namespace.nspname = :namespace AND relation.relkind IN ('r', 'p', 'v', 'm', 'f')
"""
WITH_COLUMNS = """
SELECT relation.relname
FROM pg_class AS relation
JOIN pg_namespace AS namespace ON namespace.oid = relation.relnamespace
JOIN pg_attribute AS attribute ON attribute.attrelid = relation.oid
WHERE namespace.nspname = :namespace AND relation.relkind IN ('r', 'p', 'v', 'm', 'f') AND NOT relation.relispartition
  AND starts_with(CAST(relation.relname AS text), :beginning)
  AND attribute.attname = ANY(CAST(:columns AS text[])) AND attribute.attnum > 0 AND NOT attribute.attisdropped
GROUP BY relation.relname
HAVING count(*) = cardinality(CAST(:columns AS text[]))
ORDER BY relation.relname
"""
RELATION = """
SELECT relation.oid,
       relation.relkind,
       has_schema_privilege(namespace.oid, 'USAGE') AS may_use
FROM pg_class AS relation
JOIN pg_namespace AS namespace ON namespace.oid = relation.relnamespace
WHERE namespace.nspname = :namespace
  AND relation.relname = :name
  AND relation.relkind IN ('r', 'p', 'v', 'm', 'f')
"""
# -1, not NULL: without a modifier the server calls bpchar "character", which means one letter.
COLUMNS = """
SELECT attribute.attname AS name,
       format_type(CASE WHEN type.typtype = 'd' THEN type.typbasetype ELSE type.oid END, -1) AS type,
       type.typcategory = 'S' AS textual,
       CASE WHEN type.typtype = 'd' THEN type.typtypmod ELSE attribute.atttypmod END AS modifier,
       has_column_privilege(attribute.attrelid, attribute.attnum, 'SELECT') AS readable,
       attribute.attnotnull AND EXISTS (
           SELECT FROM pg_index AS index
           WHERE index.indrelid = attribute.attrelid
             AND index.indisunique AND index.indisvalid AND index.indpred IS NULL
             AND index.indnkeyatts = 1 AND index.indkey[0] = attribute.attnum
       ) AS identifies
FROM pg_attribute AS attribute
JOIN pg_type AS type ON type.oid = attribute.atttypid
WHERE attribute.attrelid = :relation AND attribute.attnum > 0 AND NOT attribute.attisdropped
ORDER BY attribute.attnum
"""


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column as the catalogue has it. `identifies`: an index keeps its values distinct, and none is NULL."""

    name: str
    type: str
    textual: bool
    modifier: int
    readable: bool
    identifies: bool

    @property
    def kind(self) -> str:
        """The type's own name, whichever schema an extension put it in."""
        return self.type.rpartition(".")[2]


@dataclass(frozen=True, slots=True)
class Relation:
    """A table or view with all its columns."""

    kind: str
    columns: dict[str, TableColumn]


def _is(*kinds: str) -> Callable[[TableColumn], bool]:
    return lambda column: column.kind in kinds


# What a column must be for a field, in words and as a test.
FITTING: dict[str, tuple[str, Callable[[TableColumn], bool]]] = {
    "text": ("a text type", lambda column: column.textual),
    "title": ("a text type", lambda column: column.textual),
    "embedding": ("vector or halfvec", _is("vector", "halfvec")),
    "tsv": ("tsvector", _is("tsvector")),
    "metadata": ("json or jsonb (list columns to take plain ones)", _is("json", "jsonb")),
}


async def relation(connection: AsyncConnection, namespace: str, name: str) -> Relation | None:
    """The relation of that name, None where there is none; refused where its schema is closed to us."""
    row = (await connection.execute(text(RELATION), {"namespace": namespace, "name": name})).first()
    if row is None:
        return None
    if not row.may_use:
        raise await _no_right(connection, f"use the schema {namespace!r}", "USAGE ON SCHEMA", (namespace,))
    rows = await connection.execute(text(COLUMNS), {"relation": row.oid})
    return Relation(KINDS[row.relkind], {each.name: TableColumn(*each) for each in rows})


async def inspect_table(store: Store, table: AttachedTable) -> TableFacts:
    """Check the mapping against the server and return what the catalogue says of the table. Changes nothing."""
    refuse_system_schema(table.namespace)
    async with store.begin(read_only=True) as connection:
        found = await relation(connection, table.namespace, table.table)
        if found is None:
            schemas = [each for each in await connection.scalars(text(SCHEMAS)) if not each.startswith(TRASH_PREFIX)]
            if table.namespace not in schemas:
                raise UnknownName("schema", table.namespace, schemas)
            relations = await connection.scalars(text(RELATIONS), {"namespace": table.namespace})
            raise UnknownName(f"table or view in the schema {table.namespace!r}", table.table, relations)
        await _check_columns(connection, table, found)
        types = {name: found.columns[name].type for _, name in table.columns()}
        modifier = found.columns[table.embedding].modifier if table.embedding else -1
        dimension = modifier if modifier > 0 else None
        facts = TableFacts.model_validate(
            {"kind": found.kind, "types": types, "dimension": dimension, "fixed": dimension is not None}
        )
        await _check_rows(connection, table, facts, identified=found.columns[table.id].identifies)
        if table.embedding is not None and not facts.fixed:  # the first vector says what the type does not
            sampled = await connection.scalar(AttachedColumns(table, facts).sampled_dimension())
            facts = facts.model_copy(update={"dimension": sampled})
        return facts


async def count(store: Store, table: AttachedTable, facts: TableFacts) -> int:
    """How many rows belong to the collection now. StoreError where the table is gone or closed to us by now."""
    try:
        async with store.begin(read_only=True) as connection:
            return int(await connection.scalar(AttachedColumns(table, facts).counted()) or 0)
    except DBAPIError as error:
        raise unreadable(table, error) from error


async def need_readable(store: Store, table: AttachedTable, facts: TableFacts) -> None:
    """StoreError where the table, or a column that is mapped, is gone or closed to us. Reads a row at most."""
    try:
        async with store.begin(read_only=True) as connection:
            await connection.execute(AttachedColumns(table, facts).details().limit(1))
    except DBAPIError as error:
        raise unreadable(table, error) from error


def unreadable(table: AttachedTable, error: DBAPIError) -> StoreError:
    """The error for a table that is gone, closed to us, or no longer as it was mapped."""
    return StoreError(f"The table {table.full_name} cannot be read any more ({reason(error)}).")


async def _check_columns(connection: AsyncConnection, table: AttachedTable, found: Relation) -> None:
    """Every mapped column exists, may be read, and is of a type that fits its field."""

    def refuse_type(sentence: str, fits: Callable[[TableColumn], bool]) -> None:
        fitting = [each.name for each in found.columns.values() if fits(each)]
        such = f"Such columns are: {', '.join(fitting)}." if fitting else "The table has no such column."
        raise SpecError(f"{sentence} {such}")

    for field, name in table.columns():
        if name not in found.columns:
            raise UnknownName(f"column of {table.full_name} (given as {field})", name, found.columns)
        column = found.columns[name]
        if not column.readable:
            where = (table.namespace, table.table)
            raise await _no_right(connection, f"read the column {name!r} of {table.full_name}", "SELECT ON", where)
        listed = field == "metadata" and not isinstance(table.metadata, str)
        if field in FITTING and not listed and not FITTING[field][1](column):
            words, fits = FITTING[field]
            refuse_type(f"The column {name!r} of {table.full_name} is {column.type}; `{field}` takes {words}.", fits)
    if isinstance(table.parent, tuple) and len(table.parent) > 1:
        column, is_json = found.columns[table.parent[0]], _is("json", "jsonb")
        if not is_json(column):
            refuse_type(
                f"`parent` names the keys {'.'.join(table.parent[1:])!r} in the column {column.name!r} of "
                f"{table.full_name}, which is {column.type}; they lead into json or jsonb.",
                is_json,
            )


async def _no_right(connection: AsyncConnection, what: str, privilege: str, name: tuple[str, ...]) -> MissingCapability:
    quoted = "%I.%I" if len(name) == 2 else "%I"
    binds = ", ".join(f"CAST(:part{number} AS text)" for number in range(len(name)))
    ask = text(f"SELECT current_user AS role, format('GRANT {privilege} {quoted} TO %I', {binds}, current_user)")
    role, grant = (await connection.execute(ask, {f"part{n}": part for n, part in enumerate(name)})).one()
    return MissingCapability(f"The role {role} may not {what}. Ask its owner to run: {grant};")


async def _check_rows(
    connection: AsyncConnection, table: AttachedTable, facts: TableFacts, *, identified: bool
) -> None:
    """The conditions fit their columns' types, and each row has an id of its own."""
    columns = AttachedColumns(table, facts)
    try:
        async with connection.begin_nested():
            await connection.execute(columns.counted().limit(0))
            repeated = None if identified else (await connection.execute(columns.repeated_ids())).first()
    except DBAPIError as error:
        raise SpecError(f"The rows of {table.full_name} cannot be read as mapped: {reason(error)}.") from error
    if repeated is None:
        return
    raise SpecError(
        f"The column {table.id!r} of {table.full_name} does not identify a row: "
        + (
            f"{repeated.count} rows have the id {repeated.id!r}. "
            if repeated.id is not None
            else "there are NULLs in it. "
        )
        + "Map the table's key as id, or attach a view that leaves such rows out."
    )


BYTES_A_NUMBER = 4  # the cache keeps float32


async def attach_table(
    store: Store, name: str, mapping: AttachedTable, *, card: str = "", dimension: int | None = None
) -> CollectionView:
    """A collection over an existing table. `dimension` is the model's, where the caller knows it."""
    namespace, name = names.schema_of(name), names.composed(name)
    async with store.begin() as connection:
        await collections.refuse_taken(AsyncSession(connection), name)
        schemas = await connection.run_sync(lambda sync: inspect(sync).get_schema_names())
    if namespace in schemas:
        # Dropping the collection drops that schema: it must never be one that holds somebody's table.
        raise StoreError(f"There is a schema {namespace!r} already, which {name!r} would need. Choose another name.")
    facts = await inspect_table(store, mapping)
    if mapping.embedding:
        store.capabilities.need("vector")
        known = dimension or await _cached_dimension(store, mapping.model)
        if known is not None and facts.dimension not in (None, known):
            raise SpecError(
                f"The vectors in {mapping.embedding!r} of {mapping.full_name} have {facts.dimension} dimensions, those "
                f"of the model {mapping.model!r} have {known}. Name the model that made the embeddings."
            )
    row = Collection(
        name=name,
        namespace=namespace,
        language=mapping.language,
        card=card,
        origin={"attached": mapping.full_name},
        attached=Attachment(table=mapping, facts=facts).model_dump(mode="json"),
    )
    async with store.begin() as connection:
        await collections.check_language(connection, mapping.language)
        await collections.register(AsyncSession(connection), row)
        await collections.mark_loaded(connection, name)  # there is nothing to load
        await let_read_within(store, connection, name, mapping)
    return await collections.get(store, name)


async def _cached_dimension(store: Store, model: str | None) -> int | None:
    """The dimension of the model's cached vectors, if there are any; the model itself is not loaded."""
    size = select(func.length(CachedEmbedding.vector)).where(CachedEmbedding.model == model).limit(1)
    async with store.begin(read_only=True) as connection:
        found = await connection.scalar(size)
    return found // BYTES_A_NUMBER if found else None


async def let_read_within(store: Store, connection: AsyncConnection, name: str, mapping: AttachedTable) -> None:
    """Allow the table to be granted to whoever may search the collection, where the owner attaches it.

    A table that an editor attaches is readable by others where editors can read it; that needs no permission here.
    """
    if not isinstance(store, RoleStore):
        await readable_tables.allow(connection, name, mapping.namespace, mapping.table)


async def let_read(store: Store, name: str, written: str) -> AttachedTable:
    """The same afterwards, by the owner, who names the table; refused where the collection is attached to another."""
    view = await collections.get(store, name)
    mapping = Attachment.of(view).table
    if relation_name(written) != (mapping.namespace, mapping.table):
        raise SpecError(f"{name!r} is attached to {mapping.full_name}, and not to {written}. Nothing was changed.")
    async with store.begin() as connection:
        await let_read_within(store, connection, view.name, mapping)
    return mapping
