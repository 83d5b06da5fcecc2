"""The demo's own database role: it reads one collection and writes votes, and the server itself refuses it the rest.

Owns the role, its privileges, the store that is opened as it, and the proof that it can do no more. Roles outlive a
demo: each start makes them anew, or finds them. On the embedded server, which is ours alone, even temporary tables and
large objects are taken from it; on somebody else's those two stay as their administrator left them.
"""

from __future__ import annotations

import hashlib
import os
from typing import Final

import psycopg
from psycopg import conninfo, sql
from sqlalchemy import Connection, event
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from core.errors import ConnectionFailed, MissingCapability, NotAllowed, StoreError
from core.store import collections, readable_tables
from core.store.attached import Attachment
from core.store.collections import CollectionView
from core.store.engine import Store
from core.store.grants import can_read, not_allowed, record_missing
from core.store.roles import OURS_ALONE, Driver, driver_of, lease, login, make
from core.store.schema import CATALOG
from workbench.demo.privileges import EXCESS, LACKING, READ, SETTINGS, grants

DSN: Final = "RANKBOOK_DEMO_DSN"
PREFIX: Final = "rankbook_demo_"
CONNECTIONS: Final = 60  # of all demos of a collection together, so that others find a place too
LOCK: Final = 0x64656D6F  # one demo at a time sets up its role: grants on one table from two sides collide


async def opened(owner: Store, view: CollectionView) -> Store:
    """The store as the demo's own role sees it; by RANKBOOK_DEMO_DSN where somebody else made the role."""
    given = os.environ.get(DSN, "").strip()
    string = await _allowed(owner, view, given) if given else await _made(owner, view)
    try:
        store = await Store.open(string, server=await lease(owner), progress=owner.progress)
    except ConnectionFailed as error:
        reason = str(error).split(" Check ")[0].rstrip(".")
        raise ConnectionFailed(f"The demo's own role cannot log in. {reason}. {_way_in()}") from None
    try:
        _begin_read_only(store.engine)
        await _check(store)
        await collections.get(store, view.name)
    except BaseException:
        await store.close()
        raise
    return store


def _way_in() -> str:
    return f"Make a role that may log in, and set {DSN} to its connection string: `rankbook demo --help` says more."


def _begin_read_only(engine: AsyncEngine) -> None:
    """A second belt: each transaction begins read-only, and only the one that keeps a vote says otherwise."""

    def begin(connection: Connection) -> None:
        connection.exec_driver_sql("SET TRANSACTION READ ONLY")

    event.listen(engine.sync_engine, "begin", begin)


# -- made ------------------------------------------------------------------------------------------------------------


async def _made(owner: Store, view: CollectionView) -> str:
    """The role, made or found, with its privileges; and how to connect as it."""
    async with owner.begin() as connection:
        driver = await driver_of(connection)
        role = role_of(driver.info.dbname, view)
        try:
            await _set_up(connection, role, view, ours=owner.server is not None)
        except psycopg.errors.InsufficientPrivilege as error:
            raise MissingCapability(_refused(driver, role, view, error)) from error
        return login(owner, driver, role)


def role_of(database: str, view: CollectionView) -> str:
    """One a collection, so that a demo of one reads nothing of another. All databases of a server share its roles."""
    return PREFIX + hashlib.sha256(f"{database}\0{view.namespace}".encode()).hexdigest()[:10]


async def _set_up(connection: AsyncConnection, role: str, view: CollectionView, *, ours: bool) -> None:
    name, driver = sql.Identifier(role), await driver_of(connection)
    await driver.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK,))
    await make(driver, role, f"rankbook demo {view.name}", CONNECTIONS)
    await _refuse_unreadable(connection, role, view)
    for setting, value in SETTINGS.items():
        await driver.execute(sql.SQL("ALTER ROLE {} SET {} = {}").format(name, sql.Identifier(setting), value))
    if view.row.attached is not None:
        await record_missing(driver, Attachment.of(view).table, role, view.name)
    for statement in (*(OURS_ALONE if ours else ()), *grants(role, view)):
        await driver.execute(statement)


async def _refuse_unreadable(connection: AsyncConnection, role: str, view: CollectionView) -> None:
    """Strangers read somebody's table where its owner let it be read, or gave it to the role already."""
    if view.row.attached is None:
        return
    table = Attachment.of(view).table
    leave = (view.name, table.namespace, table.table)
    known = leave in await readable_tables.allowed(connection)
    if not known and not await can_read(await driver_of(connection), role, table):
        raise NotAllowed(not_allowed(view.name, table))


def _refused(driver: Driver, role: str, view: CollectionView, error: psycopg.Error) -> str:
    create = sql.SQL("CREATE ROLE {} LOGIN PASSWORD '...'").format(sql.Identifier(role))
    told = "; ".join(each.as_string(None) for each in (create, *grants(role, view)))
    reason = error.diag.message_primary or type(error).__name__
    return (
        f"The demo connects as a role of its own, which the role {driver.info.user} may not set up ({reason}). Ask an "
        f"administrator to run: {told}; Then set {DSN} to a connection string with that role and its password."
    )


# -- given and checked -----------------------------------------------------------------------------------------------


async def _allowed(owner: Store, view: CollectionView, string: str) -> str:
    """A role that somebody else made, given what it lacks, if we may give it."""
    try:
        role = str(conninfo.conninfo_to_dict(string).get("user") or "")
    except psycopg.ProgrammingError:
        role = ""  # the cause would repeat the string, password included
    if not role:
        raise ConnectionFailed(
            f"{DSN} is not a connection string with a user: postgresql://user:password@host/database"
        )
    async with owner.begin() as connection:
        driver = await driver_of(connection)
        try:
            if not await _lacks(driver, role, view):
                return string
            await _refuse_unreadable(connection, role, view)
            await driver.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK,))
            for statement in grants(role, view):
                await driver.execute(statement)
        except psycopg.errors.UndefinedObject:
            raise ConnectionFailed(f"The server of the store knows no role {role!r}, which {DSN} names.") from None
        except psycopg.errors.InsufficientPrivilege as error:
            raise MissingCapability(_refused(driver, role, view, error)) from error
    return string


async def _lacks(driver: Driver, role: str, view: CollectionView) -> bool:
    """Whether the role cannot do yet what it has to."""
    schemas = [CATALOG, view.namespace]
    tables = [sql.Identifier(CATALOG, table).as_string(None) for table in READ]
    row = await (await driver.execute(LACKING, {"role": role, "schemas": schemas, "tables": tables})).fetchone()
    return row is None or bool(row[0]) or view.row.attached is not None


async def _check(store: Store) -> None:
    """It may write nothing that it should not, whoever made it."""
    async with store.begin() as connection:
        user = (await driver_of(connection)).info.user
        excess = (await connection.execute(EXCESS, {"catalog": CATALOG})).scalar()
    if excess is not None:
        raise StoreError(
            f"The demo's role {user} {excess}. A demo may write votes and nothing else: take that from it, or set "
            f"{DSN} to the connection string of another role."
        )
