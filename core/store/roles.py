"""The store's roles (viewer, judge, editor), and how one logs in as one of them."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, cast

import psycopg
from psycopg import conninfo, sql
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from core.errors import ConnectionFailed, NotAllowed
from core.store.engine import Store
from core.store.migrations import Chain

if TYPE_CHECKING:
    from core.store.server.embedded import EmbeddedServer

VIEWER: Final = "viewer"
JUDGE: Final = "judge"
EDITOR: Final = "editor"
ROLES: Final = (VIEWER, JUDGE, EDITOR)  # each may do what the ones before it may
READERS: Final = (VIEWER, JUDGE)


def name_of(role: str, database: str) -> str:
    """One a database: all databases of a server share its roles."""
    return f"rankbook_{role}_{hashlib.sha256(database.encode()).hexdigest()[:8]}"


class RoleStore(Store):
    """The store as one role sees it. What the server refuses it comes as a sentence."""

    def __init__(self, opened: Store, role: str) -> None:
        super().__init__(opened.engine, opened.server, opened.capabilities, opened.progress, opened.cluster)
        self.role, self.keeps = role, role == EDITOR

    @property
    def where(self) -> str:
        """With the role: what is found by where it is must not pass from one to another."""
        return f"{super().where} as {self.role}"

    @asynccontextmanager
    async def connect(self, namespace: str | None = None, *, fresh: bool = False) -> AsyncIterator[AsyncConnection]:
        try:
            async with super().connect(namespace, fresh=fresh) as connection:
                yield connection
        except (DBAPIError, psycopg.Error) as error:
            if (told := refused(error, self.role)) is None:
                raise
            raise told from error


def refused(error: BaseException, role: str) -> NotAllowed | None:
    """The sentence, where the server refused something for want of a right."""
    cause = error.orig if isinstance(error, DBAPIError) else error
    if not isinstance(cause, psycopg.errors.InsufficientPrivilege):
        return None
    said = str(cause).strip().partition("\n")[0]
    return NotAllowed(
        f"You are here as {role}, and {role}s may not do this ({said}). Nothing was changed. {_way_out()}"
    )


def refuse_reader(store: Store, doing: str) -> None:
    """For what is not in the database and only editors may do."""
    if not store.keeps:
        raise NotAllowed(f"You are here as {store.role}, and only editors may {doing}. {_way_out()}")


def _way_out() -> str:
    return "Whoever runs this workbench can give you another role: access.toml says who has which."


async def opened(owner: Store, role: str, chains: Sequence[Chain] = ()) -> RoleStore:
    """The store as that role, which `granting.set_up` has made."""
    async with owner.begin() as connection:
        driver = await driver_of(connection)
        name = name_of(role, driver.info.dbname)
        string = login(owner, driver, name)
    try:
        store = await Store.open(string, chains=chains, server=await lease(owner), progress=owner.progress)
    except ConnectionFailed as error:
        reason = str(error).split(" Check ")[0].rstrip(".")
        raise ConnectionFailed(
            f"The role {name} cannot log in. {reason}. Let the server's pg_hba.conf take it as it takes the owner."
        ) from None
    return RoleStore(store, role)


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
    from core.store.server.embedded import EmbeddedServer

    return await asyncio.to_thread(EmbeddedServer(owner.server.home).acquire, owner.progress)
