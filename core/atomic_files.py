"""Files written whole or not at all, by one process at a time: beside their place first, then in it.

A disk that fills up on the way leaves what was there, and nothing beside it.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

with suppress(ImportError):  # Windows has none
    import fcntl

LOCK_PATIENCE: Final = 10.0  # seconds; a file is written within milliseconds
# What a folder answers in which no file may be made, or whose file may not be replaced, as one mounted by itself.
NOT_HERE: Final = {errno.EACCES, errno.EPERM, errno.EROFS, errno.EBUSY, errno.EXDEV}
UNSUPPORTED: Final = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL, errno.ENOLCK}


def write_whole(path: Path, content: bytes | str, *, mode: int = 0o666) -> None:
    """The file with this content, in UTF-8 where it is text. Its mode and owner stay, and a link stays a link.

    `mode` is that of a new file, less what the umask takes.
    What is no plain file (a pipe, /dev/stdout) is written to. So is one whose folder takes no other file.
    """
    with replacing(path, mode=mode) as part:
        part.write_bytes(content.encode() if isinstance(content, str) else content)


def create_whole(path: Path, content: bytes) -> None:
    """A new file. `FileExistsError` where something of that name is there, which is left alone."""
    part = _part_beside(path)
    try:
        _write_new(part, content)
        try:
            os.link(part, path)
        except OSError as error:
            if error.errno not in UNSUPPORTED:
                raise
            _write_new(path, content)  # a share without hard links
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def replacing(path: Path, *, ending: str = ".part", mode: int = 0o666) -> Iterator[Path]:
    """Another place to write the file to, which takes the place of `path` when all went well."""
    there = path.stat() if path.exists() else None
    if there is not None and not stat.S_ISREG(there.st_mode):
        yield path
        return
    path = Path(os.path.realpath(path))  # of a link that leads to itself `resolve` makes an error of another kind
    part = _part_beside(path, ending)
    try:
        os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode))
    except OSError as error:
        if there is None or error.errno not in NOT_HERE:
            raise
        yield path
        return
    try:
        yield part
        _settle(part, there)
        try:
            part.replace(path)
        except OSError as error:
            if there is None or error.errno not in NOT_HERE:
                raise
            path.write_bytes(part.read_bytes())
    finally:
        part.unlink(missing_ok=True)


def _settle(part: Path, there: os.stat_result | None) -> None:
    """On the disk, with the owner and the mode of the file whose place it takes."""
    if there is not None:
        with suppress(OSError, AttributeError):  # only root may give a file away
            if (there.st_uid, there.st_gid) != (part.stat().st_uid, part.stat().st_gid):
                os.chown(part, there.st_uid, there.st_gid)
        part.chmod(stat.S_IMODE(there.st_mode))
    with part.open("rb+") as written:
        os.fsync(written.fileno())


def _write_new(path: Path, content: bytes) -> None:
    with path.open("xb") as new:
        try:
            new.write(content)
            new.flush()
            os.fsync(new.fileno())
        except OSError:
            path.unlink(missing_ok=True)
            raise


def _part_beside(path: Path, ending: str = ".part") -> Path:
    return path.with_name(f".rankbook-{secrets.token_hex(6)}{ending}")


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """The file for this process alone among all that lock it. `TimeoutError` where another one keeps it.

    The lock is the file's own, so nothing is left beside it; whoever waited looks whether the file was replaced
    meanwhile. Where there is nothing to lock, or a share knows no locks, there is none.
    """
    give_up = time.monotonic() + LOCK_PATIENCE
    descriptor = _open(path)
    try:
        while descriptor is not None and not _is_ours(descriptor, path):
            if time.monotonic() > give_up:
                raise TimeoutError(f"another process has been writing it for {LOCK_PATIENCE:.0f} s")
            time.sleep(0.005)
            if not _is_at(descriptor, path):
                os.close(descriptor)
                descriptor = _open(path)
        yield
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _open(path: Path) -> int | None:
    with suppress(OSError):  # whoever reads or writes it says why
        return os.open(path, os.O_RDWR | getattr(os, "O_CLOEXEC", 0)) if "fcntl" in globals() else None
    return None


def _is_ours(descriptor: int, path: Path) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in UNSUPPORTED:
            raise
        return True
    return _is_at(descriptor, path)


def _is_at(descriptor: int, path: Path) -> bool:
    """Whether the file that is open is still the one at this place."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except OSError:
        return False
