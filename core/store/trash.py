"""The trash: what was deleted stays for some days and can be brought back. Owns the entries, and deleted collections.

A collection's schema is renamed and its row leaves the catalogue: nothing is copied, and no list of collections has it.
Readers may no longer enter the schema. Of an attached collection only the mapping is kept. The harness puts its own
things (query sets, runs, judgements) in and takes them out, by these entries.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from datetime import datetime
from typing import Any, Final

from sqlalchemy import delete, func, insert, inspect, literal, select, text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession
from sqlalchemy.schema import DropSchema

from core.errors import StoreError
from core.store import collections, locks, names, readable_tables
from core.store.attached.attach import inspect_table, let_read_within
from core.store.attached.mapping import AttachedTable, Attachment
from core.store.citus import ONE_BY_ONE
from core.store.collections import CollectionView
from core.store.engine import Store
from core.store.names import identifier, plain_text, trash_mark, trash_schema
from core.store.schema import Collection, TrashRow
from core.store.trash_entries import Kind, TrashEntry, new_id, not_in_trash, restore_conflict, retention

RENAME: Final = "ALTER SCHEMA {} RENAME TO {}"
MAY_ENTER: Final = """
SELECT DISTINCT rolname
FROM pg_namespace, aclexplode(nspacl)
JOIN pg_roles ON pg_roles.oid = grantee
WHERE nspname = :namespace AND grantee <> nspowner
ORDER BY rolname
"""
SIZE_OF_SHARDS: Final = """
SELECT CAST(coalesce(sum(shard.shard_size), 0) AS bigint)
FROM citus_shards AS shard
JOIN pg_class ON pg_class.oid = shard.table_name
JOIN pg_namespace ON pg_namespace.oid = relnamespace
WHERE nspname = :namespace
"""
TIMES: Final = ("created_at", "changed_at", "loaded_at")
PLAIN: Final = ("language", "card", "origin", "fields", "version")


# -- entries -----------------------------------------------------------------------------------------------------------


async def add_entry(  # noqa: PLR0913 - a column each
    connection: AsyncConnection,
    kind: Kind,
    name: str,
    collection: str,
    *,
    identity: str = "",
    count: int = 1,
    size: int = 0,
    by: str = "",
    details: Mapping[str, Any] | None = None,
) -> TrashEntry:
    """A new entry, in the transaction that puts the thing itself into the trash."""
    row = {
        "id": identity or new_id(),
        "kind": kind,
        "name": name,
        "collection": collection,
        "count": count,
        "bytes": size,
        "details": dict(details or {}),
        "deleted_by": by,
        "deleted_at": func.now(),
        "until": func.now() + literal(retention()),
    }
    made = await connection.execute(insert(TrashRow).values(row).returning(*TrashRow.__table__.columns))
    return _entry(made.one())


def _entry(row: Any) -> TrashEntry:
    return TrashEntry(**{each.name: getattr(row, each.name) for each in fields(TrashEntry)})


async def listed(store: Store) -> list[TrashEntry]:
    """All entries, newest first."""
    async with store.begin(read_only=True) as connection:
        rows = await connection.execute(
            select(*TrashRow.__table__.columns).order_by(TrashRow.deleted_at.desc(), TrashRow.id)
        )
        return [_entry(row) for row in rows]


async def claim(connection: AsyncConnection, entry: TrashEntry) -> None:
    """Remove the entry, in the transaction that brings back or destroys what it stands for.

    Of two at once the second waits for the first, and is refused where the first removed it.
    """
    if not await claimed(connection, entry):
        raise not_in_trash(entry)


async def claimed(connection: AsyncConnection, entry: TrashEntry) -> bool:
    """The same; returns whether the entry was there."""
    return bool((await connection.execute(delete(TrashRow).where(TrashRow.id == entry.id))).rowcount)


async def shrink(connection: AsyncConnection, entry: TrashEntry, count: int, size: int) -> None:
    """The entry again after `claim`, with what could not be brought back."""
    same = {each.name: getattr(entry, each.name) for each in fields(TrashEntry)}
    await connection.execute(insert(TrashRow).values({**same, "count": count, "bytes": size}))


# -- collections -------------------------------------------------------------------------------------------------------


async def size_of(store: Store, namespace: str) -> int:
    """Bytes on disk of a schema's tables with their indexes; on a cluster, of their shards too."""
    size = (await collections.sizes_on_disk(store, [namespace])).get(namespace, 0)
    if store.capabilities.distributed:
        async with store.begin(read_only=True) as connection:
            size += int(await connection.scalar(text(SIZE_OF_SHARDS), {"namespace": namespace}) or 0)
    return size


