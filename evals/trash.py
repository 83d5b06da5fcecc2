"""The trash as a whole: everything deleted that can be brought back, listed, restored and emptied, whatever its kind.

Each kind is put in by what deletes it. Only editors look in here: whoever may drop may restore.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from shlex import quote

from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from core.errors import SpecError, StoreError, UnknownName
from core.store import collections, grants, names, readable_tables, roles, trash
from core.store.attached.mapping import AttachedTable
from core.store.engine import Store
from core.store.names import trash_mark
from core.store.trash_entries import TrashEntry, find, name_taken
from evals import variants
from evals.judging import judgements
from evals.labels import query_sets
from evals.runs import run_store


@dataclass(frozen=True, slots=True)
class RestoredEntry:
    """What is back, under which name, and what is to be known of it."""

    entry: TrashEntry
    name: str
    note: str = ""

    def sentence(self) -> str:
        renamed = f" as {self.name}" if self.name and self.name != self.entry.name else ""
        verb = "are" if self.entry.kind in {"runs", "judgements"} and self.entry.count > 1 else "is"
        return f"The {self.entry.title} {verb} back{renamed}.{' ' if self.note else ''}{self.note}"


async def listed(store: Store) -> list[TrashEntry]:
    """Newest first, kept variants of this machine's home among them."""
    roles.refuse_reader(store, "look into the trash")
    entries = [*await trash.listed(store), *await judgements.withdrawn(store), *variants.in_trash()]
    return sorted(entries, key=lambda each: (each.deleted_at, each.id), reverse=True)


async def expire(store: Store) -> list[TrashEntry]:
    """Destroy what has lain there for its time; what that was."""
    return await _destroy(store, [each for each in await listed(store) if each.expired])


async def empty(store: Store, *, older_than: timedelta | None = None) -> list[TrashEntry]:
    """Destroy everything, or what was deleted longer ago than that; what that was."""
    before = datetime.now(UTC) - older_than if older_than is not None else None
    return await _destroy(store, [each for each in await listed(store) if before is None or each.deleted_at < before])


async def _destroy(store: Store, entries: Sequence[TrashEntry]) -> list[TrashEntry]:
    return [entry for entry in entries if await destroy(store, entry)]


async def destroy(store: Store, entry: TrashEntry) -> bool:
    """One thing for good, as a whole; False where somebody brought it back or destroyed it at this moment."""
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
    """Bring one thing back: by its entry's id, or by its name where that is one thing's. `name` is another for it.

    Whoever the store is may have no right to read a table while its collection lies in the trash: `reader`, who has,
    looks at it in their place.
    """
    entry = find(await listed(store), reference)
    match entry.kind:
        case "collection":
            return await _collection(store, entry, name, reader or store)
        case "query set":
            return await _query_set(store, entry, name)
        case "variant":
            return RestoredEntry(entry, variants.restore(entry, name=name).name)
    if name is not None:
        raise SpecError(f"The {entry.title} can only come back under the old name: leave --as out.")
    async with store.begin() as connection:
        if entry.kind == "judgements":
            left, what = await judgements.restore(connection, entry), "graded"
        else:
            await trash.claim(connection, entry)
            left, what = await run_store.restore(connection, entry), "evaluated"
    note = f"{left:,} of the {entry.count:,} were {what} again since: these stay as they are now." if left else ""
    return RestoredEntry(entry, entry.name, note)


async def _collection(store: Store, entry: TrashEntry, name: str | None, reader: Store) -> RestoredEntry:
    name = names.composed(name or entry.name)
    names.schema_of(name)  # refuses what cannot be one before anything is looked at
    if await collections.find(store, name) is not None:
        raise name_taken(entry, f"There is a collection {name!r} again.")
    attachment = await trash.inspect_attached(reader, entry)
    async with store.begin(fresh=True) as connection:
        await trash.claim(connection, entry)
        await trash.restore_collection(store, connection, entry, name, attachment)
        await _labels_back(connection, entry, name)
        if name != entry.name:
            await judgements.copy_to(connection, entry.collection, name, entry.deleted_at)
            await run_store.copy_to(connection, entry.collection, name, entry.deleted_at)
    await collections.get(store, name)  # brought up to date, if it is of an older version
    notes = [await _reading_note(reader, name, attachment.table)] if attachment else []
    if entry.details["row"].get("aside"):
        notes.append(f"Build aside again what it had: rankbook data aside {quote(name)}")
    return RestoredEntry(entry, name, " ".join(filter(None, notes)))


async def _labels_back(connection: AsyncConnection, entry: TrashEntry, name: str) -> None:
    """A backup may have brought labels under that name meanwhile, which wait for a collection."""
    try:
        await query_sets.move_within(connection, trash_mark(entry.id), name)
    except IntegrityError:
        why = f"Labels that a backup brought wait here for a collection {name!r}, and its own have the same names."
        raise name_taken(entry, why) from None


async def _reading_note(reader: Store, name: str, table: AttachedTable) -> str:
    """Where the owner has yet to let others read the table; nothing for who cannot look at the owner's list."""
    if reader.role:
        return ""
    async with reader.begin(read_only=True) as connection:
        known = (name, table.namespace, table.table) in await readable_tables.allowed(connection)
    return "" if known else grants.not_allowed(name, table)


async def _query_set(store: Store, entry: TrashEntry, name: str | None) -> RestoredEntry:
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
