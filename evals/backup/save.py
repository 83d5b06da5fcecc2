"""Saving a backup from one snapshot of the store, taken when it begins.

The labels and judgements of all collections come first, then results, files of the home folder, and documents.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
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
from core.tasks import run_cancellable
from evals.backup import archive_reader, file_format
from evals.backup.archive_writer import ArchivePieces, ArchiveWriter, write_beside
from evals.backup.file_format import (
    LABELS,
    OF_COLLECTIONS,
    OUTPUTS,
    REGISTER,
    RESULTS,
    STORE,
    BackedUpCollection,
    Folders,
    HomeFile,
    Kind,
    Manifest,
    home_files,
    identifier,
    table_of,
)
from evals.schema import schema_chain as evals_chain

BLOCK: Final = 2**20
# Settings under which every server reads the same values back, and no timeout ends a long statement.
SETTINGS: Final = {
    "datestyle": "ISO, YMD",
    "timezone": "UTC",
    "bytea_output": "hex",
    "extra_float_digits": "3",
    **PATIENT,
}


@dataclass(frozen=True, slots=True)
class Saved:
    """The content of a written backup: rows by collection and table, and the number of files of the home folder."""

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
    return await run_cancellable(work, cancellation, name="The backup")


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
    for row in await collections.listed(store):  # opening one migrates it to the newest revision
        if collection in (None, row.name):
            await collections.get(store, row.name)
    with write_beside(path, overwrite=overwrite) as file:
        async with without_writers(store, collection), store.begin(read_only=True, fresh=True) as connection:
            backup = await _BackupRun.begin(store, connection, file, collection, folders, listener)
            await backup.write(outputs=outputs and collection is None)
        file.flush()
        archive = await asyncio.to_thread(archive_reader.Archive, file, path.with_name(f"{path.name}.part"))
        await asyncio.to_thread(archive.check, listener)
    return Saved(path, archive.size, backup.rows(), len(backup.manifest.files))


@asynccontextmanager
async def without_writers(store: Store, collection: str | None) -> AsyncIterator[None]:
    """On a cluster, which has no common snapshot of all nodes, keep loads out meanwhile."""
    if not store.capabilities.distributed:
        yield
        return
    names = [row.name for row in await collections.listed(store) if collection in (None, row.name)]
    async with locks.writer_lock(store, *names):
        yield


@dataclass(slots=True)
class _BackupRun:
    """One backup being written."""

    connection: AsyncConnection
    views: Mapping[str, CollectionView]
    manifest: Manifest
    contents: list[bytes]
    writer: ArchiveWriter
    listener: Listener

    @classmethod
    async def begin(
        cls,
        store: Store,
        connection: AsyncConnection,
        file: BinaryIO,
        collection: str | None,
        folders: Folders,
        listener: Listener,
    ) -> _BackupRun:
        await settle(connection, **SETTINGS)
        query = select(Collection).order_by(Collection.name)
        if collection is not None:
            query = query.where(Collection.name == composed(collection))
        rows = list(await AsyncSession(connection, expire_on_commit=False).scalars(query))
        if collection is not None and not rows:
            raise UnknownName("collection", collection, [])
        views = {row.name: await _view(connection, row) for row in rows if row.attached is None}
        for view in views.values():  # no table is dropped before it has been read; reading and writing go on
            tables = [identifier(table, view.namespace) for table in file_format.own_tables(view)]
            lock = sql.SQL("LOCK TABLE {} IN ACCESS SHARE MODE").format(sql.SQL(", ").join(tables))
            try:
                await (await driver_of(connection)).execute(lock)
            except psycopg.errors.UndefinedTable as error:
                raise _vanished(view.name) from error
        saved: list[tuple[str, Kind, datetime | None]] = [
            (row.name, "attached" if row.attached else "own", row.created_at) for row in rows
        ]
        if collection is None:  # with dropped collections of which something is left, but not those in the trash
            direct = [part.table.c.collection for part in OF_COLLECTIONS if part.through is None]
            names = {*await connection.scalars(union(*(select(column) for column in direct)))}
            gone = sorted(names - {row.name for row in rows})
            saved += [(name, "gone", None) for name in gone if not name.startswith(TRASH_MARK)]
        files = home_files(folders)
        try:
            version = metadata.version("rankbook")
        except metadata.PackageNotFoundError:
            version = "a checkout"
        manifest = Manifest(
            rankbook=version,
            postgres=store.capabilities.version,
            pgvector=store.capabilities.extensions.get("vector"),
            made_at=datetime.now(UTC),
            whole=collection is None,
            revisions={each.name: each.head for each in (catalog, evals_chain, collection_chain)},
            collections=tuple(
                BackedUpCollection(number=number, name=name, kind=kind, created_at=created_at)
                for number, (name, kind, created_at) in enumerate(saved, start=1)
            ),
            files=tuple(
                HomeFile(number=number, folder=each.folder, name=each.name)
                for number, each in enumerate(files, start=1)
            ),
        )
        contents = [each.content for each in files]
        return cls(connection, views, manifest, contents, ArchiveWriter(file, manifest), listener)

    async def write(self, *, outputs: bool) -> None:
        """Write everything, the data that is hardest to make again first."""
        every, everything = self.manifest.collections, sql.SQL("true")
        for parts in (LABELS, (REGISTER, *RESULTS)):
            for each in every:
                for part in parts:
                    if part is not REGISTER or each.kind != "gone":
                        title = f"{part.name} of {each.name}"
                        await self._copy(each.folder, part.table, None, part.rows_of(each.name), title)
        for file, content in zip(self.manifest.files, self.contents, strict=True):
            self.writer.add(file.member, content)
        if outputs:
            await self._copy(STORE, OUTPUTS, None, everything, "outputs of notebooks")
        for each in every:
            if view := self.views.get(each.name):
                for table in file_format.own_tables(view):
                    await self._copy(each.folder, table, view.namespace, everything, f"{table.name} of {each.name}")
        await asyncio.to_thread(self.writer.close)

    async def _copy(
        self, folder: str, table: Table, namespace: str | None, condition: sql.Composable, title: str
    ) -> None:
        statement = sql.SQL("COPY (SELECT {} FROM {} WHERE {}) TO STDOUT (FORMAT TEXT, HEADER)").format(
            sql.SQL(", ").join(map(sql.Identifier, file_format.columns(table))), identifier(table, namespace), condition
        )
        pieces, lines = ArchivePieces(self.writer, folder, table.name), list[bytes]()
        size, rows = 0, -1  # the first line is the header
        try:
            async with (await driver_of(self.connection)).cursor() as cursor, cursor.copy(statement) as copy:
                async for line in copy:  # the server sends single lines; many are packed at once, in a thread
                    lines.append(bytes(line))
                    size, rows = size + len(line), rows + 1
                    if size >= BLOCK:
                        await asyncio.to_thread(pieces.add, b"".join(lines))
                        self.listener(Step(f"Saving {title}", rows))
                        lines, size = [], 0
                if lines:
                    await asyncio.to_thread(pieces.add, b"".join(lines))
                await asyncio.to_thread(pieces.close)
                self.listener(Step(f"Saving {title}", rows))
        except psycopg.errors.UndefinedTable as error:
            raise _vanished(title) from error

    def rows(self) -> dict[str, dict[str, int]]:
        """The rows written, by collection and table; empty tables are left out."""
        counts: dict[str, dict[str, int]] = {each.name: {} for each in self.manifest.collections}
        names = {each.folder: each.name for each in self.manifest.collections}
        for member in self.writer.members:
            place = table_of(member.name)
            if place is not None and place[0] in names and member.rows:
                of_collection = counts[names[place[0]]]
                of_collection[place[1]] = of_collection.get(place[1], 0) + member.rows
        return counts


async def _view(connection: AsyncConnection, row: Collection) -> CollectionView:
    """The collection with its sets as of this snapshot."""
    await connection.execution_options(schema_translate_map={HERE: row.namespace})
    session = AsyncSession(connection, expire_on_commit=False)
    chunk_sets = await session.scalars(select(ChunkSet).order_by(ChunkSet.key))
    embedding_sets = await session.scalars(select(EmbeddingSet).order_by(EmbeddingSet.key))
    return CollectionView(row, tuple(chunk_sets), tuple(embedding_sets))


def _vanished(what: str) -> StoreError:
    return StoreError(f"Something was dropped while it was being saved ({what}). Make the backup again.")
