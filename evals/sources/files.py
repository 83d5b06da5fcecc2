"""Files of a folder or an archive, read in place, with limits on sizes, compression ratios, links and names."""

from __future__ import annotations

import gzip
import io
import lzma
import os
import stat
import zipfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import BinaryIO, cast

from pydantic import BaseModel, ConfigDict, Field

from core.errors import InputError
from core.types import Flaw, Place

METHODS = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2}  # others may take 4 GB to unpack a byte
DIRECTORY_ENTRY = 512  # bytes that an entry of a zip's directory has room for on average
DIRECTORY_END = 2**20  # bytes that any directory may take; entries are read in smaller pieces
RATIO_FLOOR = 16 * 2**20  # below this much output a high ratio does no harm, and tiny test files often have one
WAY_OUT = "If the file is to be trusted, unpack it yourself and give the folder"


class ArchiveLimits(BaseModel):
    """How much an archive may hold. The defaults fit the largest public BEIR archive."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    entries: int = Field(default=10_000, gt=0, description="Most entries that a zip may have.")
    total_bytes: int = Field(default=32 * 2**30, gt=0, description="Most bytes that may come out of one archive.")
    ratio: int = Field(default=200, gt=0, description="Most bytes out for each byte in. Text seldom passes 20.")


class Budget:
    """Counts the bytes that come out of one archive or compressed file, and stops at the limit."""

    def __init__(self, file: str, packed_bytes: int, limits: ArchiveLimits, *, way_out: str = WAY_OUT) -> None:
        self._file, self._limits, self._way_out = file, limits, way_out
        self._left = min(limits.total_bytes, max(RATIO_FLOOR, packed_bytes * limits.ratio))

    def spend(self, count: int) -> None:
        self._left -= count
        if self._left < 0:
            raise InputError(
                f"Unpacking was stopped: more came out than {self._limits.total_bytes:,} bytes, or more than "
                f"{self._limits.ratio} times what went in. {self._way_out}.",
                path=self._file,
            )


class MeteredStream(io.RawIOBase):
    """A stream whose bytes are charged to a budget, and whose damage becomes an InputError."""

    def __init__(self, raw: BinaryIO, file: str, budget: Budget, *, packed: bool) -> None:
        self._raw, self._file, self._budget = raw, file, budget
        self._inner = cast("BinaryIO", gzip.GzipFile(fileobj=raw)) if packed else raw

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        try:
            block = self._inner.read(len(buffer))
        except (
            zipfile.BadZipFile,
            zlib.error,
            lzma.LZMAError,
            EOFError,
            OSError,
            ValueError,
            NotImplementedError,
        ) as error:
            raise InputError(f"The file is damaged and cannot be unpacked ({error}).", path=self._file) from error
        self._budget.spend(len(block))
        buffer[: len(block)] = block
        return len(block)

    def close(self) -> None:
        self._raw.close()  # GzipFile does not close a file object that it was opened on
        super().close()


class BoundedFile(io.FileIO):
    """A zip file that refuses reads beyond a size: zipfile reads the directory in one piece of the stated length."""

    def __init__(self, path: Path, most: int) -> None:
        super().__init__(path)
        self._file, self._most = path, most

    def read(self, size: int | None = -1, /) -> bytes:
        length = self._most + 1 if size is None or size < 0 else size
        block = b"" if length > self._most + 1 else super().read(length)
        if length > self._most and (length > self._most + 1 or len(block) > self._most):
            raise InputError("The archive's directory is longer than that of so many entries may be.", path=self._file)
        return block


class Tree(ABC):
    """Files under a root, by relative name with forward slashes."""

    @abstractmethod
    def names(self) -> list[str]:
        """Every file, sorted."""

    @abstractmethod
    def place(self, name: str) -> str:
        """How an error message names this file."""

    @abstractmethod
    def size(self, name: str) -> int:
        """The stated size in bytes; of a .gz file, the packed size."""

    @abstractmethod
    def open(self, name: str) -> io.BufferedReader:
        """The file's bytes, unpacked if its name ends in .gz."""


