"""The trash of all kinds: everything deleted that can be restored is listed, restored and destroyed here.

Each kind is put into the trash by the function that deletes it. Only editors, who may delete, may use the trash.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from shlex import quote

from sqlalchemy.exc import IntegrityError

from core.errors import SpecError, StoreError, UnknownName
from core.store import collections, grants, names, readable_tables, roles, trash
from core.store.engine import Store
from core.store.names import trash_mark
from core.store.trash_entries import TrashEntry, find, restore_conflict
from evals import variants
from evals.judging import judgements
from evals.labels import query_sets
from evals.runs import run_store


@dataclass(frozen=True, slots=True)
class RestoredEntry:
    """A restored entry, its name, and a note about it."""

    entry: TrashEntry
    name: str
    note: str = ""

    def sentence(self) -> str:
        renamed = f" as {self.name}" if self.name and self.name != self.entry.name else ""
        verb = "are" if self.entry.kind in {"runs", "judgements"} and self.entry.count > 1 else "is"
        return f"The {self.entry.title} {verb} back{renamed}.{' ' if self.note else ''}{self.note}"


async def listed(store: Store) -> list[TrashEntry]:
    """All entries, the newest first, with stored variants of this machine's home folder."""
    roles.refuse_reader(store, "look into the trash")
    entries = [*await trash.listed(store), *await judgements.withdrawn_entries(store), *variants.in_trash()]
    return sorted(entries, key=lambda each: (each.deleted_at, each.id), reverse=True)


async def expire(store: Store) -> list[TrashEntry]:
    """Destroy the entries whose time is over, and return them."""
    return await _destroy(store, [each for each in await listed(store) if each.expired])


async def empty(store: Store, *, older_than: timedelta | None = None) -> list[TrashEntry]:
    """Destroy all entries, or those deleted longer ago than that, and return them."""
    before = datetime.now(UTC) - older_than if older_than is not None else None
    return await _destroy(store, [each for each in await listed(store) if before is None or each.deleted_at < before])


async def _destroy(store: Store, entries: Sequence[TrashEntry]) -> list[TrashEntry]:
    return [entry for entry in entries if await destroy(store, entry)]


async def destroy(store: Store, entry: TrashEntry) -> bool:
    """Destroy an entry as a whole; False if it was restored or destroyed by someone else at this moment."""
    if entry.kind == "variant":
        try:
            variants.destroy(entry)
        except StoreError:
            return False
        return True
    async with store.begin(fresh=True) as connection:
        if entry.kind == "judgements":
            return await judgements.destroy(connection, entry)
        if not await trash.claimed(connection, entry):
            return False
        await trash.destroy_collection(connection, entry)
        await query_sets.forget_within(connection, trash_mark(entry.id))
        await run_store.destroy(connection, entry)
    return True


async def restore(
    store: Store, reference: str, *, name: str | None = None, reader: Store | None = None
) -> RestoredEntry:
    """Restore an entry by its id, or by its name if no other entry has it; as `name`, if given.

    The store's role may have no right to read an attached table while its collection is in the trash, so the table is
    inspected through `reader`.
    """
    entry = find(await listed(store), reference)
    match entry.kind:
        case "collection":
            return await _restore_collection(store, entry, name, reader or store)
        case "query set":
            return await _restore_query_set(store, entry, name)
        case "variant":
            return RestoredEntry(entry, variants.restore(entry, name=name).name)
    if name is not None:
        raise SpecError(f"The {entry.title} can only come back under the old name: leave --as out.")
    async with store.begin() as connection:
        if entry.kind == "judgements":
            left, verb = await judgements.restore(connection, entry), "graded"
        else:
            await trash.claim(connection, entry)
            left, verb = await run_store.restore(connection, entry), "evaluated"
    note = f"{left:,} of the {entry.count:,} were {verb} again since: these stay as they are now." if left else ""
    return RestoredEntry(entry, entry.name, note)


async def _restore_collection(store: Store, entry: TrashEntry, name: str | None, reader: Store) -> RestoredEntry:
    name = names.composed(name or entry.name)
    names.schema_of(name)  # refuses what cannot be one before anything is looked at
    if await collections.find(store, name) is not None:
        raise restore_conflict(entry, f"There is a collection {name!r} again.")
    attachment = await trash.inspect_attached(reader, entry)
    async with store.begin(fresh=True) as connection:
        await trash.claim(connection, entry)
        await trash.restore_collection(store, connection, entry, name, attachment)
        try:
            await query_sets.move_within(connection, trash_mark(entry.id), name)
        except IntegrityError:  # a backup may have restored labels under that name, which wait for a collection
            why = f"Labels that a backup brought wait here for a collection {name!r}, and its own have the same names."
            raise restore_conflict(entry, why) from None
        if name != entry.name:
            await judgements.copy_to(connection, entry.collection, name, entry.deleted_at)
            await run_store.copy_to(connection, entry.collection, name, entry.deleted_at)
    await collections.get(store, name)  # brought up to date, if it is of an older version
    notes = []
    if attachment and not reader.role:  # only the owner sees which tables others may read
        table = attachment.table
        async with reader.begin(read_only=True) as connection:
            allowed = await readable_tables.allowed(connection)
        notes += [] if (name, table.namespace, table.table) in allowed else [grants.not_allowed(name, table)]
    if entry.details["row"].get("aside"):
        notes.append(f"Build aside again what it had: rankbook data aside {quote(name)}")
    return RestoredEntry(entry, name, " ".join(notes))


async def _restore_query_set(store: Store, entry: TrashEntry, name: str | None) -> RestoredEntry:
    view = await collections.find(store, entry.collection)
    if view is None:
        known = [row.name for row in await collections.listed(store)]
        back = f"rankbook trash restore ID --as {quote(entry.collection)}"
        way_out = f"The {entry.title} waits in the trash for one of that name. Bring the collection back first: {back}"
        raise UnknownName("collection", entry.collection, known, way_out=way_out)
    name = names.composed(name or entry.name)
    async with store.begin() as connection:
        await trash.claim(connection, entry)
        await query_sets.restore(connection, entry, view.name, name)
    return RestoredEntry(entry, name)
