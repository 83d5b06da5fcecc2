"""A backup restored: what fits and what is planned first, then everything in one transaction."""

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
from evals.backup.archive_reader import Archive, RowReader, counted
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
from evals.backup.restore_content import Content, Registered, register, registered_row
from evals.backup.restore_labels import Merging, RestoredLabels
from evals.labels import label_files
from evals.schema import schema_chain
from evals.schema import schema_chain as evals_chain

LISTS: Final = (MANIFEST, CONTENTS)
NEEDED: Final[Mapping[Kind, set[str]]] = {  # beside labels and results
    "own": {REGISTER.name, *(mapped_table(each).name for each in (ItemRow, ChunkSet, EmbeddingSet))},
    "attached": {REGISTER.name},
    "gone": set(),
}


@dataclass(frozen=True, slots=True)
class RestorePlan:
    """What will be restored, and which collections stand here already from this very backup."""

    targets: tuple[RestoreTarget, ...]
    there: tuple[str, ...] = ()


def read_manifest(path: Path) -> Manifest:
    """What the file begins with, refused where this Rankbook cannot read it. Its parts are not checked yet."""
    with archive_reader.opened(path) as archive:
        check_readable(archive)
        return archive.manifest


def check(path: Path, listener: Listener = nobody) -> Manifest:
    """Whether the file is a whole backup that this Rankbook can read; what it begins with."""
    with archive_reader.opened(path) as archive:
        check_readable(archive)
        archive.check(listener)
        check_fits_its_list(archive)
        return archive.manifest


def check_readable(archive: Archive) -> None:
    """Refuse what a newer Rankbook wrote, names that no collection has, and files whose names lead out of the home."""
    for chain in (catalog, evals_chain, collection_chain):
        found = archive.manifest.revisions.get(chain.name, "")
        if found > chain.head:
            raise archive.wrong(
                f"It was written by a newer Rankbook ({archive.manifest.rankbook}, revision {found} of "
                f"{chain.name}; this one knows {chain.head}). Upgrade Rankbook, and restore it then."
            )
    for each in archive.manifest.collections:
        _check_name(archive, each)
    file_format.check(archive.manifest.files, archive.path)


def _check_name(archive: Archive, kept: BackedUpCollection) -> None:
    """Rows under a name that nobody can have given would be found by nobody, or be taken for what lies in the trash."""
    if kept.name.startswith(names.TRASH_MARK):
        raise archive.wrong(f"Its list calls a collection {kept.name!r:.80}, as what lies in the trash is called here.")
    if kept.kind == "gone":  # labels may have been given under any name
        return
    try:
        names.schema_of(kept.name)
    except SpecError as error:
        raise archive.wrong(f"Its list calls a collection as none can be called. {error}") from error
    if kept.name != names.composed(kept.name):
        raise archive.wrong(f"Its list calls a collection {kept.name!a:.80}, which is no form of a name here.")


def check_fits_its_list(archive: Archive) -> None:
    """Refuse a file that holds anything but what its own list of collections and files says, or lacks some of it."""
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
        there = set(archive.tables(each.folder))
        wanted = {part.name for part in OF_COLLECTIONS if part.since <= revision} | NEEDED[each.kind]
        lacking += [f"{table} of {each.name!r:.80}" for table in sorted(wanted - there)]
        if strange := there - wanted if each.kind != "own" else {}:
            raise archive.wrong(
                f"It holds {min(strange)} of {each.name!r:.80}, which by its own list has no documents here. Nothing "
                "was restored."
            )
    if lacking:
        raise archive.wrong(f"By its own list it should hold {lacking[0]}, and does not. Nothing was restored.")


def chosen(archive: Archive, collection: str | None, name: str | None) -> list[RestoreTarget]:
    """The collections that are meant, under the names that they are to get."""
    kept: Sequence[BackedUpCollection] = archive.manifest.collections
    if collection is not None:
        found = archive.manifest.find(names.composed(collection))
        if found is None:
            raise UnknownName("collection of this backup", collection, [each.name for each in kept])
        kept = (found,)
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
    """The plan, or a refusal that names every collection in the way. `tables` are to be attached, by collection."""
    attached = [each.name for each in archive.manifest.collections if each.kind == "attached"]
    for of, table_name in tables.items():
        if of not in attached:
            raise UnknownName("attached collection of this backup", of, attached)
        readable_tables.refuse_system_schema(relation_name(table_name)[0])
    here = {row.name: row.created_at for row in await collections.listed(store)}
    targets, there, taken = [], [], []
    for found in chosen(archive, collection, name):
        each = replace(found, table=tables.get(found.kept.name, ""))
        if each.kept.kind != "gone":
            names.schema_of(each.name)
        if each.name not in here:
            targets.append(each)
        elif collection is None and name is None and here[each.name] == each.kept.created_at:
            there.append(each.name)
        else:
            taken.append(each.name)
    if taken:
        raise StoreError(
            f"There is a collection {', '.join(map(repr, taken))} here already, and nothing is written over it. "
            f"Restore it beside: --collection {taken[0]!r} --as NAME. Or bring only its labels and judgements into the "
            "one that is here: --labels-only."
        )
    _refuse_without_room(store, archive, targets)
    return RestorePlan(tuple(targets), tuple(there))