class FolderTree(Tree):
    """Plain files on disk. Only two levels are listed: no layout read here is deeper."""

    def __init__(self, root: Path, limits: ArchiveLimits) -> None:
        self._root = root
        packed = sum(self.size(name) for name in self.names() if name.endswith(".gz"))
        self._budget = Budget(str(root), packed, limits)  # shared by all files

    def names(self) -> list[str]:
        paths = (path for pattern in ("*", "*/*") for path in self._root.glob(pattern) if path.is_file())
        return sorted(path.relative_to(self._root).as_posix() for path in paths)

    def place(self, name: str) -> str:
        return str(self._root / name)

    def size(self, name: str) -> int:
        return (self._root / name).stat().st_size

    def open(self, name: str) -> io.BufferedReader:
        return open_file(self._root / name, budget=self._budget)


class ZipTree(Tree):
    """A zip archive, whose directory is checked before the first byte is read."""

    def __init__(self, archive: zipfile.ZipFile, path: Path, limits: ArchiveLimits) -> None:
        self._archive, self._path = archive, path
        size = path.stat().st_size
        self._entries = {entry.filename: entry for entry in check_entries(archive, size, str(path), limits)}
        self._budget = Budget(str(path), size, limits)

    def names(self) -> list[str]:
        return sorted(self._entries)

    def place(self, name: str) -> str:
        return f"{self._path}!{name}"

    def size(self, name: str) -> int:
        return self._entries[name].file_size

    def open(self, name: str) -> io.BufferedReader:
        try:
            inner = cast("BinaryIO", self._archive.open(self._entries[name]))
        except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, OSError, ValueError) as error:
            message = f"The entry cannot be unpacked ({error}). Pack it anew with the usual deflate method."
            raise InputError(message, path=self.place(name)) from error
        return _metered(inner, name, self.place(name), self._budget)


def check_entries(archive: zipfile.ZipFile, packed: int, path: str, limits: ArchiveLimits) -> Iterator[zipfile.ZipInfo]:
    """The files of an archive of `packed` bytes, or InputError if any entry makes it untrustworthy."""
    entries = archive.infolist()
    if len(entries) > limits.entries:
        raise InputError(f"The archive has {len(entries):,} entries; {limits.entries:,} are allowed.", path=path)
    Budget(path, packed, limits).spend(sum(entry.file_size for entry in entries))
    seen: set[str] = set()
    for entry in entries:
        name = entry.filename
        unusual = entry.compress_type not in METHODS
        problems = (
            (not name, "has no name"),
            (name.startswith("/") or "\\" in name or ":" in name.split("/")[0], "has an absolute or a foreign path"),
            (".." in PurePosixPath(name).parts, "leads out of the archive"),
            (stat.S_IFMT(entry.external_attr >> 16) not in (0, stat.S_IFREG, stat.S_IFDIR), "is a link or a device"),
            (bool(entry.flag_bits & 0x1), "is encrypted"),
            (unusual, "is packed in an unusual way; pack it anew with the usual deflate method"),
            (name in seen, "stands there twice"),
        )
        if problem := next((problem for applies, problem in problems if applies), ""):
            raise InputError(f"The archive is refused: the entry {name!r:.80} {problem}.", path=path)
        seen.add(name)
        if not entry.is_dir():
            yield entry


def _metered(inner: BinaryIO, name: str, file: str, budget: Budget) -> io.BufferedReader:
    return io.BufferedReader(MeteredStream(inner, file, budget, packed=name.endswith(".gz")), 256 * 1024)


def open_file(path: Path, budget: Budget | None = None) -> io.BufferedReader:
    """A file's bytes, unpacked under a budget if its name ends in .gz."""
    require_file(path)
    try:
        raw: io.BufferedReader = io.BufferedReader(io.FileIO(path), 256 * 1024)
    except OSError as error:
        raise InputError(f"The file cannot be read: {error.strerror or error}.", path=path) from error
    if not path.name.endswith(".gz"):
        return raw
    spent = budget or Budget(str(path), path.stat().st_size, ArchiveLimits())
    return _metered(raw, path.name, str(path), spent)


def require_file(path: Path, what: str = "a file") -> None:
    """InputError unless `path` is a plain file. A pipe or a device is refused because it might never end."""
    if not exists(path):
        raise InputError(f"There is nothing here; {what} was expected. Check the path.", path=path)
    if not path.is_file():
        raise InputError(f"This is not a plain file; {what} was expected.", path=path)


