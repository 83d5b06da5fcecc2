"""One writer a collection at a time, by an advisory lock of the server."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from sqlalchemy import Select, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from core.errors import StoreError
from core.store.engine import Store

LOCK_PATIENCE = 2.0  # the server takes a moment to notice that a writer was killed
WRITER_LOCK = "hashtextextended(:name, 7)"
WRITERS = """
SELECT count(*)
FROM pg_locks JOIN pg_database AS here ON here.oid = pg_locks.database
WHERE locktype = 'advisory' AND objsubid = 1 AND granted AND datname = current_database()
  AND (CAST(classid AS bigint) << 32) | CAST(objid AS bigint) = {lock}
""".replace("{lock}", WRITER_LOCK)


@asynccontextmanager
async def writer_lock(store: Store, *names: str, namespace: str | None = None) -> AsyncIterator[AsyncConnection]:
    """One connection that holds the writer locks of these collections; a second writer is refused."""
    async with store.connect(namespace) as connection:
        try:
            for name in names:
                if not await take_lock(connection, name):
                    raise busy(name)
            yield connection
        finally:
            await give_lock(connection)


async def take_lock(connection: AsyncConnection, name: str) -> bool:
    """Whether the lock was taken within LOCK_PATIENCE. It ends with the connection, however that ends."""
    give_up = time.monotonic() + LOCK_PATIENCE
    while True:
        async with connection.begin():
            taken = await connection.scalar(text(f"SELECT pg_try_advisory_lock({WRITER_LOCK})"), {"name": name})
        if taken or time.monotonic() > give_up:
            return bool(taken)
        await asyncio.sleep(0.05)


async def give_lock(connection: AsyncConnection) -> None:
    """Release all locks before the connection returns to the pool. A broken one has lost them already."""
    with contextlib.suppress(DBAPIError):
        async with connection.begin():
            await connection.execute(text("SELECT pg_advisory_unlock_all()"))


def busy(name: str) -> StoreError:
    """The error for a second writer."""
    return StoreError(f"Another process is loading the collection {name!r}. Wait until it is done.")


async def check_watermark(
    connection: AsyncConnection, name: str, reached: Select[*tuple[Any, ...]], known: Sequence[Any]
) -> None:
    """Lock the rows that say how far a load has come, and refuse where they differ from what this load knows.

    A writer that lost its lock with its connection, or that continued while the last commit of a killed one was still
    under way, would store the same rows again.
    """
    if [tuple(row) for row in await connection.execute(reached.with_for_update())] != [tuple(each) for each in known]:
        raise StoreError(
            f"Another process went on loading the collection {name!r} meanwhile. What both stored until then is kept: "
            "run the same command again."
        )


async def require_no_writer(connection: AsyncConnection, name: str) -> None:
    """Refuse where a writer is at work: it knows the sets it began with, and would leave gaps in a new one."""
    taken = await connection.scalar(text(f"SELECT pg_try_advisory_xact_lock({WRITER_LOCK})"), {"name": name})
    if not taken:
        raise busy(name)


async def is_being_loaded(store: Store, name: str) -> bool:
    """Whether a writer is at work. Reads the locks and takes none, so that no writer is refused because of it."""
    async with store.begin(read_only=True) as connection:
        return bool(await connection.scalar(text(WRITERS), {"name": name}))