async def move_collection(
    store: Store, connection: AsyncConnection, view: CollectionView, *, size: int, by: str
) -> TrashEntry:
    """Move a collection from the catalogue into the trash. Its name is free from then on."""
    await locks.require_no_writer(connection, view.name)
    identity = new_id()
    removed = delete(Collection).where(Collection.name == view.name).returning(*Collection.__table__.columns)
    row = (await connection.execute(removed)).one_or_none()  # as it is now, not as the view had it
    if row is None:
        raise StoreError(f"The collection {view.name!r} was dropped at this moment by somebody else.")
    kept: dict[str, Any] = {name: getattr(row, name) for name in PLAIN}
    kept |= {name: value.isoformat() if (value := getattr(row, name)) else None for name in TIMES}
    if row.attached is None:
        await _rename(store, connection, row.namespace, trash_schema(identity))
        schema = trash_schema(identity)  # only its owner may enter it, whatever is granted on the tables inside
        for role in list(await connection.scalars(text(MAY_ENTER), {"namespace": schema})):
            revoked = f"REVOKE ALL ON SCHEMA {identifier(schema)} FROM {identifier(role)}"
            await connection.execute(plain_text(revoked))
    else:
        attachment = Attachment.model_validate(row.attached)
        kept["table"] = attachment.table.model_dump(mode="json")
        kept["aside"] = attachment.aside is not None
        await connection.execute(DropSchema(row.namespace, cascade=True, if_exists=True))
    await readable_tables.keep_for_trash(connection, row.name, identity)
    return await add_entry(
        connection,
        "collection",
        row.name,
        row.name,
        identity=identity,
        size=0 if row.attached is not None else size,
        by=by,
        details={"row": kept},
    )


async def _rename(store: Store, connection: AsyncConnection, old: str, new: str) -> None:
    """Citus (from 10.0 on) does the same on its workers, which keep the shards in schemas of the same names."""
    if store.capabilities.distributed:
        await connection.execute(text(ONE_BY_ONE))
    await connection.execute(plain_text(RENAME.format(identifier(old), identifier(new))))


async def inspect_attached(store: Store, entry: TrashEntry) -> Attachment | None:
    """The table of an attached collection, inspected as attaching it does; None for an own collection.

    `store` must be one that may read the table: an entry of the trash gives nobody the right to.
    """
    if (table := entry.details["row"].get("table")) is None:
        return None
    mapping = AttachedTable.model_validate(table)
    return Attachment(table=mapping, facts=await inspect_table(store, mapping))


async def restore_collection(
    store: Store, connection: AsyncConnection, entry: TrashEntry, name: str, attachment: Attachment | None
) -> None:
    """Move a collection back into the catalogue under that name, in the transaction that claims the entry.

    Editors write entries too, so an entry is no permission to read a table: only what the owner allowed before is.
    """
    namespace, name = names.schema_of(name), names.composed(name)
    kept = entry.details["row"]
    session = AsyncSession(connection, expire_on_commit=False)
    if await session.get(Collection, name):
        raise restore_conflict(entry, f"There is a collection {name!r} again.")
    if namespace in await connection.run_sync(lambda sync: inspect(sync).get_schema_names()):
        raise restore_conflict(entry, f"There is a schema {namespace!r}, which {name!r} would need.")
    if attachment is None:
        await _rename(store, connection, trash_schema(entry.id), namespace)
    times = {each: datetime.fromisoformat(kept[each]) if kept[each] else None for each in TIMES}
    attached = attachment.model_dump(mode="json") if attachment else None
    row = Collection(name=name, namespace=namespace, attached=attached, **{each: kept[each] for each in PLAIN}, **times)
    await collections.register(session, row)
    if attachment is not None and not store.role:
        table, allowed = attachment.table, await readable_tables.allowed(connection)
        if {(each, table.namespace, table.table) for each in (trash_mark(entry.id), entry.name)} & allowed:
            await let_read_within(store, connection, name, table)
        await readable_tables.withdraw(connection, trash_mark(entry.id))


async def destroy_collection(connection: AsyncConnection, entry: TrashEntry) -> None:
    """Drop the tables for good. Nothing else names them any more."""
    await connection.execute(DropSchema(trash_schema(entry.id), cascade=True, if_exists=True))
    await readable_tables.withdraw(connection, trash_mark(entry.id))
