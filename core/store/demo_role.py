"""The demo's own database role: it reads one collection and writes its few tables; the server refuses everything else.

Owns the role, its privileges, the store opened as it, and the check that it can do no more. A role outlives the demo:
each start makes it or finds it. On the embedded server, temporary tables and large objects are taken from it too; on
any other server those two stay as the administrator left them.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import psycopg
from psycopg import conninfo, sql
from sqlalchemy import Connection, event, text
from sqlalchemy.ext.asyncio import AsyncConnection

from core.errors import ConnectionFailed, MissingCapability, NotAllowed, StoreError
from core.store import collections, readable_tables
from core.store.attached.mapping import Attachment
from core.store.collections import CollectionView
from core.store.engine import Driver, Store, driver_of
from core.store.grants import can_read, not_allowed, record_missing
from core.store.roles import OURS_ALONE, lease, login, make
from core.store.schema import CATALOG

DSN: Final = "RANKBOOK_DEMO_DSN"
PREFIX: Final = "rankbook_demo_"
CONNECTIONS: Final = 60  # of all demos of a collection together, so that others find a place too
LOCK: Final = 0x64656D6F  # one demo at a time sets up its role: grants on one table from two sides collide
SETTINGS: Final = {
    "default_transaction_read_only": "on",
    "statement_timeout": "30s",
    "idle_in_transaction_session_timeout": "60s",
}

# Whether a role lacks anything that it has to have; of an attached table that is only found out by granting.
LACKING: Final = """
    SELECT NOT (
        has_table_privilege(%(role)s, %(written)s, 'INSERT')
        AND (SELECT bool_and(has_column_privilege(%(role)s, %(written)s, name, 'UPDATE'))
             FROM unnest(%(columns)s::text[]) AS name)
        AND (SELECT bool_and(has_table_privilege(%(role)s, name, 'SELECT')) FROM unnest(%(tables)s::text[]) AS name)
        AND coalesce((
            SELECT bool_and(has_schema_privilege(%(role)s, places.oid, 'USAGE')
                            AND (nspname = 'rankbook' OR has_table_privilege(%(role)s, pg_class.oid, 'SELECT')))
            FROM pg_namespace AS places JOIN pg_class ON relnamespace = places.oid AND relkind = 'r'
            WHERE nspname = ANY (%(schemas)s)
        ), true)
    )
"""
# Whatever the role, or one that it could become, may write besides its table; one line of it is enough to refuse.
EXCESS: Final = text(
    """
    WITH mine AS (
        SELECT oid, rolname, rolsuper OR rolcreaterole OR rolcreatedb OR rolreplication
               OR rolname IN ('pg_execute_server_program', 'pg_write_server_files') AS mighty
        FROM pg_roles WHERE pg_has_role(current_user, oid, 'MEMBER')
    ), places AS (
        SELECT oid, nspname FROM pg_namespace WHERE nspname !~ '^pg_' AND nspname <> 'information_schema'
    )
    SELECT 'is or may become the role ' || rolname || ', which rules the server' FROM mine WHERE mighty
    UNION ALL
    SELECT 'may create schemas in this database' FROM mine
    WHERE has_database_privilege(oid, current_database(), 'CREATE')
    UNION ALL
    SELECT 'may create things in the schema ' || nspname FROM mine, places
    WHERE has_schema_privilege(mine.oid, places.oid, 'CREATE')
    UNION ALL
    SELECT 'may write to ' || nspname || '.' || relname
    FROM mine, places JOIN pg_class ON relnamespace = places.oid AND relkind IN ('r', 'p', 'v', 'f')
    WHERE has_table_privilege(mine.oid, pg_class.oid, 'DELETE, TRUNCATE')
       OR has_any_column_privilege(mine.oid, pg_class.oid, 'INSERT, UPDATE')
          AND NOT (nspname = :catalog AND relname = :written)
    LIMIT 1
    """
)


@dataclass(frozen=True, slots=True)
class DemoRights:
    """The catalogue's tables that a demo reads, and the one it inserts into, with the columns that it may update."""

    reads: tuple[str, ...]
    writes: str
    updates: tuple[str, ...]


async def open_demo(owner: Store, view: CollectionView, rights: DemoRights) -> Store:
    """The store as the demo's own role sees it; by RANKBOOK_DEMO_DSN where somebody else made the role."""
    given = os.environ.get(DSN, "").strip()
    string = await _grant_to(owner, view, rights, given) if given else await _make_role(owner, view, rights)
    try:
        store = await Store.open(string, server=await lease(owner), progress=owner.progress)
    except ConnectionFailed as error:
        reason = str(error).split(" Check ")[0].rstrip(".")
        raise ConnectionFailed(
            f"The demo's own role cannot log in. {reason}. Make a role that may log in, and set {DSN} to its "
            "connection string: `rankbook demo --help` says more."
        ) from None
    try:
        # A second protection: each transaction begins read-only, and only the one that keeps a vote says otherwise.
        event.listen(store.engine.sync_engine, "begin", _begin_read_only)
        await _refuse_excess(store, rights)
        await collections.get(store, view.name)
    except BaseException:
        await store.close()
        raise
    return store


def _begin_read_only(connection: Connection) -> None:
    connection.exec_driver_sql("SET TRANSACTION READ ONLY")


async def _refuse_excess(store: Store, rights: DemoRights) -> None:
    """Refuse a role that may write more than its table, whoever made it."""
    async with store.begin() as connection:
        user = (await driver_of(connection)).info.user
        excess = await connection.scalar(EXCESS, {"catalog": CATALOG, "written": rights.writes})
    if excess is not None:
        raise StoreError(
            f"The demo's role {user} {excess}. A demo may write votes and nothing else: take that from it, or set "
            f"{DSN} to the connection string of another role."
        )