def exists(path: Path) -> bool:
    """`Path.exists` for any text: False for names with NUL and over-long ones, which it raises for."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


@contextmanager
def open_tree(path: Path, limits: ArchiveLimits) -> Iterator[Tree]:
    """A folder or a .zip, open for one pass over it."""
    if not exists(path):
        message = "There is nothing here; a folder or a .zip was expected. Check the path."
        raise InputError(message, path=path)
    if path.is_dir():
        yield FolderTree(path, limits)
        return
    require_file(path, "a folder or a .zip")
    with ExitStack() as stack:
        try:
            raw = stack.enter_context(BoundedFile(path, max(limits.entries * DIRECTORY_ENTRY, DIRECTORY_END)))
            archive = stack.enter_context(zipfile.ZipFile(raw))
        except (zipfile.BadZipFile, OSError, NotImplementedError, ValueError, EOFError) as error:
            message = f"This is neither a folder nor a readable zip archive ({error})."
            raise InputError(message, path=path) from error
        yield ZipTree(archive, path, limits)


def printable(path: Path | str) -> str:
    """A path as text that can be stored and printed, even if its bytes are not UTF-8."""
    return str(path).encode("utf-8", "backslashreplace").decode("utf-8")


def walk(root: Path, suffixes: tuple[str, ...], skipped: Callable[[str], None] | None = None) -> Iterator[Path | Flaw]:
    """The files below a folder that end in one of `suffixes`, in the order of their paths, hidden ones left out.

    A link that leads out of the folder, or to a folder, is a Flaw. `skipped` is called with the path of each file of
    another ending.
    """
    home, pending = root.resolve(), [iter(_sorted(root))]
    while pending:
        entry = next(pending[-1], None)
        if entry is None:
            pending.pop()
            continue
        path, is_read = printable(entry.path), entry.name.lower().endswith(suffixes)
        if entry.is_symlink() and (problem := _link_problem(Path(entry.path), home, is_read=is_read)):
            yield Flaw(Place(path), problem)
        elif entry.is_dir(follow_symlinks=False):
            try:
                pending.append(iter(_sorted(Path(entry.path))))
            except InputError as error:
                yield Flaw(Place(path), error.message)
        elif is_read and entry.is_file():
            if path == entry.path:
                yield Path(path)
            else:
                yield Flaw(Place(path), "The file's name is not UTF-8, so it cannot be an id. Rename it.")
        elif skipped is not None and entry.is_file():
            skipped(path)


def _link_problem(link: Path, home: Path, *, is_read: bool) -> str:
    try:
        target = link.resolve(strict=True)
    except (OSError, RuntimeError):
        return "The link leads nowhere. It was left out." if is_read else ""
    if not target.is_dir() and not is_read:
        return ""
    if not target.is_relative_to(home):
        return "The link leads out of the folder. It was not followed."
    return "The link leads to a folder that is read anyway. It was not followed." if target.is_dir() else ""


def ending(name: str) -> str:
    """The ending of a file's name in lower case; empty if it has none."""
    return Path(name).suffix.lower()


def matches(parts: tuple[str, ...], glob: str) -> bool:
    """Whether a glob matches a path below a folder, or a folder on that path.

    A glob without a slash inside is matched with each name on the path; one with a slash with the path from the top,
    where `**` stands for any number of folders.
    """
    pattern = tuple(part for part in glob.split("/") if part and part != ".")
    if len(pattern) < 2 and not glob.startswith("/"):
        return bool(pattern) and any(fnmatchcase(part, pattern[0]) for part in parts)
    reached = _skipping({0}, pattern)
    for part in parts:
        any_folder = {at for at in reached if pattern[at] == "**"}
        by_name = {at + 1 for at in reached - any_folder if fnmatchcase(part, pattern[at])}
        reached = _skipping(any_folder | by_name, pattern)
        if len(pattern) in reached:
            return True
    return False


def _skipping(reached: set[int], pattern: tuple[str, ...]) -> set[int]:
    """The positions reached, and those after each `**`, which may stand for no folder."""
    further = set(reached)
    for at, part in enumerate(pattern):
        if at in further and part == "**":
            further.add(at + 1)
    return further


def _sorted(folder: Path) -> list[os.DirEntry[str]]:
    """The entries of a folder, a subfolder sorted as its name and a slash, so that a walk is in the order of paths."""
    try:
        with os.scandir(folder) as entries:
            seen = [entry for entry in entries if not entry.name.startswith(".")]
    except OSError as error:
        raise InputError(f"The folder cannot be read: {error.strerror or error}.", path=printable(folder)) from error
    return sorted(
        seen, key=lambda entry: os.fsencode(entry.name + ("/" if entry.is_dir(follow_symlinks=False) else ""))
    )
