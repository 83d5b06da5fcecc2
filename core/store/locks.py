"""One writer a collection at a time, by a lock of the server's. Knows nothing of what is written."""

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
    """One connection that holds the writer locks of these collections; a second writer of one is told so."""
    async with store.connect(namespace) as connection:
        try:
            for name in names:
                if not await take_lock(connection, name):
                    raise busy(name)
            yield connection
        finally:
            await give_lock(connection)


async def take_lock(connection: AsyncConnection, name: str) -> bool:
    """One writer a collection. The lock belongs to the connection and goes with it, however that ends."""
    give_up = time.monotonic() + LOCK_PATIENCE
    while True:
        async with connection.begin():
            taken = await connection.scalar(text(f"SELECT pg_try_advisory_lock({WRITER_LOCK})"), {"name": name})
        if taken or time.monotonic() > give_up:
            return bool(taken)
        await asyncio.sleep(0.05)


async def give_lock(connection: AsyncConnection) -> None:
    """Before the connection goes back to the pool. A broken one has lost its locks already."""
    with contextlib.suppress(DBAPIError):
        async with connection.begin():
            await connection.execute(text("SELECT pg_advisory_unlock_all()"))


def busy(name: str) -> StoreError:
    """What a second writer is told."""
    return StoreError(f"Another process is loading the collection {name!r}. Wait until it is done.")


async def check_watermark(
    connection: AsyncConnection, name: str, reached: Select[*tuple[Any, ...]], known: Sequence[Any]
) -> None:
    """Hold the rows that say how far a load is, and refuse where they say otherwise than this load knows.

    Whoever lost the lock with its connection, and whoever went on while the last commit of one that was killed was
    still under way, would store the same again.
    """
    if [tuple(row) for row in await connection.execute(reached.with_for_update())] != [tuple(each) for each in known]:
        raise StoreError(
            f"Another process went on loading the collection {name!r} meanwhile. What both stored until then is kept: "
            "run the same command again."
        )


async def require_no_writer(connection: AsyncConnection, name: str) -> None:
    """A writer knows the sets it began with: one that came or went meanwhile would be left with holes."""
    taken = await connection.scalar(text(f"SELECT pg_try_advisory_xact_lock({WRITER_LOCK})"), {"name": name})
    if not taken:
        raise busy(name)


async def is_being_loaded(store: Store, name: str) -> bool:
    """Whether a writer is at work. Looks at the locks and takes none: a writer must not be turned away by a look."""
    async with store.begin(read_only=True) as connection:
        return bool(await connection.scalar(text(WRITERS), {"name": name}))