async def _make_role(owner: Store, view: CollectionView, rights: DemoRights) -> str:
    """Make the role or find it, with its privileges; gives the connection string to connect as it."""
    async with owner.begin() as connection:
        driver = await driver_of(connection)
        role = role_of(driver.info.dbname, view)
        statements = grants(role, view, rights)
        try:
            await driver.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK,))
            await make(driver, role, f"rankbook demo {view.name}", CONNECTIONS)
            await _refuse_unreadable(connection, role, view)
            for setting, value in SETTINGS.items():
                changed = sql.SQL("ALTER ROLE {} SET {} = {}")
                await driver.execute(changed.format(sql.Identifier(role), sql.Identifier(setting), value))
            if view.row.attached is not None:
                await record_missing(driver, Attachment.of(view).table, role, view.name)
            for statement in (*(OURS_ALONE if owner.server is not None else ()), *statements):
                await driver.execute(statement)
        except psycopg.errors.InsufficientPrivilege as error:
            raise _not_permitted(driver, role, statements, error) from error
        return login(owner, driver, role)


def role_of(database: str, view: CollectionView) -> str:
    """One a collection, so that a demo of one reads nothing of another. All databases of a server share its roles."""
    return PREFIX + hashlib.sha256(f"{database}\0{view.namespace}".encode()).hexdigest()[:10]


async def _grant_to(owner: Store, view: CollectionView, rights: DemoRights, string: str) -> str:
    """Grant what it lacks to a role that somebody else made; gives its connection string back."""
    try:
        role = str(conninfo.conninfo_to_dict(string).get("user") or "")
    except psycopg.ProgrammingError:
        role = ""  # the cause would repeat the string, password included
    if not role:
        raise ConnectionFailed(
            f"{DSN} is not a connection string with a user: postgresql://user:password@host/database"
        )
    needed = {
        "role": role,
        "schemas": [CATALOG, view.namespace],
        "tables": [_in_catalog(table) for table in rights.reads],
        "written": _in_catalog(rights.writes),
        "columns": list(rights.updates),
    }
    async with owner.begin() as connection:
        driver, statements = await driver_of(connection), grants(role, view, rights)
        try:
            row = await (await driver.execute(LACKING, needed)).fetchone()
            if row is not None and not row[0] and view.row.attached is None:
                return string
            await _refuse_unreadable(connection, role, view)
            await driver.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK,))
            for statement in statements:
                await driver.execute(statement)
        except psycopg.errors.UndefinedObject:
            raise ConnectionFailed(f"The server of the store knows no role {role!r}, which {DSN} names.") from None
        except psycopg.errors.InsufficientPrivilege as error:
            raise _not_permitted(driver, role, statements, error) from error
    return string


def _in_catalog(table: str) -> str:
    return sql.Identifier(CATALOG, table).as_string(None)


async def _refuse_unreadable(connection: AsyncConnection, role: str, view: CollectionView) -> None:
    """Visitors read an attached table only where its owner allowed it, or granted it to the role already."""
    if view.row.attached is None:
        return
    table = Attachment.of(view).table
    leave = (view.name, table.namespace, table.table)
    known = leave in await readable_tables.allowed(connection)
    if not known and not await can_read(await driver_of(connection), role, table):
        raise NotAllowed(not_allowed(view.name, table))


def _not_permitted(
    driver: Driver, role: str, statements: Sequence[sql.Composed], error: psycopg.Error
) -> MissingCapability:
    create = sql.SQL("CREATE ROLE {} LOGIN PASSWORD '...'").format(sql.Identifier(role))
    to_run = "; ".join(each.as_string(None) for each in (create, *statements))
    reason = error.diag.message_primary or type(error).__name__
    return MissingCapability(
        f"The demo connects as a role of its own, which the role {driver.info.user} may not set up ({reason}). Ask an "
        f"administrator to run: {to_run}; Then set {DSN} to a connection string with that role and its password."
    )


def grants(role: str, view: CollectionView, rights: DemoRights) -> list[sql.Composed]:
    """All that the role may do, as statements."""
    name, catalog = sql.Identifier(role), sql.Identifier(CATALOG)
    read = sql.SQL(", ").join(sql.Identifier(CATALOG, table) for table in rights.reads)
    updated = sql.SQL(", ").join(map(sql.Identifier, rights.updates))
    written = sql.Identifier(CATALOG, rights.writes)
    statements = [
        sql.SQL("GRANT USAGE ON SCHEMA {} TO {}").format(catalog, name),
        sql.SQL("GRANT SELECT ON {} TO {}").format(read, name),
        sql.SQL("GRANT INSERT, UPDATE ({}) ON {} TO {}").format(updated, written, name),
    ]
    attachment = Attachment.of(view) if view.row.attached is not None else None
    if attachment is not None:
        table = sql.Identifier(attachment.table.namespace, attachment.table.table)
        schema = sql.Identifier(attachment.table.namespace)
        statements.append(sql.SQL("GRANT USAGE ON SCHEMA {} TO {}").format(schema, name))
        statements.append(sql.SQL("GRANT SELECT ON {} TO {}").format(table, name))
    if attachment is None or attachment.aside is not None:
        own = sql.Identifier(view.namespace)
        statements.append(sql.SQL("GRANT USAGE ON SCHEMA {} TO {}").format(own, name))
        statements.append(sql.SQL("GRANT SELECT ON ALL TABLES IN SCHEMA {} TO {}").format(own, name))
    return statements
