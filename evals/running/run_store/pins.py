"""Baselines by name, and what goes: runs are pinned, unpinned, removed and pruned. A pinned run is never dropped."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import delete, func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from core.errors import InputError, StoreError, UnknownName
from core.store.engine import Store
from core.store.schema import Collection
from evals.running.run_store.found import SHOWN, listed
from evals.running.run_store.kept import get
from evals.store import Pin, RankingBatch, StoredRun


async def pin(store: Store, identity: str, name: str) -> None:
    """Make the run the baseline of that name, in the place of the one that was."""
    if not name.strip():
        raise InputError("A baseline needs a name, such as main.")
    if await get(store, identity) is None:
        raise UnknownName("run", identity, [run.id for run in await listed(store)])
    statement = insert(Pin).values(name=name, run=identity)
    moved = {"run": statement.excluded.run, "pinned_at": func.now()}
    async with store.begin() as connection:
        await connection.execute(statement.on_conflict_do_update(index_elements=["name"], set_=moved))


async def unpin(store: Store, name: str) -> None:
    async with store.begin() as connection:
        gone = (await connection.execute(delete(Pin).where(Pin.name == name))).rowcount
    if not gone:
        raise UnknownName("baseline", name, await pinned(store))


async def pinned(store: Store) -> dict[str, str]:
    """Each baseline's name, and the id of its run."""
    async with store.begin(read_only=True) as connection:
        rows = await connection.execute(select(Pin.name, Pin.run).order_by(Pin.name))
        return {row.name: row.run for row in rows}


async def remove(store: Store, identity: str) -> None:
    """One run. A pinned one is refused."""
    names = [name for name, run in (await pinned(store)).items() if run == identity]
    if names:
        raise StoreError(f"The run {identity[:SHOWN]} is the baseline {names[0]!r}. Unpin it first.")
    async with store.begin() as connection:
        await connection.execute(delete(StoredRun).where(StoredRun.id == identity))


async def prune(store: Store, *, keep: int = 1, before: datetime | None = None, collection: str | None = None) -> int:
    """Drop runs but the newest `keep` of each name over one split, or only those made before; how many went.

    Pinned ones stay. What was kept of legs of collections that are gone goes with them.
    """
    alike = (StoredRun.collection, StoredRun.query_set, StoredRun.split, StoredRun.name)
    place = func.row_number().over(partition_by=alike, order_by=(StoredRun.used_at.desc(), StoredRun.id))
    places = select(StoredRun.id, place.label("place")).subquery()
    gone = delete(StoredRun).where(
        StoredRun.id.in_(select(places.c.id).where(places.c.place > keep)),
        StoredRun.id.not_in(select(Pin.run)),
    )
    if before is not None:
        gone = gone.where(StoredRun.created_at < before)
    if collection is not None:
        gone = gone.where(StoredRun.collection == collection)
    async with store.begin() as connection:
        await _forget_lost(connection)
        return (await connection.execute(gone)).rowcount


async def _forget_lost(connection: AsyncConnection) -> None:
    there = select(Collection.name)
    await connection.execute(delete(RankingBatch).where(RankingBatch.collection.not_in(there)))
