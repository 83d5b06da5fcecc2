"""Restoring a backup: checks and the plan first, then each collection in one transaction."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Table, column, func, literal, select, table, text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.exc import DataError, IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from core.errors import SpecError, StoreError, UnknownName
from core.progress import Listener, nobody
from core.store import collections, db_errors, indexes, names, readable_tables
from core.store.attached import relation_name
from core.store.engine import PATIENT, Store, settle
from core.store.migrations import catalog
from core.store.migrations import collection as collection_chain
from core.store.schema import ChunkSet, EmbeddingSet, ItemRow
from core.tasks import run_cancellable
from evals.backup import archive_reader, file_format
from evals.backup.archive_reader import Archive, RowReader, count_written
from evals.backup.file_format import (
    CONTENTS,
    LABELS,
    MANIFEST,
    OF_COLLECTIONS,
    OUTPUTS,
    REGISTER,
    RESULTS,
    STORE,
    BackedUpCollection,
    BackupPart,
    Folders,
    Kind,
    Manifest,
    RestoreTarget,
    mapped_table,
    table_of,
)
from evals.backup.restore_content import ContentRestore, Registration, register, registered_row
from evals.backup.restore_labels import LabelMerge, RestoredLabels
from evals.labels import label_files
from evals.schema import schema_chain
from evals.schema import schema_chain as evals_chain

LISTS: Final = (MANIFEST, CONTENTS)
NEEDED: Final[Mapping[Kind, set[str]]] = {  # besides labels and results
    "own": {REGISTER.name, *(mapped_table(each).name for each in (ItemRow, ChunkSet, EmbeddingSet))},
    "attached": {REGISTER.name},
    "gone": set(),
}


@dataclass(frozen=True, slots=True)
class RestorePlan:
    """The collections to restore, and those that are here already from this very backup."""

    targets: tuple[RestoreTarget, ...]
    there: tuple[str, ...] = ()


def read_manifest(path: Path) -> Manifest:
    """The file's manifest, if this Rankbook can read the file. Its members are not checked."""
    with archive_reader.open_archive(path) as archive:
        check_readable(archive)
        return archive.manifest


def check(path: Path, listener: Listener = nobody) -> Manifest:
    """Check that the file is a complete backup that this Rankbook can read; returns its manifest."""
    with archive_reader.open_archive(path) as archive:
        check_readable(archive)
        archive.check(listener)
        check_contents(archive)
        return archive.manifest


def check_readable(archive: Archive) -> None:
    """Refuse files of a newer Rankbook, invalid names of collections, and file names that lead out of the home."""
    for chain in (catalog, evals_chain, collection_chain):
        revision = archive.manifest.revisions.get(chain.name, "")
        if revision > chain.head:
            raise archive.wrong(
                f"It was written by a newer Rankbook ({archive.manifest.rankbook}, revision {revision} of "
                f"{chain.name}; this one knows {chain.head}). Upgrade Rankbook, and restore it then."
            )
    for each in archive.manifest.collections:
        _check_name(archive, each)
    file_format.check_files(archive.manifest.files, archive.path)


def _check_name(archive: Archive, kept: BackedUpCollection) -> None:
    """Refuse a name that no collection can have: its rows would be unreachable, or taken for rows in the trash."""
    if kept.name.startswith(names.TRASH_MARK):
        raise archive.wrong(f"Its list calls a collection {kept.name!r:.80}, as what lies in the trash is called here.")
    if kept.kind == "gone":  # its labels may have any name
        return
    try:
        names.schema_of(kept.name)
    except SpecError as error:
        raise archive.wrong(f"Its list calls a collection as none can be called. {error}") from error
    if kept.name != names.composed(kept.name):
        raise archive.wrong(f"Its list calls a collection {kept.name!a:.80}, which is no form of a name here.")


