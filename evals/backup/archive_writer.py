"""Writing a backup's file: beside its place, piece by piece with digests, put there when whole and read back.

Owns the file; knows nothing of what is in it. Interrupted, it leaves at most a `.part`, which the next one takes over.
"""

from __future__ import annotations

import errno
import hashlib
import io
import os
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final

from pydantic import BaseModel

from core.errors import InputError
from evals.backup.file_format import CONTENTS, MANIFEST, Contents, Manifest, Member, piece

with suppress(ImportError):  # Windows has none
    import fcntl

PIECE: Final = 16 * 2**20  # bytes of a table before packing; a longer row makes a longer piece
GZIP: Final = 31  # zlib's word for a whole gzip file
LEVEL: Final = 3
PRIVATE: Final = 0o600  # it holds all documents
AT_THIS_MOMENT: Final = "Another backup was written there at this moment. Choose another name."
# What a folder answers that cannot be told to keep a name. Anything else is the disk's.
UNTOLD: Final = {errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EACCES, errno.EPERM, errno.EBADF}


@contextmanager
def written_beside(path: Path, *, overwrite: bool = False) -> Iterator[BinaryIO]:
    """A file that takes its place when all is written, and otherwise never was."""
    _refuse_taken(path, overwrite=overwrite)
    part = path.with_name(f"{path.name}.part")
    try:
        with _alone(part) as file:
            try:
                yield file
                file.flush()
                os.fsync(file.fileno())
                _refuse_taken(path, overwrite=overwrite)
                part.replace(path)
                _keep_name(path)
            except BaseException:
                part.unlink(missing_ok=True)
                raise
    except OSError as error:
        raise InputError(
            f"The backup cannot be written ({error.strerror or error}). Choose a folder with room that is yours.",
            path=path,
        ) from error


def _keep_name(path: Path) -> None:
    """After a power cut too. Where a folder cannot be told to, the backup is no worse for it; a disk that fails is."""
    try:
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        if error.errno not in UNTOLD:
            raise InputError(
                f"The backup is there, but the disk failed to keep its name ({error.strerror or error}): a power cut "
                "may take it. Make another one, on another disk.",
                path=path,
            ) from error


def _refuse_taken(path: Path, *, overwrite: bool) -> None:
    if path.is_dir():
        raise InputError("This is a folder. Name the file that the backup is to be written to.", path=path)
    if path.exists() and not overwrite:
        raise InputError("There is a file already. Choose another name, or say --overwrite.", path=path)


@contextmanager
def _alone(part: Path) -> Iterator[BinaryIO]:
    """The file, emptied, for us alone: the lock goes with its holder, however that ends."""
    descriptor, is_new = _opened(part)
    with os.fdopen(descriptor, "r+b") as file:
        if "fcntl" in globals():
            try:
                _lock(descriptor, part)
            except OSError:  # a share that knows no locks: nobody else's backup is in it either
                if is_new:
                    part.unlink(missing_ok=True)
                raise
            if not is_new:
                _take_over(descriptor, part)
        file.truncate()
        yield file


def _opened(part: Path) -> tuple[int, bool]:
    """The file, and whether it was made just now: then it is ours, whomever a share says that it belongs to."""
    flags = os.O_RDWR | getattr(os, "O_NOFOLLOW", 0)
    with suppress(FileExistsError):
        return os.open(part, flags | os.O_CREAT | os.O_EXCL, PRIVATE), True
    try:
        return os.open(part, flags), False
    except FileNotFoundError:
        raise InputError(AT_THIS_MOMENT, path=part) from None


def _lock(descriptor: int, part: Path) -> None:
    """Refused where another backup has it: the file is that one's, whoever made it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise InputError("Another backup is being written there. Choose another name.", path=part) from None
    if not part.exists() or not os.path.samestat(part.stat(), os.fstat(descriptor)):
        raise InputError(AT_THIS_MOMENT, path=part)


def _take_over(descriptor: int, part: Path) -> None:
    """What was left there: it may be another's, or open to others."""
    if os.fstat(descriptor).st_uid != os.geteuid():
        raise InputError("This is another account's, left by its backup. Remove it.", path=part)
    os.fchmod(descriptor, PRIVATE)


class Writer:
    """Members into a tar, in the order in which they are handed over."""

    def __init__(self, file: BinaryIO, manifest: Manifest) -> None:
        self._tar = tarfile.open(fileobj=file, mode="w", format=tarfile.USTAR_FORMAT)  # noqa: SIM115 - see `close`
        self._made_at = int(manifest.made_at.timestamp())
        self.members: list[Member] = []
        self._list(MANIFEST, manifest)

    def add(self, name: str, content: bytes, unpacked: Member | None = None) -> None:
        """A member; `unpacked` says what it unpacks to, where it is packed."""
        if unpacked is None:
            unpacked = Member(name=name, size=len(content), sha256=hashlib.sha256(content).hexdigest())
        info = tarfile.TarInfo(name)
        info.size, info.mtime, info.mode = len(content), self._made_at, PRIVATE
        self._tar.addfile(info, io.BytesIO(content))
        self.members.append(unpacked)

    def close(self) -> None:
        """The list of all that came before, and the end."""
        self._list(CONTENTS, Contents(members=tuple(self.members)))
        self._tar.close()

    def _list(self, name: str, content: BaseModel) -> None:
        self.add(name, content.model_dump_json(indent=1).encode())

    def rows(self, folder: str, table: str) -> int:
        """How many rows of a table were written."""
        return sum(each.rows for each in self.members if each.name.startswith(f"{folder}/{table}."))


class ArchivePieces:
    """A table's rows on their way into members of a bounded size, each with the table's heading."""

    def __init__(self, writer: Writer, folder: str, table: str) -> None:
        self.writer, self.folder, self.table = writer, folder, table
        self.heading: bytes | None = None
        self.number = 0

    def add(self, lines: bytes) -> None:
        """Whole lines, the heading first of all."""
        if self.heading is None:
            self.heading, _, lines = lines.partition(b"\n")
            self._begin()
        self._feed(lines)
        if self.size >= PIECE:
            self._end()
            self._begin()

    def close(self) -> None:
        """The last piece; the only one stands there without rows, too."""
        if self.heading is not None and (self.lines > 1 or self.number == 1):
            self._end()

    def _begin(self) -> None:
        self.number += 1
        self.size = self.lines = 0
        self.digest = hashlib.sha256()
        self.packer = zlib.compressobj(LEVEL, wbits=GZIP)
        self.packed = io.BytesIO()
        self._feed((self.heading or b"") + b"\n")

    def _feed(self, lines: bytes) -> None:
        self.size += len(lines)
        self.lines += lines.count(b"\n")
        self.digest.update(lines)
        self.packed.write(self.packer.compress(lines))

    def _end(self) -> None:
        self.packed.write(self.packer.flush())
        name = piece(self.folder, self.table, self.number)
        made = Member(name=name, size=self.size, rows=self.lines - 1, sha256=self.digest.hexdigest())
        self.writer.add(name, self.packed.getvalue(), made)
