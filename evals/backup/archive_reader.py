"""A backup's file read: members in bounded memory, checked against its own list, and their rows."""

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
    identified,
    table_of,
)

BLOCK: Final = 2**20
M = TypeVar("M", bound=BaseModel)


class _Bounded:
    """The file, of which nobody reads much at once: a tar's own headings may claim any length."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.seek, self.tell = file.seek, file.tell

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= LARGEST_LIST:
            raise tarfile.ReadError("a heading that claims to be endless")
        return self._file.read(size)


class Archive:
    """An open backup. `contents` is None where the file was cut off."""

    def __init__(self, file: BinaryIO, path: Path) -> None:
        self.path, self._file = path, file
        self.size = path.stat().st_size
        self.cut_in = ""  # the member that the file ends in, where it was cut off in one
        self.infos = self._indexed()
        if next(iter(self.infos), None) != MANIFEST:
            raise self.wrong("This is not a backup of Rankbook's.")
        self.manifest = self._read_list(MANIFEST, Manifest)
        self.contents = self._read_list(CONTENTS, Contents) if CONTENTS in self.infos else None
        self._listed = {each.name: each for each in self.contents.members} if self.contents else {}
        self._check_numbers()

    @property
    def whole(self) -> bool:
        return self.contents is not None

    def wrong(self, what: str) -> InputError:
        return InputError(what, path=self.path)

    # -- what there is ---------------------------------------------------------------------------------------------

    def _indexed(self) -> dict[str, tarfile.TarInfo]:
        """Members by name, in the order of the file, as far as they are all there."""
        found: dict[str, tarfile.TarInfo] = {}
        self._file.seek(0)
        try:
            with tarfile.open(fileobj=_Bounded(self._file), mode="r:", errorlevel=2) as tar:  # type: ignore[call-overload]
                for info in tar:
                    if info.offset_data + info.size > self.size:
                        self.cut_in = info.name
                        break
                    self._check_member(info, found)
                    found[info.name] = info
        except (tarfile.TarError, EOFError, OverflowError, ValueError) as error:
            if not found:
                raise self.wrong("This is not a backup of Rankbook's, or nothing of it is left.") from error
        return found

    def _check_member(self, info: tarfile.TarInfo, found: dict[str, tarfile.TarInfo]) -> None:
        plain = info.type in {tarfile.REGTYPE, tarfile.AREGTYPE} and not info.issparse() and not info.pax_headers
        if not plain or not NAME.fullmatch(info.name) or info.name in found or len(found) >= MOST_MEMBERS:
            raise self.wrong(f"The member {info.name!r:.80} is nothing that a backup holds; it was not touched.")
        if CONTENTS in found:
            raise self.wrong("Something was added to this backup after its end; it was not touched.")
        packed = table_of(info.name) is not None
        most = LARGEST_PIECE if packed else LARGEST_FILE if info.name.startswith("files/") else LARGEST_LIST
        if info.size > most:
            raise self.wrong(f"The member {info.name!r} claims {info.size:,} bytes, which is more than one may have.")

    def _check_numbers(self) -> None:
        numbers = [each.number for each in self.manifest.collections]
        names = [each.name for each in self.manifest.collections]
        files = [each.number for each in self.manifest.files]
        if any(len(set(each)) < len(each) for each in (numbers, names, files)):
            raise self.wrong("Its list names something twice; a backup of Rankbook's does not.")

    def tables(self, folder: str) -> list[str]:
        """The tables of a collection that stand here, or begin to."""
        found = [table_of(name) for name in self.infos]
        return list(dict.fromkeys(each[1] for each in found if each and each[0] == folder))

    def pieces(self, folder: str, table: str) -> list[str]:
        return [name for name in self.infos if table_of(name) == (folder, table)]

    def rows(self, folder: str, table: str) -> int:
        return sum(self._listed[name].rows for name in self.pieces(folder, table) if name in self._listed)

    def listed_rows(self, piece: str) -> int | None:
        """How many rows a piece is said to hold; None where the list was cut off."""
        return self._listed[piece].rows if piece in self._listed else None

    def unpacked(self, folder: str) -> int:
        """Bytes of all that is in it of a collection."""
        return sum(each.size for each in self._listed.values() if each.name.startswith(f"{folder}/"))

    # -- what is in it ---------------------------------------------------------------------------------------------

    def _read_list(self, name: str, model: type[M]) -> M:
        try:
            return model.model_validate_json(self._stored(name))
        except ValidationError as error:
            said = error.errors(include_url=False)[0]
            if said["loc"] == ("format",):
                raise self.wrong("It is of a form that this Rankbook does not know: a newer one reads it.") from error
            raise self.wrong(f"{name} does not say what a backup's does ({said['msg'][:120]}).") from error

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
        """What a piece unpacks to, block by block; its size is watched, its end is checked."""
        info = self.infos[name]
        most = self._listed[name].size if name in self._listed else LARGEST_PIECE
        unpacker, size, at = zlib.decompressobj(GZIP), 0, info.offset_data
        end = at + info.size
        pending = b""
        while not unpacker.eof:
            if not pending:
                self._file.seek(at)  # others may have read elsewhere meanwhile
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
        """Everything against its digest, before anything of it is used."""
        if self.contents is None:
            raise self.wrong(
                "The file was cut off: it has no end. Take another copy of it; `--labels-only` brings back the labels "
                "and judgements that it still holds."
            )
        absent = [each.name for each in self.contents.members if each.name not in self.infos]
        strange = [name for name in self.infos if name not in self._listed and name != CONTENTS]
        if absent or strange:
            raise self.wrong(f"Its list and what it holds differ, in {(absent or strange)[0]} for one.")
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
        """Forget pieces that cannot be read to their end. Whether all of the table is here, as far as can be told."""
        there = self.pieces(folder, table)
        for name in there:
            if not self._is_sound(name):
                del self.infos[name]
        left = self.pieces(folder, table)
        if self.contents is None:
            known = [*self.infos, *([self.cut_in] if self.cut_in else [])]  # what comes next shows that this is all
            return bool(left) and left == there and table_of(known[-1]) != (folder, table)
        listed = [name for name in self._listed if table_of(name) == (folder, table)]
        return left == listed

    def _is_sound(self, name: str) -> bool:
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
def opened(path: Path) -> Iterator[Archive]:
    try:
        if path.exists() and not (path.is_file() or path.is_dir()):  # a pipe would keep us waiting, and has no end
            raise InputError(
                "A backup is read from a plain file, and this is none. Write it to the disk first.", path=path
            )
        file = path.open("rb")
    except OSError as error:
        raise InputError(f"The backup cannot be read ({error.strerror or error}).", path=path) from error
    with file:
        yield Archive(file, path)


LONGEST_HEADING: Final = 10_000  # bytes
REFUSALS: Final = (psycopg.DataError, psycopg.IntegrityError, psycopg.ProgrammingError, psycopg.NotSupportedError)


@dataclass(frozen=True, slots=True)
class RowReader:
    """Where rows come from: a collection's folder in an archive."""

    connection: AsyncConnection
    archive: Archive
    folder: str
    listener: Listener = nobody

    async def aside(self, part: BackupPart | Table) -> Table:
        """The rows in a temporary table of the same columns, empty where the backup has none; gone at the end."""
        table = part.table if isinstance(part, BackupPart) else part
        made = table.to_metadata(MetaData(), schema=None, name=f"incoming_{table.name}")  # type: ignore[arg-type]
        create = sql.SQL("CREATE TEMPORARY TABLE {} (LIKE {} INCLUDING DEFAULTS) ON COMMIT DROP")
        driver = await driver_of(self.connection)
        await driver.execute(create.format(sql.Identifier(made.name), identified(table)))
        await self._copy(table, sql.Identifier("pg_temp", made.name))
        return made

    async def into(self, table: Table, namespace: str) -> int:
        """The rows in a table of the collection's own."""
        return await self._copy(table, identified(table, namespace))

    async def _copy(self, table: Table, target: sql.Identifier) -> int:
        total, done = self.archive.rows(self.folder, table.name), 0
        for piece in self.archive.pieces(self.folder, table.name):
            done += await self._copy_piece(piece, table, target)
            self.listener(Step(f"Restoring {table.name}", done, total or None))
        return done

    async def _copy_piece(self, piece: str, table: Table, target: sql.Identifier) -> int:
        blocks = self.archive.blocks(piece)
        first = await asyncio.to_thread(_beginning, blocks)
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
                self._check_rows(piece, cursor.rowcount)
                return cursor.rowcount
        except REFUSALS as error:
            said = error.diag.message_primary or type(error).__name__
            raise self.archive.wrong(f"{piece} does not fit into the store: {said}. Nothing was restored.") from error

    def _columns(self, piece: str, first: bytes, table: Table) -> list[str]:
        heading, end, _ = first.partition(b"\n")
        found = heading.decode("utf-8", errors="replace").split("\t")
        known = file_format.columns(table)
        if strange := [name for name in found if name not in known]:
            raise self.archive.wrong(
                f"{piece} has a column {strange[0]!r:.80}, which {table.name} has not got in this Rankbook. Restore it "
                f"with Rankbook {self.archive.manifest.rankbook}, upgrade, and make a new backup."
            )
        if not end or len(set(found)) < len(found):
            raise self.archive.wrong(f"{piece} does not begin with a table's heading.")
        return found

    def _check_rows(self, piece: str, rows: int) -> None:
        expected = self.archive.listed_rows(piece)
        if expected is not None and rows != expected:
            raise self.archive.wrong(f"{piece} holds {rows:,} rows, and {expected:,} were saved.")


def _beginning(blocks: Iterator[bytes]) -> bytes:
    """What holds the whole heading."""
    first = b""
    while b"\n" not in first and len(first) < LONGEST_HEADING and (block := next(blocks, None)):
        first += block
    return first


async def counted(connection: AsyncConnection, statement: Executable) -> int:
    """How many rows a statement wrote, which SQLAlchemy forgets of an INSERT unless it is asked to keep it."""
    done: CursorResult[Any] = await connection.execute(statement.execution_options(preserve_rowcount=True))
    return int(done.rowcount)
