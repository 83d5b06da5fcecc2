"""Roles that may log in: made or found, with a password where the owner has one, and how to connect as them.

Owns no right: what a role may do, its maker grants (`granting`, and the demo). `OURS_ALONE` is what everybody loses.
"""

from __future__ import annotations

import asyncio
import hmac
from typing import TYPE_CHECKING, Any, Final, cast

import psycopg
from psycopg import conninfo, sql
from sqlalchemy.ext.asyncio import AsyncConnection

from core.store.engine import Store

if TYPE_CHECKING:
    from core.store.server import EmbeddedServer

Driver = psycopg.AsyncConnection[Any]

# What PostgreSQL lets everybody do. Only of a server that is ours may it be taken away.
OURS_ALONE: Final = (
    sql.SQL("REVOKE EXECUTE ON FUNCTION lo_creat(integer), lo_create(oid), lo_from_bytea(oid, bytea) FROM PUBLIC"),
    sql.SQL("DO $$ BEGIN EXECUTE format('REVOKE TEMPORARY ON DATABASE %I FROM PUBLIC', current_database()); END $$"),
)


async def make(driver: Driver, name: str, comment: str, connections: int) -> None:
    """A role that may log in and nothing else, or the one that is there, with the password that follows from ours."""
    role = sql.Identifier(name)
    known = await (await driver.execute("SELECT FROM pg_roles WHERE rolname = %s", (name,))).fetchone()
    if known is None:
        await driver.execute(sql.SQL("CREATE ROLE {} LOGIN NOINHERIT CONNECTION LIMIT {}").format(role, connections))
        await driver.execute(sql.SQL("COMMENT ON ROLE {} IS {}").format(role, comment))
    if password := password_of(driver, name):
        # Made unreadable here: the password itself never enters a statement, nor the server's log.
        secret = driver.pgconn.encrypt_password(password.encode(), name.encode(), b"scram-sha-256").decode()
        await driver.execute(sql.SQL("ALTER ROLE {} PASSWORD {}").format(role, secret))


def password_of(driver: Driver, name: str) -> str:
    """Follows from the owner's, so that two processes agree on it and nothing has to be kept. None needs none."""
    secret = driver.info.password
    return hmac.digest(secret.encode(), name.encode(), "sha256").hex() if secret else ""


def login(owner: Store, driver: Driver, name: str) -> str:
    """How to connect as that role."""
    if owner.server is not None:
        return conninfo.make_conninfo(owner.server.conninfo(), user=name)
    parameters: dict[str, Any] = {**driver.info.get_parameters(), "user": name}
    if password := password_of(driver, name):
        parameters["password"] = password
    return conninfo.make_conninfo("", **parameters)


async def driver_of(connection: AsyncConnection) -> Driver:
    raw = await connection.get_raw_connection()
    return cast("Driver", raw.driver_connection)


async def lease(owner: Store) -> EmbeddedServer | None:
    """The embedded server stays as long as somebody holds a lease, and the owner's may be given back."""
    if owner.server is None:
        return None
    from core.store.server import EmbeddedServer

    return await asyncio.to_thread(EmbeddedServer(owner.server.home).acquire, owner.progress)
