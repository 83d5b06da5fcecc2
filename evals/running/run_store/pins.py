"""Baselines by name, and what goes: runs are pinned, unpinned, removed and pruned. A pinned run is never dropped."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Text, delete, func, literal, select
from sqlalchemy.dialects.postgresql import ARRAY, insert
from sqlalchemy.ext.asyncio import AsyncConnection

from core.errors import InputError, StoreError, UnknownName
from core.store.engine import Store
from core.store.schema import Collection
from evals.running.run_store.found import SHOWN, Summary, listed, place
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
    runs = await listed(store, collection=collection)
    stay = _newest_of_each_name(runs, keep)
    old = [run.id for run in runs if run.id not in stay and (before is None or run.made_at < before)]
    gone = delete(StoredRun).where(StoredRun.id == func.any(literal(old, ARRAY(Text(collation="C")))))
    async with store.begin() as connection:
        await _forget_lost(connection)
        return (await connection.execute(gone.where(StoredRun.id.not_in(select(Pin.run))))).rowcount


def _newest_of_each_name(runs: Sequence[Summary], keep: int) -> set[str]:
    """The ids of the runs that were used last under one of their names, so many of each name and place."""
    alike: dict[tuple[str, ...], list[Summary]] = {}
    for run in runs:
        for name in run.names:
            alike.setdefault((*place(run), name), []).append(run)
    return {
        run.id
        for (*_, name), each in alike.items()
        for run in sorted(each, key=lambda run: (run.last_used(name), run.id), reverse=True)[:keep]
    }


async def _forget_lost(connection: AsyncConnection) -> None:
    there = select(Collection.name)
    await connection.execute(delete(RankingBatch).where(RankingBatch.collection.not_in(there)))