def _refuse_without_room(store: Store, archive: Archive, targets: Sequence[RestoreTarget]) -> None:
    """The embedded server's disk is ours to look at. Rows, with indexes, take about what they take as text."""
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
BEFORE_SHIPPED: Final = "e0011"  # marks what was kept until then in a store; in a backup of before it is done here
# Runs of before took excluded documents out after the search, so that fewer results were left than ship.
MARK_DEEP: Final = text(
    """
    UPDATE incoming_runs AS runs
    SET depth = CASE WHEN variant ->> 'top_k' ~ '^[0-9]{1,6}$' THEN CAST(variant ->> 'top_k' AS int) ELSE 10 END
    WHERE depth = 0 AND variant IS NOT NULL AND environment -> 'own indexes' IS NULL AND EXISTS (
        SELECT FROM incoming_query_sets AS sets JOIN incoming_exclusions ON set_key = sets.key
        WHERE sets.name = runs.query_set)
    """
)


async def adopt(taking: RowReader, name: str, *, renamed: bool) -> tuple[dict[str, int], dict[str, int]]:
    """Rows that came in and rows that were here, by table. Labels and sets were put aside before.

    Keys are made of what a run or a contest is of, its collection's name included: under another name they are others.
    """
    added: dict[str, int] = {}
    left: dict[str, int] = {}
    for part in RESULTS:
        incoming = await taking.aside(part)
        if part is RESULTS[0] and taking.archive.manifest.revisions.get(schema_chain.name, "") < BEFORE_SHIPPED:
            await taking.connection.execute(MARK_DEEP)
        if part.through is not None:
            await _refuse_strangers(taking, part, part.through, incoming)
        total, came = await _insert(taking.connection, part.table, incoming, _values(part, incoming, name, renamed))
        added[part.name], left[part.name] = came, total - came
    return added, left


async def _refuse_strangers(taking: RowReader, part: BackupPart, owner: BackupPart, incoming: Table) -> None:
    """Pins of runs, and votes in contests, that are not in the file: they would be about somebody else's."""
    owners = table(f"incoming_{owner.name}", column(part.key))
    strange = incoming.c[part.column].not_in(select(owners.c[part.key]))
    if await taking.connection.scalar(select(func.count()).select_from(incoming).where(strange)):
        raise taking.archive.wrong(f"It holds {part.name} of {owner.name} that it does not hold. Nothing was restored.")


def _values(part: BackupPart, incoming: Table, name: str, renamed: bool) -> list[Any]:
    def value(column: str) -> Any:
        if column == "collection":
            return literal(name)
        is_key = part.through is None and column in {key.name for key in part.table.primary_key}
        if renamed and (is_key or (part.through is not None and column == part.column)):
            return _other_key(incoming.c[column], name)
        return incoming.c[column]

    return [value(column) for column in file_format.columns(part.table)]


def _other_key(key: Any, name: str) -> Any:
    content = func.convert_to(key.concat(literal(f" {name}")), "UTF8")
    return func.left(func.encode(func.sha256(content), "hex"), DIGITS)


async def _insert(connection: AsyncConnection, table: Table, incoming: Table, values: list[Any]) -> tuple[int, int]:
    total = int(await connection.scalar(select(func.count()).select_from(incoming)) or 0)
    add = insert(table).from_select(file_format.columns(table), select(*values), include_defaults=False)
    return total, await counted(connection, add.on_conflict_do_nothing())


async def adopt_outputs(taking: RowReader) -> int:
    """What notebooks' cells showed."""
    incoming = await taking.aside(OUTPUTS)
    values = [incoming.c[column] for column in file_format.columns(OUTPUTS)]
    return (await _insert(taking.connection, OUTPUTS, incoming, values))[1]


@dataclass(slots=True)
class RestoredCollection:
    """A collection that is back: rows of its own tables, labels and judgements, runs and their kind."""

    name: str
    rows: dict[str, int]
    merged: RestoredLabels
    results: dict[str, int] = field(default_factory=dict)
    left: dict[str, int] = field(default_factory=dict)
    note: str = ""


