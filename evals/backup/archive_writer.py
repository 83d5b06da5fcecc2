"""Writing a backup's file: as a `.part` beside its place, in pieces with digests, and renamed when it is complete.

Owns the file, not its content. After an interruption at most the `.part` is left, which the next backup overwrites.
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
# Errors of folders that do not support fsync. Any other error is one of the disk.
NO_FSYNC: Final = {errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EACCES, errno.EPERM, errno.EBADF}


@contextmanager
def write_beside(path: Path, *, overwrite: bool = False) -> Iterator[BinaryIO]:
    """A file that is renamed to `path` when all is written, and removed after an error."""
    _refuse_taken(path, overwrite=overwrite)
    part = path.with_name(f"{path.name}.part")
    try:
        with _locked(part) as file:
            try:
                yield file
                file.flush()
                os.fsync(file.fileno())
                _refuse_taken(path, overwrite=overwrite)
                part.replace(path)
                _sync_folder(path)
            except BaseException:
                part.unlink(missing_ok=True)
                raise
    except OSError as error:
        raise InputError(
            f"The backup cannot be written ({error.strerror or error}). Choose a folder with room that is yours.",
            path=path,
        ) from error


def _sync_folder(path: Path) -> None:
    """Make the new name survive a power cut, if the folder supports it."""
    try:
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        if error.errno not in NO_FSYNC:
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
def _locked(part: Path) -> Iterator[BinaryIO]:
    """The file, emptied and locked; the lock ends with the process."""
    flags, is_new = os.O_RDWR | getattr(os, "O_NOFOLLOW", 0), True
    try:
        descriptor = os.open(part, flags | os.O_CREAT | os.O_EXCL, PRIVATE)
    except FileExistsError:
        is_new = False
        try:
            descriptor = os.open(part, flags)
        except FileNotFoundError:
            raise InputError(AT_THIS_MOMENT, path=part) from None
    with os.fdopen(descriptor, "r+b") as file:
        if "fcntl" in globals():
            try:
                _lock(descriptor, part)
            except OSError:  # a network share without locks: then no other backup is being written to it either
                if is_new:
                    part.unlink(missing_ok=True)
                raise
            if not is_new:  # left by an earlier backup: it may be another account's, or readable by others
                if os.fstat(descriptor).st_uid != os.geteuid():
                    raise InputError("This is another account's, left by its backup. Remove it.", path=part)
                os.fchmod(descriptor, PRIVATE)
        file.truncate()
        yield file


def _lock(descriptor: int, part: Path) -> None:
    """Lock the file, or raise if another backup is being written to it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise InputError("Another backup is being written there. Choose another name.", path=part) from None
    if not part.exists() or not os.path.samestat(part.stat(), os.fstat(descriptor)):
        raise InputError(AT_THIS_MOMENT, path=part)


class ArchiveWriter:
    """Writes members into a tar in the order of the calls, with the manifest first and the list of contents last."""

    def __init__(self, file: BinaryIO, manifest: Manifest) -> None:
        self._tar = tarfile.open(fileobj=file, mode="w", format=tarfile.USTAR_FORMAT)  # noqa: SIM115 - see `close`
        self._made_at = int(manifest.made_at.timestamp())
        self.members: list[Member] = []
        self._list(MANIFEST, manifest)

    def add(self, name: str, content: bytes, unpacked: Member | None = None) -> None:
        """Add a member; `unpacked` describes the content of a packed one."""
        if unpacked is None:
            unpacked = Member(name=name, size=len(content), sha256=hashlib.sha256(content).hexdigest())
        info = tarfile.TarInfo(name)
        info.size, info.mtime, info.mode = len(content), self._made_at, PRIVATE
        self._tar.addfile(info, io.BytesIO(content))
        self.members.append(unpacked)

    def close(self) -> None:
        """Write the list of contents, and end the file."""
        self._list(CONTENTS, Contents(members=tuple(self.members)))
        self._tar.close()

    def _list(self, name: str, content: BaseModel) -> None:
        self.add(name, content.model_dump_json(indent=1).encode())


class ArchivePieces:
    """Cuts a table's rows into members of a bounded size, each with the table's header."""

    def __init__(self, writer: ArchiveWriter, folder: str, table: str) -> None:
        self.writer, self.folder, self.table = writer, folder, table
        self.header: bytes | None = None
        self.number = 0

    def add(self, lines: bytes) -> None:
        """Add whole lines; the first of all is the header."""
        if self.header is None:
            self.header, _, lines = lines.partition(b"\n")
            self._begin()
        self._feed(lines)
        if self.size >= PIECE:
            self._end()
            self._begin()

    def close(self) -> None:
        """Write the last piece, which has no rows only if it is the only one."""
        if self.header is not None and (self.lines > 1 or self.number == 1):
            self._end()

    def _begin(self) -> None:
        self.number += 1
        self.size = self.lines = 0
        self.digest = hashlib.sha256()
        self.packer = zlib.compressobj(LEVEL, wbits=GZIP)
        self.packed = io.BytesIO()
        self._feed((self.header or b"") + b"\n")

    def _feed(self, lines: bytes) -> None:
        self.size += len(lines)
        self.lines += lines.count(b"\n")
        self.digest.update(lines)
        self.packed.write(self.packer.compress(lines))

    def _end(self) -> None:
        self.packed.write(self.packer.flush())
        name = piece(self.folder, self.table, self.number)
        member = Member(name=name, size=self.size, rows=self.lines - 1, sha256=self.digest.hexdigest())
        self.writer.add(name, self.packed.getvalue(), member)
