"""Reading a backup's file: members in bounded memory, checked against the file's own list, and their rows."""

from __future__ import annotations

import asyncio
import hashlib
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final, TypeVar

import psycopg
from psycopg import sql
from pydantic import BaseModel, ValidationError
from sqlalchemy import CursorResult, Executable, MetaData, Table
from sqlalchemy.ext.asyncio import AsyncConnection

from core.errors import InputError
from core.progress import Listener, Step, nobody
from core.store.engine import driver_of
from evals.backup import file_format
from evals.backup.archive_writer import GZIP
from evals.backup.file_format import (
    CONTENTS,
    LARGEST_FILE,
    LARGEST_LIST,
    LARGEST_PIECE,
    MANIFEST,
    MOST_MEMBERS,
    NAME,
    BackupPart,
    Contents,
    Manifest,
    Member,
    identifier,
    table_of,
)

BLOCK: Final = 2**20
M = TypeVar("M", bound=BaseModel)


class _Bounded:
    """A file that refuses long reads: the headers of a tar may claim any length."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.seek, self.tell = file.seek, file.tell

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= LARGEST_LIST:
            raise tarfile.ReadError("a heading that claims to be endless")
        return self._file.read(size)


class Archive:
    """An open backup. `contents` is None if the file was cut off."""

    def __init__(self, file: BinaryIO, path: Path) -> None:
        self.path, self._file = path, file
        self.size = path.stat().st_size
        self.cut_in = ""  # the member in which the file was cut off
        self.infos = self._index()
        if next(iter(self.infos), None) != MANIFEST:
            raise self.wrong("This is not a backup of Rankbook's.")
        self.manifest = self._read_list(MANIFEST, Manifest)
        self.contents = self._read_list(CONTENTS, Contents) if CONTENTS in self.infos else None
        self._listed = {each.name: each for each in self.contents.members} if self.contents else {}
        named = ([each.number for each in self.manifest.collections], [each.name for each in self.manifest.collections])
        if any(len(set(each)) < len(each) for each in (*named, [each.number for each in self.manifest.files])):
            raise self.wrong("Its list names something twice; a backup of Rankbook's does not.")

    @property
    def whole(self) -> bool:
        return self.contents is not None

    def wrong(self, what: str) -> InputError:
        return InputError(what, path=self.path)

    # -- members --------------------------------------------------------------------------------------------------

    def _index(self) -> dict[str, tarfile.TarInfo]:
        """The complete members by name, in the order of the file."""
        infos: dict[str, tarfile.TarInfo] = {}
        self._file.seek(0)
        try:
            with tarfile.open(fileobj=_Bounded(self._file), mode="r:", errorlevel=2) as tar:  # type: ignore[call-overload]
                for info in tar:
                    if info.offset_data + info.size > self.size:
                        self.cut_in = info.name
                        break
                    self._check_member(info, infos)
                    infos[info.name] = info
        except (tarfile.TarError, EOFError, OverflowError, ValueError) as error:
            if not infos:
                raise self.wrong("This is not a backup of Rankbook's, or nothing of it is left.") from error
        return infos

    def _check_member(self, info: tarfile.TarInfo, infos: dict[str, tarfile.TarInfo]) -> None:
        plain = info.type in {tarfile.REGTYPE, tarfile.AREGTYPE} and not info.issparse() and not info.pax_headers
        if not plain or not NAME.fullmatch(info.name) or info.name in infos or len(infos) >= MOST_MEMBERS:
            raise self.wrong(f"The member {info.name!r:.80} is nothing that a backup holds; it was not touched.")
        if CONTENTS in infos:
            raise self.wrong("Something was added to this backup after its end; it was not touched.")
        packed = table_of(info.name) is not None
        most = LARGEST_PIECE if packed else LARGEST_FILE if info.name.startswith("files/") else LARGEST_LIST
        if info.size > most:
            raise self.wrong(f"The member {info.name!r} claims {info.size:,} bytes, which is more than one may have.")

    def tables(self, folder: str) -> list[str]:
        """The tables of a collection of which at least one piece is in the file."""
        pieces = [table_of(name) for name in self.infos]
        return list(dict.fromkeys(each[1] for each in pieces if each and each[0] == folder))

    def pieces(self, folder: str, table: str) -> list[str]:
        return [name for name in self.infos if table_of(name) == (folder, table)]

    def rows(self, folder: str, table: str) -> int:
        return sum(self._listed[name].rows for name in self.pieces(folder, table) if name in self._listed)

    def listed_rows(self, piece: str) -> int | None:
        """The number of rows of a piece by the file's list; None if the list was cut off."""
        return self._listed[piece].rows if piece in self._listed else None

    def unpacked(self, folder: str) -> int:
        """The unpacked bytes of a collection."""
        return sum(each.size for each in self._listed.values() if each.name.startswith(f"{folder}/"))

    # -- content --------------------------------------------------------------------------------------------------

    def _read_list(self, name: str, model: type[M]) -> M:
        try:
            return model.model_validate_json(self._stored(name))
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            if first["loc"] == ("format",):
                raise self.wrong("It is of a form that this Rankbook does not know: a newer one reads it.") from error
            raise self.wrong(f"{name} does not say what a backup's does ({first['msg'][:120]}).") from error

    def _stored(self, name: str) -> bytes:
        info = self.infos[name]
        self._file.seek(info.offset_data)
        return self._file.read(info.size)

    def file(self, name: str) -> bytes:
        """A member that is not packed."""
        if name not in self.infos:
            raise self.wrong(f"It lists {name}, and does not hold it.")
        return self._stored(name)

    def blocks(self, name: str) -> Iterator[bytes]:
        """A piece unpacked block by block, with checks of its size and its end."""
        info = self.infos[name]
        most = self._listed[name].size if name in self._listed else LARGEST_PIECE
        unpacker, size, at = zlib.decompressobj(GZIP), 0, info.offset_data
        end = at + info.size
        pending = b""
        while not unpacker.eof:
            if not pending:
                self._file.seek(at)  # other pieces may have been read meanwhile
                pending = self._file.read(min(BLOCK, end - at))
                at += len(pending)
            if not pending and not unpacker.unconsumed_tail:
                raise self.wrong(f"{name} ends too early.")
            try:
                block = unpacker.decompress(pending, BLOCK)
            except zlib.error as error:
                raise self.wrong(f"{name} is damaged ({error}).") from error
            pending = unpacker.unconsumed_tail
            size += len(block)
            if size > most:
                raise self.wrong(f"{name} unpacks to more than the {most:,} bytes that it may.")
            if block:
                yield block
        if unpacker.unused_data or at < end:
            raise self.wrong(f"{name} goes on after its end.")

    def check(self, listener: Listener = nobody) -> None:
        """Compare every member with its digest."""
        if self.contents is None:
            raise self.wrong(
                "The file was cut off: it has no end. Take another copy of it; `--labels-only` brings back the labels "
                "and judgements that it still holds."
            )
        missing = [each.name for each in self.contents.members if each.name not in self.infos]
        unlisted = [name for name in self.infos if name not in self._listed and name != CONTENTS]
        if missing or unlisted:
            raise self.wrong(f"Its list and what it holds differ, in {(missing or unlisted)[0]} for one.")
        done = 0
        for each in self.contents.members:
            self._check_digest(each)
            done += self.infos[each.name].size
            listener(Step("Checking the backup", done // BLOCK, self.size // BLOCK, "MiB"))

    def _check_digest(self, listed: Member) -> None:
        digest, size, lines = hashlib.sha256(), 0, 0
        packed = table_of(listed.name) is not None
        for block in self.blocks(listed.name) if packed else (self._stored(listed.name),):
            digest.update(block)
            size += len(block)
            lines += block.count(b"\n")
        if digest.hexdigest() != listed.sha256 or size != listed.size or (packed and lines - 1 != listed.rows):
            raise self.wrong(f"{listed.name} is not what was written: its digest differs. Take another copy.")

    def keep_readable(self, folder: str, table: str) -> bool:
        """Drop pieces that cannot be read to their end; whether the table is complete, as far as the file shows."""
        pieces = self.pieces(folder, table)
        readable = [name for name in pieces if self._is_readable(name)]
        for name in {*pieces} - {*readable}:
            del self.infos[name]
        if self.contents is None:
            known = [*self.infos, *([self.cut_in] if self.cut_in else [])]  # a later table shows that this one ended
            return bool(readable) and readable == pieces and table_of(known[-1]) != (folder, table)
        return readable == [name for name in self._listed if table_of(name) == (folder, table)]

    def _is_readable(self, name: str) -> bool:
        try:
            if name in self._listed:
                self._check_digest(self._listed[name])
            else:
                for _ in self.blocks(name):
                    pass
        except InputError:
            return False
        return True


@contextmanager
def open_archive(path: Path) -> Iterator[Archive]:
    try:
        if path.exists() and not (path.is_file() or path.is_dir()):  # a pipe may never end
            raise InputError(
                "A backup is read from a plain file, and this is none. Write it to the disk first.", path=path
            )
        file = path.open("rb")
    except OSError as error:
        raise InputError(f"The backup cannot be read ({error.strerror or error}).", path=path) from error
    with file:
        yield Archive(file, path)


LONGEST_HEADER: Final = 10_000  # bytes
REFUSALS: Final = (psycopg.DataError, psycopg.IntegrityError, psycopg.ProgrammingError, psycopg.NotSupportedError)


@dataclass(frozen=True, slots=True)
class RowReader:
    """Copies the rows of a collection's folder in an archive into tables."""

    connection: AsyncConnection
    archive: Archive
    folder: str
    listener: Listener = nobody

    async def read_temporary(self, part: BackupPart | Table) -> Table:
        """A temporary table of the same columns with the rows, dropped when the transaction ends."""
        table = part.table if isinstance(part, BackupPart) else part
        incoming = table.to_metadata(MetaData(), schema=None, name=f"incoming_{table.name}")  # type: ignore[arg-type]
        create = sql.SQL("CREATE TEMPORARY TABLE {} (LIKE {} INCLUDING DEFAULTS) ON COMMIT DROP")
        driver = await driver_of(self.connection)
        await driver.execute(create.format(sql.Identifier(incoming.name), identifier(table)))
        await self._copy(table, sql.Identifier("pg_temp", incoming.name))
        return incoming

    async def read_into(self, table: Table, namespace: str) -> int:
        """Copy the rows into a table in the collection's schema; how many there are."""
        return await self._copy(table, identifier(table, namespace))

    async def _copy(self, table: Table, target: sql.Identifier) -> int:
        total, done = self.archive.rows(self.folder, table.name), 0
        for piece in self.archive.pieces(self.folder, table.name):
            done += await self._copy_piece(piece, table, target)
            self.listener(Step(f"Restoring {table.name}", done, total or None))
        return done

    async def _copy_piece(self, piece: str, table: Table, target: sql.Identifier) -> int:
        blocks = self.archive.blocks(piece)

        def read_header() -> bytes:
            first = b""
            while b"\n" not in first and len(first) < LONGEST_HEADER and (block := next(blocks, None)):
                first += block
            return first

        first = await asyncio.to_thread(read_header)
        statement = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT TEXT, HEADER MATCH)").format(
            target, sql.SQL(", ").join(map(sql.Identifier, self._columns(piece, first, table)))
        )
        try:
            async with (await driver_of(self.connection)).cursor() as cursor:
                async with cursor.copy(statement) as into:
                    block: bytes | None = first
                    while block:
                        await into.write(block)
                        block = await asyncio.to_thread(next, blocks, None)
                rows = cursor.rowcount
        except REFUSALS as error:
            reason = error.diag.message_primary or type(error).__name__
            raise self.archive.wrong(f"{piece} does not fit into the store: {reason}. Nothing was restored.") from error
        expected = self.archive.listed_rows(piece)
        if expected is not None and rows != expected:
            raise self.archive.wrong(f"{piece} holds {rows:,} rows, and {expected:,} were saved.")
        return rows

    def _columns(self, piece: str, first: bytes, table: Table) -> list[str]:
        header, end, _ = first.partition(b"\n")
        names = header.decode("utf-8", errors="replace").split("\t")
        known = file_format.columns(table)
        if strange := [name for name in names if name not in known]:
            raise self.archive.wrong(
                f"{piece} has a column {strange[0]!r:.80}, which {table.name} has not got in this Rankbook. Restore it "
                f"with Rankbook {self.archive.manifest.rankbook}, upgrade, and make a new backup."
            )
        if not end or len(set(names)) < len(names):
            raise self.archive.wrong(f"{piece} does not begin with a table's heading.")
        return names


async def count_written(connection: AsyncConnection, statement: Executable) -> int:
    """How many rows a statement wrote; of an INSERT, SQLAlchemy keeps the count only with this option."""
    result: CursorResult[Any] = await connection.execute(statement.execution_options(preserve_rowcount=True))
    return int(result.rowcount)