def check_contents(archive: Archive) -> None:
    """Refuse a file whose members are not those that its own manifest implies."""
    listed, files = archive.manifest.collections, {each.member for each in archive.manifest.files}
    places = {each.folder for each in listed}
    for member in archive.infos:
        place = table_of(member)
        known = place[0] in places or place == (STORE, OUTPUTS.name) if place else member in {*LISTS, *files}
        if not known:
            raise archive.wrong(f"It holds {member}, which its own list does not know. Nothing was restored.")
    revision = archive.manifest.revisions.get(evals_chain.name, "")
    lacking = [member for member in sorted(files) if member not in archive.infos]
    for each in listed:
        present = set(archive.tables(each.folder))
        expected = {part.name for part in OF_COLLECTIONS if part.since <= revision} | NEEDED[each.kind]
        lacking += [f"{table} of {each.name!r:.80}" for table in sorted(expected - present)]
        if strange := present - expected if each.kind != "own" else {}:
            raise archive.wrong(
                f"It holds {min(strange)} of {each.name!r:.80}, which by its own list has no documents here. Nothing "
                "was restored."
            )
    if lacking:
        raise archive.wrong(f"By its own list it should hold {lacking[0]}, and does not. Nothing was restored.")


def select_targets(archive: Archive, collection: str | None, name: str | None) -> list[RestoreTarget]:
    """The collections to restore, with the names to restore them under."""
    kept: Sequence[BackedUpCollection] = archive.manifest.collections
    if collection is not None:
        only = archive.manifest.find(names.composed(collection))
        if only is None:
            raise UnknownName("collection of this backup", collection, [each.name for each in kept])
        kept = (only,)
    if name is None:
        return [RestoreTarget(each, each.name) for each in kept]
    if len(kept) != 1:
        raise StoreError(
            f"It holds {len(kept)} collections, and one name was given. Say which is meant: --collection NAME."
        )
    return [RestoreTarget(kept[0], names.checked(name, what="The collection name"))]


async def plan_restore(
    store: Store, archive: Archive, collection: str | None, name: str | None, tables: Mapping[str, str]
) -> RestorePlan:
    """The plan, or an error that names the collections in the way. `tables` to attach are by collection."""
    attached = [each.name for each in archive.manifest.collections if each.kind == "attached"]
    for of, table_name in tables.items():
        if of not in attached:
            raise UnknownName("attached collection of this backup", of, attached)
        readable_tables.refuse_system_schema(relation_name(table_name)[0])
    here = {row.name: row.created_at for row in await collections.listed(store)}
    targets, there, in_the_way = [], [], []
    for target in select_targets(archive, collection, name):
        each = replace(target, table=tables.get(target.kept.name, ""))
        if each.kept.kind != "gone":
            names.schema_of(each.name)
        if each.name not in here:
            targets.append(each)
        elif collection is None and name is None and here[each.name] == each.kept.created_at:
            there.append(each.name)
        else:
            in_the_way.append(each.name)
    if in_the_way:
        raise StoreError(
            f"There is a collection {', '.join(map(repr, in_the_way))} here already, and nothing is written over it. "
            f"Restore it beside: --collection {in_the_way[0]!r} --as NAME. Or bring only its labels and judgements "
            "into the one that is here: --labels-only."
        )
    _require_room(store, archive, targets)
    return RestorePlan(tuple(targets), tuple(there))


def _require_room(store: Store, archive: Archive, targets: Sequence[RestoreTarget]) -> None:
    """Check the disk of an embedded server. Rows with indexes take about as much as they take as text."""
    if store.server is None:
        return
    free = shutil.disk_usage(store.server.home).free
    needed = sum(archive.unpacked(each.kept.folder) for each in targets)
    if free < needed:
        raise StoreError(
            f"Restoring takes about {needed / 2**30:.1f} GiB, and {free / 2**30:.1f} GiB are free in "
            f"{store.server.home}. Make room, or set RANKBOOK_HOME to a folder on a larger disk."
        )


DIGITS = 32  # of a run's id
BEFORE_SHIPPED: Final = "e0011"  # this migration marks older runs in a store; those of older backups are marked here
# Older runs removed excluded documents after the search, so they have fewer results than a user gets.
MARK_DEEP: Final = text(
    """
    UPDATE incoming_runs AS runs
    SET depth = CASE WHEN variant ->> 'top_k' ~ '^[0-9]{1,6}$' THEN CAST(variant ->> 'top_k' AS int) ELSE 10 END
    WHERE depth = 0 AND variant IS NOT NULL AND environment -> 'own indexes' IS NULL AND EXISTS (
        SELECT FROM incoming_query_sets AS sets JOIN incoming_exclusions ON set_key = sets.key
        WHERE sets.name = runs.query_set)
    """
)


