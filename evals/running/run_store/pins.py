"""Baselines by name, and what goes: runs are pinned, unpinned, removed, pruned, and brought back out of the trash.

A pinned run is never dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import groupby
from typing import Final

from sqlalchemy import delete, func, literal, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.orm import aliased

from core.errors import InputError, StoreError, UnknownName
from core.store import trash
from core.store.engine import Store
from core.store.names import trash_mark
from core.store.schema import Collection
from core.store.trash_entries import Entry, new_id
from evals.running.run_store.found import NOT_IN_TRASH, SHOWN, Summary, listed, place
from evals.running.run_store.kept import get
from evals.store import Pin, RankingBatch, StoredRun

DIGITS: Final = 32  # of a run's id


async def pin(store: Store, identity: str, name: str) -> None:
    """Make the run the baseline of that name, in the place of the one that was."""
    if not name.strip():
        raise InputError("A baseline needs a name, such as main.")
    if await get(store, identity) is None:
        raise UnknownName("run", identity, [run.id for run in await listed(store)])
    statement = insert(Pin).values(name=name, run=identity)
    moved = {"run": statement.excluded.run, "pinned_at": func.now()}
    try:
        async with store.begin() as connection:
            await connection.execute(statement.on_conflict_do_update(index_elements=["name"], set_=moved))
    except IntegrityError:
        raise StoreError(f"The run {identity[:SHOWN]} was deleted at this moment: `rankbook trash` lists it.") from None


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


async def remove(store: Store, identity: str, *, by: str = "") -> Entry:
    """One run, into the trash. A pinned one is refused."""
    names = [name for name, run in (await pinned(store)).items() if run == identity]
    if names:
        raise StoreError(f"The run {identity[:SHOWN]} is the baseline {names[0]!r}. Unpin it first.")
    async with store.begin() as connection:
        moved = await _into_trash(connection, [identity], by)
    if not moved:
        raise StoreError(f"The run {identity[:SHOWN]} was deleted or pinned at this moment: see `rankbook runs list`.")
    return moved[0]


async def prune(
    store: Store, *, keep: int = 1, before: datetime | None = None, collection: str | None = None, by: str = ""
) -> list[Entry]:
    """Runs into the trash but the newest `keep` of each name over one split, or only those made before.

    An entry for each collection. Pinned ones stay. What was kept of legs of collections that are gone goes for good.
    """
    runs = await listed(store, collection=collection)
    stay = _newest_of_each_name(runs, keep)
    old = [run.id for run in runs if run.id not in stay and (before is None or run.made_at < before)]
    async with store.begin() as connection:
        await _forget_lost(connection)
        return await _into_trash(connection, old, by)


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


# -- into the trash, and out of it -------------------------------------------------------------------------------------


async def _into_trash(connection: AsyncConnection, ids: Sequence[str], by: str) -> list[Entry]:
    """Those of them that nobody pinned: their ids and collections become the entry's, so that nothing finds them."""
    free = StoredRun.id.not_in(select(Pin.run))
    size = func.pg_column_size(StoredRun.rankings)
    columns = select(StoredRun.id, StoredRun.name, StoredRun.collection, size.label("size"))
    runs = columns.where(StoredRun.id.in_(ids), NOT_IN_TRASH, free).order_by(StoredRun.collection, StoredRun.id)
    entries = []
    locked = list(await connection.execute(runs.with_for_update()))
    for collection, group in groupby(locked, lambda row: str(row.collection)):
        rows, identity = list(group), new_id()
        mark = trash_mark(identity)
        moved = update(StoredRun).where(StoredRun.id.in_([row.id for row in rows]))
        try:
            await connection.execute(moved.values(id=func.concat(f"{mark}/", StoredRun.id), collection=mark))
        except IntegrityError:
            raise StoreError("A run was pinned at this moment, so none was deleted. Do it again.") from None
        one = len(rows) == 1
        entries.append(
            await trash.add_entry(
                connection,
                "run" if one else "runs",
                rows[0].name if one else "",
                collection,
                identity=identity,
                count=len(rows),
                size=sum(row.size for row in rows),
                by=by,
                details={"run": rows[0].id} if one else {},
            )
        )
    return entries


async def restore(connection: AsyncConnection, entry: Entry) -> int:
    """Runs of an entry back under their ids, in the transaction that claims it; how many stay in the trash.

    One that was made again since has its id, and stays as it is now.
    """
    mark = trash_mark(entry.id)
    old_id = func.substr(StoredRun.id, len(mark) + 2)
    other = aliased(StoredRun)
    free = select(StoredRun.id).where(
        StoredRun.collection == mark, ~select(other.id).where(other.id == old_id).exists()
    )
    ids = list(await connection.scalars(free))
    if not ids:
        raise StoreError(
            f"What was evaluated again since stands in the place of the {entry.title}: it is the same variant over the "
            "same data. Delete that first (`rankbook runs delete`), if it is the old one that you want."
        )
    restored = update(StoredRun).where(StoredRun.id.in_(ids)).values(id=old_id, collection=entry.collection)
    try:
        await connection.execute(restored)
    except IntegrityError:
        raise StoreError(f"The {entry.title} was evaluated again at this moment. Bring it back again.") from None
    left = select(func.count(), func.coalesce(func.sum(func.pg_column_size(StoredRun.rankings)), 0))
    count, size = (await connection.execute(left.where(StoredRun.collection == mark))).one()
    if count:
        await trash.shrink(connection, entry, count, size)
    return int(count)


async def copy_to(connection: AsyncConnection, collection: str, other: str, until: datetime) -> None:
    """The runs made of a collection until then, once more as runs of the other: as history, under ids of its own."""
    columns = [column.name for column in StoredRun.__table__.columns]
    other_id = func.left(
        func.encode(func.sha256(func.convert_to(func.concat(StoredRun.id, f" {other}"), "UTF8")), "hex"), DIGITS
    )
    changed = {"id": other_id, "collection": literal(other)}
    values = [changed.get(name, StoredRun.__table__.c[name]) for name in columns]
    runs = select(*values).where(StoredRun.collection == collection, StoredRun.created_at <= until)
    added = insert(StoredRun).from_select(columns, runs, include_defaults=False)
    await connection.execute(added.on_conflict_do_nothing())


async def destroy(connection: AsyncConnection, entry: Entry) -> None:
    """Runs of an entry for good."""
    await connection.execute(delete(StoredRun).where(StoredRun.collection == trash_mark(entry.id)))


async def _forget_lost(connection: AsyncConnection) -> None:
    there = select(Collection.name)
    await connection.execute(delete(RankingBatch).where(RankingBatch.collection.not_in(there)))
