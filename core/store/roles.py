"""Viewers, judges and editors, each a login role of the server: the store as one of them sees it.

The server itself refuses what a role may not do, whatever a page would let through; that comes as a sentence. Who has
which role is none of its business. `granting` makes the roles and gives them their rights.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

import psycopg
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from core.errors import ConnectionFailed, NotAllowed
from core.store.engine import Store
from core.store.logins import driver_of, lease, login
from core.store.migrations import Chain

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
