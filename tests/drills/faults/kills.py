"""Processes of the embedded server, its keeper and its clients, killed at random moments, several at once."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg

from core.store.server import supervisor
from core.store.server.embedded import EmbeddedServer
from tests.conftest import make_home, remove_home
from tests.drills.faults.nursery import Nursery
from tests.drills.faults.outcome import Outcome
from tests.effort import TIMES, random_for

KILLS = 20 * TIMES
ROWS = 400  # that a client would commit, were it left alone
LONGEST = 60.0  # seconds that a command may take
HUNG = 90.0  # seconds after which it is not waited for any more
AUXILIARY = ("checkpointer", "background writer", "walwriter", "autovacuum launcher", "io worker", "startup")


def drill(kills: int = KILLS) -> Outcome:
    """A client commits rows while processes are killed; the next command finds them all, within a minute."""
    drawn, said, injected, lost, doubled, slowest, first = random_for("kills"), list[str](), 0, 0, 0, 0.0, 0
    home = make_home()
    diary = home.with_name(f"{home.name}-diary")
    try:
        with _without_sync(home), Nursery({"RANKBOOK_HOME": str(home), "RANKBOOK_DSN": ""}) as nursery:
            while injected < kills:
                nursery.start("tests.drills.faults.chores:commit_rows", first, ROWS, str(diary))
                first += ROWS
                time.sleep(drawn.uniform(0.0, 1.2))
                injected += _struck(EmbeddedServer(home), nursery, drawn)
                if drawn.random() < 0.5:  # as by Ctrl-C of somebody who had enough
                    with suppress(ProcessLookupError):
                        nursery.kill()
                ends = [nursery.end(HUNG)]
                nursery.start("tests.drills.faults.chores:print_rows")
                ends.append(nursery.end(HUNG))
                said += [each.said.strip() for each in ends if not each.well and not each.killed]
                slowest = max(slowest, *(each.seconds for each in ends))
                assert slowest < LONGEST, (slowest, _last_of(home), said)
                if not ends[-1].well:  # it was told why, and the next one works
                    nursery.start("tests.drills.faults.chores:print_rows")
                    ends.append(nursery.end(HUNG))
                found = [int(number) for number in ends[-1].out.split()]
                noted = set(map(int, diary.read_text().split())) if diary.exists() else set()
                lost += len(noted - set(found)) + (not ends[-1].well)
                doubled += len(found) - len(set(found))
    finally:
        remove_home(home)
        diary.unlink(missing_ok=True)
    return Outcome("kill -9 of server, keeper and clients", injected, lost, doubled, True, tuple(said))


def _struck(server: EmbeddedServer, nursery: Nursery, drawn: random.Random) -> int:
    """One to three processes killed within moments. How many there were to kill."""
    struck = 0
    for _ in range(drawn.randint(1, 3)):
        there = supervisor.processes(server.cluster)
        postmaster = supervisor.postmaster_pid(server.cluster)
        kinds = {
            "postmaster": [each.pid for each in there if each.pid == postmaster],
            "backend": [each.pid for each in there if "[local]" in each.title],
            "auxiliary": [each.pid for each in there if each.title.startswith(AUXILIARY)],
            "keeper": _keeper(server.cluster),
            "client": [nursery.child],
        }
        kind = drawn.choice([kind for kind, pids in kinds.items() if pids])
        with suppress(ProcessLookupError):
            os.kill(drawn.choice(kinds[kind]), signal.SIGKILL)
            struck += 1
        time.sleep(drawn.choice([0.0, 0.0, 0.01, 0.1]))
    return struck


def _keeper(cluster: Path) -> list[int]:
    pid = supervisor.pid_in(cluster / supervisor.KEEPER)
    return [pid] if pid is not None and cluster.is_dir() and supervisor.is_held(cluster / supervisor.KEEPER) else []


def _last_of(home: Path) -> str:
    return "".join(EmbeddedServer(home).log.read_text(errors="replace").splitlines(keepends=True)[-30:])


@contextmanager
def _without_sync(home: Path) -> Iterator[None]:
    """Killing processes loses nothing that the kernel has: there is no need to wait for the disk."""
    with EmbeddedServer(home) as server, psycopg.connect(server.conninfo(), autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET fsync = off")
        connection.execute("CREATE TABLE committed (n int)")
    yield


DRILLS = (drill,)
