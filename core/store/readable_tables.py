"""Which attached tables Rankbook's roles may be granted: those that the owner attached, or allowed afterwards.

Editors write the catalogue, and a restored backup fills it, so a row there is no reason to grant anything. This list is
the owner's, in a schema of its own; one that anybody else made or owns is ignored.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import Column, DateTime, MetaData, Table, Text, delete, func, select, text, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.schema import CreateSchema, CreateTable

from core.errors import SpecError, StoreError
from core.store.names import trash_mark

SCHEMA: Final = "rankbook_owner"
LIST: Final = Table(
    "readable_tables",
    MetaData(schema=SCHEMA),
    Column("collection", Text, primary_key=True),
    Column("namespace", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("allowed_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
)
IS_OURS: Final = text(
    """
    SELECT count(*) > 0
    FROM pg_class AS list
    JOIN pg_namespace AS place ON place.oid = list.relnamespace
    JOIN pg_roles AS maker ON maker.oid = list.relowner
    JOIN pg_roles AS owner ON owner.oid = place.nspowner
    WHERE place.nspname = :schema AND list.relname = 'readable_tables' AND list.relkind = 'r'
      AND (maker.rolsuper OR maker.rolname = current_user)
      AND (owner.rolsuper OR owner.rolname = current_user)
    """
)
MAY_CHANGE: Final = text(f"SELECT has_schema_privilege('{SCHEMA}', 'USAGE') AND has_table_privilege(:list, 'DELETE')")


def refuse_system_schema(namespace: str) -> None:
    """Refuse schemas of the server, and of this list."""
    if namespace.startswith("pg_") or namespace in {"information_schema", SCHEMA}:
        raise SpecError(
            f"The schema {namespace!r} is the system's own, and none of its tables can be a collection. Attach a table "
            "or view of yours."
        )


async def allow(connection: AsyncConnection, collection: str, namespace: str, name: str) -> None:
    """Called for the owner only: from now on the table may be granted to those who search the collection."""
    refuse_system_schema(namespace)
    await connection.execute(CreateSchema(SCHEMA, if_not_exists=True))
    await connection.execute(CreateTable(LIST, if_not_exists=True))
    if not await _is_ours(connection):
        raise StoreError(
            f"The list of tables that others may read, {LIST.fullname}, is another role's. Nothing was written. Drop "
            f"the schema {SCHEMA} as administrator if nobody knows what it is for."
        )
    row = insert(LIST).values(collection=collection, namespace=namespace, name=name)
    await connection.execute(row.on_conflict_do_nothing())


async def allowed(connection: AsyncConnection) -> set[tuple[str, str, str]]:
    """Collection, schema and table of each permission."""
    if not await _is_ours(connection):
        return set()
    rows = await connection.execute(select(LIST.c.collection, LIST.c.namespace, LIST.c.name))
    return {(collection, namespace, name) for collection, namespace, name in rows}


async def withdraw(connection: AsyncConnection, collection: str) -> None:
    """The collection is gone: another of its name must not inherit the permission."""
    if await _may_change(connection):
        await connection.execute(delete(LIST).where(LIST.c.collection == collection))


async def keep_for_trash(connection: AsyncConnection, collection: str, entry: str) -> None:
    """The collection goes into the trash: its permission is kept under the entry's id, and grants nothing there."""
    if await _may_change(connection):
        moved = update(LIST).where(LIST.c.collection == collection)
        await connection.execute(moved.values(collection=trash_mark(entry)))


async def _may_change(connection: AsyncConnection) -> bool:
    """Whether this role may change the list; others leave it as it is."""
    return await _is_ours(connection) and bool(await connection.scalar(MAY_CHANGE, {"list": LIST.fullname}))


async def _is_ours(connection: AsyncConnection) -> bool:
    return bool(await connection.scalar(IS_OURS, {"schema": SCHEMA}))
