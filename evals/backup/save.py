"""A backup written from one snapshot of the store: what was committed when it began, whatever happens meanwhile.

Labels and judgements of every collection come first, results next, files of the home, and the documents last.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import BinaryIO, Final

import psycopg
from psycopg import sql
from sqlalchemy import Table, select, union
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession

from core.errors import StoreError, UnknownName
from core.progress import Listener, Step, nobody
from core.store import collections, locks
from core.store.collections import CollectionView
from core.store.engine import PATIENT, Store, driver_of, settle
from core.store.migrations import catalog
from core.store.migrations import collection as collection_chain
from core.store.names import TRASH_MARK, composed
from core.store.schema import HERE, ChunkSet, Collection, EmbeddingSet
from core.tasks import until
from evals.backup import archive_reader, file_format
from evals.backup.archive_writer import ArchivePieces, Writer, written_beside
from evals.backup.file_format import (
    LABELS,
    OF_COLLECTIONS,
    OUTPUTS,
    REGISTER,
    RESULTS,
    STORE,
    BackedUpCollection,
    BackupPart,
    Folders,
    HomeFile,
    Manifest,
    found_in,
    identified,
)
from evals.schema import schema_chain as evals_chain

BLOCK: Final = 2**20
# What writes a value so that every server reads the same one back, and lets nothing end a long statement.
SETTINGS: Final = {
    "datestyle": "ISO, YMD",
    "timezone": "UTC",
    "bytea_output": "hex",
    "extra_float_digits": "3",
    **PATIENT,
}


@dataclass(frozen=True, slots=True)
class Saved:
    """What a backup holds: for each collection the rows of each table, and how many files of the home."""

    path: Path
    size: int
    rows: Mapping[str, Mapping[str, int]]
    files: int


async def save_backup(
    store: Store,
    path: Path,
    *,
    collection: str | None = None,
    folders: Folders | None = None,
    outputs: bool = False,
    overwrite: bool = False,
    listener: Listener = nobody,
    cancellation: asyncio.Event | None = None,
) -> Saved:
    """Write a backup of everything, or of one collection, and read it back. It is there when it is whole."""
    work = _save(store, path, collection, folders or {}, listener, outputs=outputs, overwrite=overwrite)
    return await until(cancellation, work)


async def _save(
    store: Store,
    path: Path,
    collection: str | None,
    folders: Folders,
    listener: Listener,
    *,
    outputs: bool,
    overwrite: bool,
) -> Saved:
    if collection is not None:
        collection = (await collections.get(store, collection)).name
    for row in await collections.listed(store):  # those of older revisions are brought up to date
        if collection in (None, row.name):
            await collections.get(store, row.name)
    with written_beside(path, overwrite=overwrite) as file:
        async with _undisturbed(store, collection), store.begin(read_only=True, fresh=True) as connection:
            saving = await _Saving.begun(store, connection, file, collection, folders, listener)
            await saving.everything(outputs=outputs and collection is None)
        size = await asyncio.to_thread(_read_back, path.with_name(f"{path.name}.part"), file, listener)
    return Saved(path, size, saving.rows(), len(saving.manifest.files))


@asynccontextmanager
async def _undisturbed(store: Store, collection: str | None) -> AsyncIterator[None]:
    """One server gives one snapshot of all its tables. A cluster does not: there nobody may load meanwhile."""
    if not store.capabilities.distributed:
        yield
        return
    names = [row.name for row in await collections.listed(store) if collection in (None, row.name)]
    async with locks.writer_lock(store, *names):
        yield


def _read_back(path: Path, file: BinaryIO, listener: Listener) -> int:
    """A backup that cannot be read is none: found out today. Its size."""
    file.flush()
    archive = archive_reader.Archive(file, path)
    archive.check(listener)
    return archive.size


@dataclass(slots=True)
class _Saving:
    connection: AsyncConnection
    views: Mapping[str, CollectionView]
    manifest: Manifest
    contents: list[bytes]
    writer: Writer
    listener: Listener

    @classmethod
    async def begun(
        cls,
        store: Store,
        connection: AsyncConnection,
        file: BinaryIO,
        collection: str | None,
        folders: Folders,
        listener: Listener,
    ) -> _Saving:
        await settle(connection, **SETTINGS)
        found = await _collections(connection, collection)
        views = {row.name: await _view(connection, row) for row in found if row.attached is None}
        await _hold(connection, views)
        kept = [_kept(number, row) for number, row in enumerate(found, start=1)]
        if collection is None:
            known = {each.name for each in kept}
            gone = [name for name in await _names(connection) if name not in known]
            kept += [
                BackedUpCollection(number=len(kept) + at, name=name, kind="gone")
                for at, name in enumerate(gone, start=1)
            ]
        files = found_in(folders)
        manifest = Manifest(
            rankbook=_version(),
            postgres=store.capabilities.version,
            pgvector=store.capabilities.extensions.get("vector"),
            made_at=datetime.now(UTC),
            whole=collection is None,
            revisions={each.name: each.head for each in (catalog, evals_chain, collection_chain)},
            collections=tuple(kept),
            files=tuple(
                HomeFile(number=number, folder=each.folder, name=each.name)
                for number, each in enumerate(files, start=1)
            ),
        )
        contents = [each.content for each in files]
        return cls(connection, views, manifest, contents, Writer(file, manifest), listener)

    async def everything(self, *, outputs: bool) -> None:
        """In the order of what could least be made again."""
        for each in self.manifest.collections:
            await self._of_collection(each, LABELS)
        for each in self.manifest.collections:
            await self._of_collection(each, (REGISTER, *RESULTS))
        for file, content in zip(self.manifest.files, self.contents, strict=True):
            self.writer.add(file.member, content)
        if outputs:
            await self._copy(STORE, OUTPUTS, None, sql.SQL("true"), "outputs of notebooks")
        for each in self.manifest.collections:
            if view := self.views.get(each.name):
                for table in file_format.own_tables(view):
                    await self._copy(
                        each.folder, table, view.namespace, sql.SQL("true"), f"{table.name} of {each.name}"
                    )
        await asyncio.to_thread(self.writer.close)

    async def _of_collection(self, kept: BackedUpCollection, wanted: tuple[BackupPart, ...]) -> None:
        for part in wanted:
            if part is not REGISTER or kept.kind != "gone":
                told = f"{part.name} of {kept.name}"
                await self._copy(kept.folder, part.table, None, part.rows_of(kept.name), told)

    async def _copy(
        self, folder: str, table: Table, namespace: str | None, condition: sql.Composable, told: str
    ) -> None:
        statement = sql.SQL("COPY (SELECT {} FROM {} WHERE {}) TO STDOUT (FORMAT TEXT, HEADER)").format(
            sql.SQL(", ").join(map(sql.Identifier, file_format.columns(table))), identified(table, namespace), condition
        )
        pieces = ArchivePieces(self.writer, folder, table.name)
        try:
            async with (await driver_of(self.connection)).cursor() as cursor, cursor.copy(statement) as rows:
                await _cut(rows, pieces, lambda done: self.listener(Step(f"Saving {told}", done)))
        except psycopg.errors.UndefinedTable as error:
            raise _vanished(told) from error

    def rows(self) -> dict[str, dict[str, int]]:
        """Of each collection, table by table, those that hold something."""
        of = {each.name: each.folder for each in self.manifest.collections}
        return {
            name: {
                table: count
                for table in dict.fromkeys(
                    each.name.removeprefix(f"{folder}/").split(".")[0]
                    for each in self.writer.members
                    if each.name.startswith(f"{folder}/")
                )
                if (count := self.writer.rows(folder, table))
            }
            for name, folder in of.items()
        }


async def _cut(rows: psycopg.AsyncCopy, pieces: ArchivePieces, tell: Callable[[int], None]) -> None:
    """The server sends a row at a time, the heading first; they are packed many at once, beside the loop."""
    held: list[bytes] = []
    size, done = 0, -1
    async for row in rows:
        held.append(bytes(row))
        size, done = size + len(row), done + 1
        if size >= BLOCK:
            await asyncio.to_thread(pieces.add, b"".join(held))
            tell(done)
            held, size = [], 0
    if held:
        await asyncio.to_thread(pieces.add, b"".join(held))
    await asyncio.to_thread(pieces.close)
    tell(done)


def _kept(number: int, row: Collection) -> BackedUpCollection:
    return BackedUpCollection(
        number=number, name=row.name, kind="attached" if row.attached else "own", created_at=row.created_at
    )


async def _collections(connection: AsyncConnection, name: str | None) -> list[Collection]:
    query = select(Collection).order_by(Collection.name)
    if name is not None:
        query = query.where(Collection.name == composed(name))
    found = list(await AsyncSession(connection, expire_on_commit=False).scalars(query))
    if name is not None and not found:
        raise UnknownName("collection", name, [])
    return found


async def _view(connection: AsyncConnection, row: Collection) -> CollectionView:
    """The sets as this snapshot has them."""
    await connection.execution_options(schema_translate_map={HERE: row.namespace})
    session = AsyncSession(connection, expire_on_commit=False)
    chunk_sets = await session.scalars(select(ChunkSet).order_by(ChunkSet.key))
    embedding_sets = await session.scalars(select(EmbeddingSet).order_by(EmbeddingSet.key))
    return CollectionView(row, tuple(chunk_sets), tuple(embedding_sets))


async def _hold(connection: AsyncConnection, views: Mapping[str, CollectionView]) -> None:
    """Nobody drops a table before it has been read; reading and writing go on."""
    for view in views.values():
        tables = [identified(table, view.namespace) for table in file_format.own_tables(view)]
        lock = sql.SQL("LOCK TABLE {} IN ACCESS SHARE MODE").format(sql.SQL(", ").join(tables))
        try:
            await (await driver_of(connection)).execute(lock)
        except psycopg.errors.UndefinedTable as error:
            raise _vanished(view.name) from error


async def _names(connection: AsyncConnection) -> list[str]:
    """Every collection of which something is kept, be it dropped or not. What lies in the trash is not saved."""
    direct = [part.table.c.collection for part in OF_COLLECTIONS if part.through is None]
    names = await connection.scalars(union(*(select(column) for column in direct)))
    return sorted(name for name in names if not name.startswith(TRASH_MARK))


def _vanished(what: str) -> StoreError:
    return StoreError(f"Something was dropped while it was being saved ({what}). Make the backup again.")


def _version() -> str:
    try:
        return metadata.version("rankbook")
    except metadata.PackageNotFoundError:
        return "a checkout"
