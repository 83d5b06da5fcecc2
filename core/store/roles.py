"""The store's roles (viewer, judge, editor), and logging in as one of them."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

import psycopg
from psycopg import conninfo, sql
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from core.errors import ConnectionFailed, NotAllowed
from core.store.db_errors import reason
from core.store.engine import Driver, Store, driver_of
from core.store.migrations import Chain

if TYPE_CHECKING:
    from core.store.server.embedded import EmbeddedServer

VIEWER: Final = "viewer"
JUDGE: Final = "judge"
EDITOR: Final = "editor"
ROLES: Final = (VIEWER, JUDGE, EDITOR)  # each may do what the ones before it may
READERS: Final = (VIEWER, JUDGE)


def name_of(role: str, database: str) -> str:
    """The role's name on the server. It contains the database, as all databases of a server share its roles."""
    return f"rankbook_{role}_{hashlib.sha256(database.encode()).hexdigest()[:8]}"


class RoleStore(Store):
    """The store as one role sees it. What the server refuses is raised as `NotAllowed`."""

    def __init__(self, opened: Store, role: str) -> None:
        super().__init__(opened.engine, opened.server, opened.capabilities, opened.progress, opened.cluster)
        self.role, self.keeps = role, role == EDITOR

    @property
    def where(self) -> str:
        """With the role, as caches keyed by the place must not be shared between roles."""
        return f"{super().where} as {self.role}"

    @asynccontextmanager
    async def connect(self, namespace: str | None = None, *, fresh: bool = False) -> AsyncIterator[AsyncConnection]:
        try:
            async with super().connect(namespace, fresh=fresh) as connection:
                yield connection
        except (DBAPIError, psycopg.Error) as error:
            if (refusal := refused(error, self.role)) is None:
                raise
            raise refusal from error


def refused(error: BaseException, role: str) -> NotAllowed | None:
    """The error, where the server refused something for lack of a right."""
    cause = error.orig if isinstance(error, DBAPIError) else error
    if not isinstance(cause, psycopg.errors.InsufficientPrivilege):
        return None
    return NotAllowed(
        f"You are here as {role}, and {role}s may not do this ({reason(error)}). Nothing was changed. {_way_out()}"
    )


def refuse_reader(store: Store, doing: str) -> None:
    """Refuse readers something outside of the database that only editors may do."""
    if not store.keeps:
        raise NotAllowed(f"You are here as {store.role}, and only editors may {doing}. {_way_out()}")


def _way_out() -> str:
    return "Whoever runs this workbench can give you another role: access.toml says who has which."


async def opened(owner: Store, role: str, chains: Sequence[Chain] = ()) -> RoleStore:
    """The store as that role, which `grants.set_up` has made."""
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


# Rights that PostgreSQL gives to everybody. They are revoked on the embedded server only.
OURS_ALONE: Final = (
    sql.SQL("REVOKE EXECUTE ON FUNCTION lo_creat(integer), lo_create(oid), lo_from_bytea(oid, bytea) FROM PUBLIC"),
    sql.SQL("DO $$ BEGIN EXECUTE format('REVOKE TEMPORARY ON DATABASE %I FROM PUBLIC', current_database()); END $$"),
)


async def make(driver: Driver, name: str, comment: str, connections: int) -> None:
    """Make a role that may log in and nothing else, or find it; its password is derived from the owner's."""
    role = sql.Identifier(name)
    known = await (await driver.execute("SELECT FROM pg_roles WHERE rolname = %s", (name,))).fetchone()
    if known is None:
        await driver.execute(sql.SQL("CREATE ROLE {} LOGIN NOINHERIT CONNECTION LIMIT {}").format(role, connections))
        await driver.execute(sql.SQL("COMMENT ON ROLE {} IS {}").format(role, comment))
    if password := password_of(driver, name):
        # Encrypted here: the password itself never enters a statement, nor the server's log.
        secret = driver.pgconn.encrypt_password(password.encode(), name.encode(), b"scram-sha-256").decode()
        await driver.execute(sql.SQL("ALTER ROLE {} PASSWORD {}").format(role, secret))


def password_of(driver: Driver, name: str) -> str:
    """Derived from the owner's, so that processes agree on it and nothing is stored; empty where the owner has none."""
    secret = driver.info.password
    return hmac.digest(secret.encode(), name.encode(), "sha256").hex() if secret else ""


def login(owner: Store, driver: Driver, name: str) -> str:
    """The connection string for that role."""
    if owner.server is not None:
        return conninfo.make_conninfo(owner.server.conninfo(), user=name)
    parameters: dict[str, Any] = {**driver.info.get_parameters(), "user": name}
    if password := password_of(driver, name):
        parameters["password"] = password
    return conninfo.make_conninfo("", **parameters)


async def lease(owner: Store) -> EmbeddedServer | None:
    """Another lease of the embedded server, which runs as long as anybody holds one; None of another server."""
    if owner.server is None:
        return None
    from core.store.server.embedded import EmbeddedServer

    return await asyncio.to_thread(EmbeddedServer(owner.server.home).acquire, owner.progress)