async def restore_results(reader: RowReader, name: str, *, renamed: bool) -> tuple[dict[str, int], dict[str, int]]:
    """Restore runs and other results, after labels and sets; the rows added, and those that were here, by table.

    Keys are digests of the collection's name too, so they are other ones under another name.
    """
    added: dict[str, int] = {}
    left: dict[str, int] = {}
    for part in RESULTS:
        incoming = await reader.read_temporary(part)
        if part is RESULTS[0] and reader.archive.manifest.revisions.get(schema_chain.name, "") < BEFORE_SHIPPED:
            await reader.connection.execute(MARK_DEEP)
        if part.through is not None:
            await _refuse_strangers(reader, part, part.through, incoming)
        keys = {part.column} if part.through is not None else {key.name for key in part.table.primary_key}
        values: list[Any] = []
        for each in file_format.columns(part.table):
            if each == "collection":
                values.append(literal(name))
            elif renamed and each in keys:
                content = func.convert_to(incoming.c[each].concat(literal(f" {name}")), "UTF8")
                values.append(func.left(func.encode(func.sha256(content), "hex"), DIGITS))
            else:
                values.append(incoming.c[each])
        total, came = await _insert(reader.connection, part.table, incoming, values)
        added[part.name], left[part.name] = came, total - came
    return added, left


async def _refuse_strangers(reader: RowReader, part: BackupPart, owner: BackupPart, incoming: Table) -> None:
    """Refuse pins of runs, and votes in contests, that are not in the file."""
    owners = table(f"incoming_{owner.name}", column(part.key))
    strange = incoming.c[part.column].not_in(select(owners.c[part.key]))
    if await reader.connection.scalar(select(func.count()).select_from(incoming).where(strange)):
        raise reader.archive.wrong(f"It holds {part.name} of {owner.name} that it does not hold. Nothing was restored.")


async def _insert(connection: AsyncConnection, table: Table, incoming: Table, values: list[Any]) -> tuple[int, int]:
    total = int(await connection.scalar(select(func.count()).select_from(incoming)) or 0)
    add = insert(table).from_select(file_format.columns(table), select(*values), include_defaults=False)
    return total, await count_written(connection, add.on_conflict_do_nothing())


@dataclass(slots=True)
class RestoredCollection:
    """A restored collection: rows of its own tables, merged labels and judgements, and results."""

    name: str
    rows: dict[str, int]
    merged: RestoredLabels
    results: dict[str, int] = field(default_factory=dict)
    left: dict[str, int] = field(default_factory=dict)
    note: str = ""


@dataclass(slots=True)
class RestoreReport:
    """The outcome. The collections `there` were here already from this very backup; `files` were written."""

    collections: list[RestoredCollection] = field(default_factory=list)
    there: tuple[str, ...] = ()
    files: list[Path] = field(default_factory=list)
    outputs: int = 0


async def restore_backup(
    store: Store,
    path: Path,
    *,
    collection: str | None = None,
    name: str | None = None,
    tables: Mapping[str, str] | None = None,
    folders: Folders | None = None,
    listener: Listener = nobody,
    cancellation: asyncio.Event | None = None,
) -> RestoreReport:
    """Restore everything, or one collection, which may get another name. A stop keeps the collections that are done.

    `tables` are attached, by the names of their collections in the backup. Of other attached collections only labels
    and results are restored.
    """
    work = _restore(store, path, collection, name, tables or {}, folders or {}, listener)
    return await run_cancellable(work, cancellation, name="The restoring")


