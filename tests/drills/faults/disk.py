"""A disk that is full, while a collection is loaded and while its indexes are built: a small one, really filled."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from core import bridge
from core.errors import RankbookError
from core.progress import Listener, Step
from core.store.engine import Store
from core.store.server.embedded import EmbeddedServer
from evals.schema import schema_chain
from tests.conftest import make_home
from tests.drills.faults.outcome import Outcome, account
from tests.fakes import HashingEmbedder, rows
from tests.store.making import FIXED, documents, fresh, ids, loader, make, some_name

SIZE = "300m"
DOCUMENTS = 500
PIECE = 2**20


class CannotMount(Exception):
    """Nobody here may mount a small disk."""


@contextmanager
def small_disk() -> Iterator[Path]:
    """A home on a disk of its own."""
    home = make_home()
    mounted = shutil.which("mount") and subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={SIZE},mode=755", "tmpfs", str(home)], capture_output=True, check=False
    )
    try:
        if not mounted or mounted.returncode:
            raise CannotMount("A small file system cannot be mounted here; it takes root, or a container that may.")
        yield home
        _until_stopped(home)
    finally:
        subprocess.run(["umount", "--lazy", str(home)], capture_output=True, check=False)
        shutil.rmtree(home, ignore_errors=True)


def _until_stopped(home: Path) -> None:
    give_up = time.monotonic() + 60
    while EmbeddedServer(home).running and time.monotonic() < give_up:
        time.sleep(0.05)


class Filler:
    """A file that takes all the room there is, but for a little."""

    def __init__(self, home: Path) -> None:
        self.home, self.file = home, home / "filler"

    def fill(self, leaving: int) -> None:
        with self.file.open("ab") as into:
            while (room := self._room() - leaving) > 0:
                into.write(bytes(min(room, PIECE)))
                into.flush()

    def _room(self) -> int:
        found = os.statvfs(self.home)
        return found.f_bavail * found.f_frsize

    def remove(self) -> None:
        self.file.unlink(missing_ok=True)


def drill(beginning: str = "Loading", leaving: int = 300_000) -> Outcome:
    """The disk fills when the load says that it is at a step of this name; with room again, all is as it should be."""
    name = some_name()
    embedder = HashingEmbedder(name=name)
    with small_disk() as home:
        store = bridge.run(Store.open(home=home, chains=[schema_chain]))
        try:
            make(store, name, [embedder], {"small": FIXED})
            filler, struck = Filler(home), list[str]()

            def listener(step: Step) -> None:
                if not struck and step.name.startswith(beginning):
                    struck.append(step.name)
                    filler.fill(leaving)

            said = _complaints(lambda: _ingest(store, name, embedder, listener))
            said += _complaints(lambda: _ingest(store, name, embedder, listener))  # there is no room yet
            filler.remove()
            _ingest(store, name, embedder)
            lost, doubled = account(store, name, ids(_documents()))
            works = bool(said) and bool(struck)
        finally:
            bridge.run(store.close())
    return Outcome(f"disk full at {beginning.lower()!r}", len(struck), lost, doubled, works, tuple(said))


def _documents() -> list:  # type: ignore[type-arg]
    return documents(DOCUMENTS, words=120)


def _ingest(store: Store, name: str, embedder: HashingEmbedder, listener: Listener | None = None) -> None:
    loading = loader(store, name, [embedder])
    if listener is not None:
        loading.listener = listener
    bridge.run(loading.run(rows(_documents())))


def _complaints(work: Callable[[], object]) -> list[str]:
    try:
        work()
    except RankbookError as error:
        return [str(error)]
    return []


def at_load() -> Outcome:
    return drill("Loading")


def at_texts() -> Outcome:
    return drill("Full-text")


def at_indexes() -> Outcome:
    return drill("Index")


def at_start() -> Outcome:
    """The server dies while there is no room at all: it cannot come back, says so, and does when there is some."""
    name = some_name()
    with small_disk() as home:
        store = bridge.run(Store.open(home=home, chains=[schema_chain]))
        try:
            make(store, name, [])
            filler = Filler(home)
            filler.fill(0)
            assert store.server is not None
            assert store.server.pid is not None
            os.kill(store.server.pid, signal.SIGKILL)
            _until_stopped(home)
            said = _complaints(lambda: fresh(store, name))
            filler.remove()
            works = bool(said) and fresh(store, name).name == name
        finally:
            bridge.run(store.close())
    return Outcome("disk full when the server starts", 1, 0, 0, works, tuple(said))


def at_first_start() -> Outcome:
    """There is no room to create the database: this is said, and with room again it is created."""
    with small_disk() as home:
        filler = Filler(home)
        filler.fill(10 * PIECE)
        said = _complaints(EmbeddedServer(home).acquire)
        filler.remove()
        with EmbeddedServer(home) as server:
            works = bool(said) and server.running
    return Outcome("disk full when the database is created", 1, 0, 0, works, tuple(said))


DRILLS = (at_first_start, at_start, at_load, at_texts, at_indexes)
