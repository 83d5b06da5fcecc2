"""A backup into a store: checked as a whole first, then collection by collection, each in one transaction.

Nothing that is here is written over. One that was interrupted restores the rest when it is run again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy.exc import DataError, IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from core.store import collections, indexes, mishaps
from core.store.engine import Store
from core.store.progress import Listener, nobody
from core.store.settings import PATIENT, settle
from evals import labelling
from evals.backup import fitting, home_files, reading, results
from evals.backup.content import Content, Registered, register, registered_row
from evals.backup.fitting import Target
from evals.backup.form import STORE
from evals.backup.home_files import Folders
from evals.backup.labels import Merged, Merging
from evals.backup.parts import LABELS
from evals.backup.reading import Archive
from evals.backup.stopping import until
from evals.backup.taking import Taking


@dataclass(slots=True)
class Back:
    """A collection that is back: rows of its own tables, labels and judgements, runs and their kind."""

    name: str
    rows: dict[str, int]
    merged: Merged
    results: dict[str, int] = field(default_factory=dict)
    left: dict[str, int] = field(default_factory=dict)
    note: str = ""


@dataclass(slots=True)
class Restored:
    """What came of it. `there` were here already, from this very backup; `files` were put into the home."""

    collections: list[Back] = field(default_factory=list)
    there: tuple[str, ...] = ()
    files: list[Path] = field(default_factory=list)
    outputs: int = 0


async def restore(
    store: Store,
    path: Path,
    *,
    collection: str | None = None,
    name: str | None = None,
    tables: Mapping[str, str] | None = None,
    folders: Folders | None = None,
    listener: Listener = nobody,
    cancellation: asyncio.Event | None = None,
) -> Restored:
    """Everything, or one collection, under its own name or another. Stopped, it keeps the collections that are done.

    `tables` are somebody's that are to be attached, by the names that their collections have in the backup. Of others
    the labels come back, and no table is attached.
    """
    return await until(cancellation, _restore(store, path, collection, name, tables or {}, folders or {}, listener))


async def _restore(
    store: Store,
    path: Path,
    collection: str | None,
    name: str | None,
    tables: Mapping[str, str],
    folders: Folders,
    listener: Listener,
) -> Restored:
    with reading.opened(path) as archive:
        fitting.check_readable(archive)
        await asyncio.to_thread(archive.check, listener)
        fitting.check_fits_its_list(archive)
        plan = await fitting.fitted(store, archive, collection, name, tables)
        for target in plan.targets:
            await _check_registered(store, archive, target)
        restored = Restored(there=plan.there)
        for target in plan.targets:
            restored.collections.append(await _bring_back(store, archive, target, listener))
        if collection is None and name is None:
            restored.outputs = await _outputs(store, archive)
            restored.files = _files(archive, folders)
    return restored


async def _check_registered(store: Store, archive: Archive, target: Target) -> None:
    """What the file says of the collection fits its list, of all before anything of one is written."""
    if target.kept.kind != "gone":
        async with store.begin() as connection:
            await registered_row(Taking(connection, archive, target.kept.folder), target.kept)


@asynccontextmanager
async def _transaction(store: Store, archive: Archive, of: str) -> AsyncIterator[AsyncConnection]:
    """For rows of the file. Where each may be stored, and they may not together, it is the file's fault."""
    try:
        async with store.begin(fresh=True) as connection:
            yield connection
    except (IntegrityError, DataError) as error:
        said = mishaps.reason(error)
        raise archive.wrong(f"The tables of {of} do not fit together ({said}). They were not restored.") from error


async def _bring_back(store: Store, archive: Archive, target: Target, listener: Listener) -> Back:
    """All of one collection, or nothing of it."""
    async with _transaction(store, archive, f"{target.kept.name!r:.80}") as connection:
        await settle(connection, **PATIENT)
        taking = Taking(connection, archive, target.kept.folder, listener)
        kind = target.kept.kind
        registered = Registered(None) if kind == "gone" else await register(store, taking, target)
        row = registered.row
        rows = await Content(store, taking, row).fill() if row is not None and kind == "own" else {}
        merged = await (await Merging.begun(taking, target.name)).run()
        added, left = await results.adopt(taking, target.name, renamed=target.renamed)
    if rows:
        await indexes.analyze(store, await collections.get(store, target.name))
    return Back(target.name, rows, merged, added, left, registered.note)


async def _outputs(store: Store, archive: Archive) -> int:
    if not archive.tables(STORE):
        return 0
    async with _transaction(store, archive, "what notebooks showed") as connection:
        return await results.adopt_outputs(Taking(connection, archive, STORE))


def _files(archive: Archive, folders: Folders) -> list[Path]:
    put = [
        home_files.put(folders[each.folder], each.name, archive.file(each.member))
        for each in archive.manifest.files
        if each.folder in folders
    ]
    return [path for path in put if path is not None]


# -- labels alone ------------------------------------------------------------------------------------------------------


async def restore_labels(
    store: Store,
    path: Path,
    *,
    collection: str | None = None,
    name: str | None = None,
    listener: Listener = nobody,
    cancellation: asyncio.Event | None = None,
) -> list[Merged]:
    """Merge queries, labels and judgements into the collections that are here; also from what is left of a backup."""
    return await until(cancellation, _restore_labels(store, path, collection, name, listener))


async def _restore_labels(
    store: Store, path: Path, collection: str | None, name: str | None, listener: Listener
) -> list[Merged]:
    with reading.opened(path) as archive:
        fitting.check_readable(archive)
        targets = fitting.chosen(archive, collection, name)
        notes = [await asyncio.to_thread(_readable, archive, target) for target in targets]
        if collection is not None or name is not None:
            await collections.get(store, targets[0].name)
        done = []
        for target, note in zip(targets, notes, strict=True):
            merged = await _merge(store, archive, target, listener)
            merged.note = " ".join(each for each in (merged.note, note) if each)
            done.append(merged)
    return done


def _readable(archive: Archive, target: Target) -> str:
    """Leave out what cannot be read of the labels; a sentence about it, where there is such."""
    wanted = [part.name for part in LABELS]
    lost = [table for table in wanted if not archive.keep_readable(target.kept.folder, table)]
    if not lost:
        return ""
    return f"The file is damaged or was cut off: of {', '.join(lost)} there may have been more."


async def _merge(store: Store, archive: Archive, target: Target, listener: Listener) -> Merged:
    view = await collections.find(store, target.name)

    async def absent(ids: Collection[str]) -> list[str]:
        return await labelling.absent(store, view, sorted(ids)) if view is not None else []

    async with _transaction(store, archive, f"{target.kept.name!r:.80}") as connection:
        await settle(connection, **PATIENT)
        taking = Taking(connection, archive, target.kept.folder, listener)
        merged = await (await Merging.begun(taking, target.name, absent)).run()
    if view is None:
        merged.note = "There is no collection of that name here; they wait for it."
    return merged