async def _restore(
    store: Store,
    path: Path,
    collection: str | None,
    name: str | None,
    tables: Mapping[str, str],
    folders: Folders,
    listener: Listener,
) -> RestoreReport:
    with archive_reader.open_archive(path) as archive:
        check_readable(archive)
        await asyncio.to_thread(archive.check, listener)
        check_contents(archive)
        plan = await plan_restore(store, archive, collection, name, tables)
        for target in plan.targets:  # of all, before anything of one is written
            if target.kept.kind != "gone":
                async with store.begin() as connection:
                    await registered_row(RowReader(connection, archive, target.kept.folder), target.kept)
        report = RestoreReport(there=plan.there)
        for target in plan.targets:
            report.collections.append(await _restore_collection(store, archive, target, listener))
        if collection is None and name is None:
            if archive.tables(STORE):
                async with _transaction(store, archive, "what notebooks showed") as connection:
                    incoming = await RowReader(connection, archive, STORE).read_temporary(OUTPUTS)
                    values = [incoming.c[column] for column in file_format.columns(OUTPUTS)]
                    _, report.outputs = await _insert(connection, OUTPUTS, incoming, values)
            for each in archive.manifest.files:
                if each.folder in folders:
                    written = file_format.place_file(folders[each.folder], each.name, archive.file(each.member))
                    report.files += [written] if written is not None else []
    return report


@asynccontextmanager
async def _transaction(store: Store, archive: Archive, of: str) -> AsyncIterator[AsyncConnection]:
    """A transaction for rows of the file. If they violate constraints, the file is refused."""
    try:
        async with store.begin(fresh=True) as connection:
            yield connection
    except (IntegrityError, DataError) as error:
        reason = db_errors.reason(error)
        raise archive.wrong(f"The tables of {of} do not fit together ({reason}). They were not restored.") from error


async def _restore_collection(
    store: Store, archive: Archive, target: RestoreTarget, listener: Listener
) -> RestoredCollection:
    """Restore one collection, whole or not at all."""
    async with _transaction(store, archive, f"{target.kept.name!r:.80}") as connection:
        await settle(connection, **PATIENT)
        reader = RowReader(connection, archive, target.kept.folder, listener)
        kind = target.kept.kind
        registered = Registration(None) if kind == "gone" else await register(store, reader, target)
        row = registered.row
        rows = await ContentRestore(store, reader, row).fill() if row is not None and kind == "own" else {}
        merged = await (await LabelMerge.begin(reader, target.name)).run()
        added, left = await restore_results(reader, target.name, renamed=target.renamed)
    if rows:
        await indexes.analyze(store, await collections.get(store, target.name))
    return RestoredCollection(target.name, rows, merged, added, left, registered.note)


# -- labels alone ------------------------------------------------------------------------------------------------------


async def restore_labels(
    store: Store,
    path: Path,
    *,
    collection: str | None = None,
    name: str | None = None,
    listener: Listener = nobody,
    cancellation: asyncio.Event | None = None,
) -> list[RestoredLabels]:
    """Merge queries, labels and judgements into the collections that are here; also from a damaged backup."""
    work = _restore_labels(store, path, collection, name, listener)
    return await run_cancellable(work, cancellation, name="The restoring")


async def _restore_labels(
    store: Store, path: Path, collection: str | None, name: str | None, listener: Listener
) -> list[RestoredLabels]:
    with archive_reader.open_archive(path) as archive:
        check_readable(archive)
        targets = select_targets(archive, collection, name)
        notes = []
        for target in targets:
            folder = target.kept.folder
            lost = [
                part.name for part in LABELS if not await asyncio.to_thread(archive.keep_readable, folder, part.name)
            ]
            note = f"The file is damaged or was cut off: of {', '.join(lost)} there may have been more."
            notes.append(note if lost else "")
        if collection is not None or name is not None:
            await collections.get(store, targets[0].name)
        restored = []
        for target, note in zip(targets, notes, strict=True):
            merged = await _merge(store, archive, target, listener)
            merged.note = " ".join(each for each in (merged.note, note) if each)
            restored.append(merged)
    return restored


async def _merge(store: Store, archive: Archive, target: RestoreTarget, listener: Listener) -> RestoredLabels:
    view = await collections.find(store, target.name)

    async def missing(ids: Collection[str]) -> list[str]:
        return await label_files.missing_items(store, view, sorted(ids)) if view is not None else []

    async with _transaction(store, archive, f"{target.kept.name!r:.80}") as connection:
        await settle(connection, **PATIENT)
        reader = RowReader(connection, archive, target.kept.folder, listener)
        merged = await (await LabelMerge.begin(reader, target.name, missing)).run()
    if view is None:
        merged.note = "There is no collection of that name here; they wait for it."
    return merged
