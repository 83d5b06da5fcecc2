"""Where Rankbook keeps things on this machine, and as whom the embedded server runs."""

from __future__ import annotations

import contextlib
import os
import stat
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import platformdirs

from core.errors import ServerError

with contextlib.suppress(ImportError):  # Windows has none; nor has it the embedded server, which alone needs it
    import pwd

POSIX: Final = os.name == "posix"  # elsewhere modes and owners tell nothing: Windows says 0o666 of every file
ROOT: Final = 0
SERVER_USERS = ("rankbook", "nobody")  # PostgreSQL refuses to run as root; the first of these that exists serves


def home() -> Path:
    """`RANKBOOK_HOME`, else the platform's data folder. Root has its own, because the server's user must reach it."""
    if chosen := os.environ.get("RANKBOOK_HOME"):
        return Path(chosen).expanduser().absolute()
    if is_root():
        return Path("/var/lib/rankbook")
    return platformdirs.user_data_path("rankbook", appauthor=False)


def is_root() -> bool:
    return hasattr(os, "geteuid") and os.geteuid() == ROOT


@dataclass(frozen=True, slots=True)
class ServerUser:
    """The account of the server process; `uid` is None where that is simply ours."""

    name: str
    uid: int | None
    gid: int | None

    @property
    def owner(self) -> int:
        return self.uid if self.uid is not None else os.geteuid()


def server_user() -> ServerUser:
    if not is_root():
        return ServerUser(own_name(), None, None)
    for name in SERVER_USERS:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return ServerUser(name, entry.pw_uid, entry.pw_gid)
    raise ServerError(
        f"PostgreSQL does not run as root, and none of the users {', '.join(SERVER_USERS)} exists here. "
        "Create one (`useradd --system rankbook`), or start Rankbook as an ordinary user."
    )


def own_name() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        raise ServerError(
            f"The user id {os.geteuid()} has no name on this system, and PostgreSQL insists on one. "
            "Add it to /etc/passwd, or set RANKBOOK_DSN to a server that runs elsewhere."
        ) from None


def name_of(owner: int) -> str:
    """The account's name, or its number where it has none."""
    try:
        return pwd.getpwuid(owner).pw_name
    except KeyError:
        return f"the user {owner}"


def make_private(folder: Path) -> None:
    """Create a folder that only we may enter; as root, others may pass through it to what is theirs, not list it.

    Somebody's own folder keeps its mode, but for that passage.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    mode = folder.stat().st_mode
    if is_root() and not mode & 0o001:
        folder.chmod(mode | 0o011)


def others_may(file: os.stat_result, what: int) -> bool:
    """Whether its mode lets accounts besides the owner do that, as bits of a mode."""
    return POSIX and bool(stat.S_IMODE(file.st_mode) & what)


def is_anothers(file: os.stat_result) -> bool:
    """Whether it belongs to an account that is neither ours nor root's."""
    return POSIX and file.st_uid not in (os.geteuid(), ROOT)


def supported() -> bool:
    """Whether the embedded server can run on this platform at all."""
    return sys.platform in {"linux", "darwin"}