@dataclass(slots=True)
class RestoreReport:
    """What came of it. `there` were here already, from this very backup; `files` were put into the home."""

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
    """Everything, or one collection, under its own name or another. Stopped, it keeps the collections that are done.

    `tables` are somebody's that are to be attached, by the names that their collections have in the backup. Of others
    the labels come back, and no table is attached.
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
    with archive_reader.opened(path) as archive:
        check_readable(archive)
        await asyncio.to_thread(archive.check, listener)
        check_fits_its_list(archive)
        plan = await plan_restore(store, archive, collection, name, tables)
        for target in plan.targets:
            await _check_registered(store, archive, target)
        restored = RestoreReport(there=plan.there)
        for target in plan.targets:
            restored.collections.append(await _bring_back(store, archive, target, listener))
        if collection is None and name is None:
            restored.outputs = await _outputs(store, archive)
            restored.files = _files(archive, folders)
    return restored


async def _check_registered(store: Store, archive: Archive, target: RestoreTarget) -> None:
    """What the file says of the collection fits its list, of all before anything of one is written."""
    if target.kept.kind != "gone":
        async with store.begin() as connection:
            await registered_row(RowReader(connection, archive, target.kept.folder), target.kept)


@asynccontextmanager
async def _transaction(store: Store, archive: Archive, of: str) -> AsyncIterator[AsyncConnection]:
    """For rows of the file. Where each may be stored, and they may not together, it is the file's fault."""
    try:
        async with store.begin(fresh=True) as connection:
            yield connection
    except (IntegrityError, DataError) as error:
        said = db_errors.reason(error)
        raise archive.wrong(f"The tables of {of} do not fit together ({said}). They were not restored.") from error


async def _bring_back(store: Store, archive: Archive, target: RestoreTarget, listener: Listener) -> RestoredCollection:
    """All of one collection, or nothing of it."""
    async with _transaction(store, archive, f"{target.kept.name!r:.80}") as connection:
        await settle(connection, **PATIENT)
        taking = RowReader(connection, archive, target.kept.folder, listener)
        kind = target.kept.kind
        registered = Registered(None) if kind == "gone" else await register(store, taking, target)
        row = registered.row
        rows = await Content(store, taking, row).fill() if row is not None and kind == "own" else {}
        merged = await (await Merging.begun(taking, target.name)).run()
        added, left = await adopt(taking, target.name, renamed=target.renamed)
    if rows:
        await indexes.analyze(store, await collections.get(store, target.name))
    return RestoredCollection(target.name, rows, merged, added, left, registered.note)


async def _outputs(store: Store, archive: Archive) -> int:
    if not archive.tables(STORE):
        return 0
    async with _transaction(store, archive, "what notebooks showed") as connection:
        return await adopt_outputs(RowReader(connection, archive, STORE))


def _files(archive: Archive, folders: Folders) -> list[Path]:
    put = [
        file_format.put(folders[each.folder], each.name, archive.file(each.member))
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
) -> list[RestoredLabels]:
    """Merge queries, labels and judgements into the collections that are here; also from what is left of a backup."""
    work = _restore_labels(store, path, collection, name, listener)
    return await run_cancellable(work, cancellation, name="The restoring")


async def _restore_labels(
    store: Store, path: Path, collection: str | None, name: str | None, listener: Listener
) -> list[RestoredLabels]:
    with archive_reader.opened(path) as archive:
        check_readable(archive)
        targets = chosen(archive, collection, name)
        notes = [await asyncio.to_thread(_readable, archive, target) for target in targets]
        if collection is not None or name is not None:
            await collections.get(store, targets[0].name)
        done = []
        for target, note in zip(targets, notes, strict=True):
            merged = await _merge(store, archive, target, listener)
            merged.note = " ".join(each for each in (merged.note, note) if each)
            done.append(merged)
    return done


def _readable(archive: Archive, target: RestoreTarget) -> str:
    """Leave out what cannot be read of the labels; a sentence about it, where there is such."""
    wanted = [part.name for part in LABELS]
    lost = [table for table in wanted if not archive.keep_readable(target.kept.folder, table)]
    if not lost:
        return ""
    return f"The file is damaged or was cut off: of {', '.join(lost)} there may have been more."


async def _merge(store: Store, archive: Archive, target: RestoreTarget, listener: Listener) -> RestoredLabels:
    view = await collections.find(store, target.name)

    async def absent(ids: Collection[str]) -> list[str]:
        return await label_files.absent(store, view, sorted(ids)) if view is not None else []

    async with _transaction(store, archive, f"{target.kept.name!r:.80}") as connection:
        await settle(connection, **PATIENT)
        taking = RowReader(connection, archive, target.kept.folder, listener)
        merged = await (await Merging.begun(taking, target.name, absent)).run()
    if view is None:
        merged.note = "There is no collection of that name here; they wait for it."
    return merged
