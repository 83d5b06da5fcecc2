"""The real server that every test of the store shares, and what tests are given by name."""

from __future__ import annotations

import os
import re
import shutil
import signal
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from types import ModuleType
from typing import Any

import psycopg
import pytest
import typer.main
import typer.testing
from hypothesis import HealthCheck, settings
from sqlalchemy.exc import ProgrammingError

from core import bridge
from core.errors import MissingCapability, RankbookError
from core.store import collections
from core.store.engine import Store
from core.store.server import supervisor
from core.store.server.embedded import EmbeddedServer
from evals import trash
from evals.collections import load
from evals.schema import schema_chain as evals_chain
from tests.effort import STEADY, TIMES
from tests.fakes import HashingEmbedder

SHARED = Path(os.environ.get("RANKBOOK_DATA") or Path(__file__).parents[2] / "shared" / "data")
TEST_DSN = os.environ.get("RANKBOOK_TEST_DSN")
HOMES: list[Path] = []  # all that this run has made
SERVERS_END = 10.0  # seconds
OURS = "test "  # as the names of collections begin that tests make for themselves


def pytest_configure() -> None:
    """Nothing a test does may touch the developer's own store, and Ctrl-C is heard where a shell has us ignore it."""
    settings.register_profile(
        "rankbook",
        max_examples=30 * TIMES,
        derandomize=STEADY,
        database=None,
        deadline=None,  # a busy machine is no flaw of the code
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    )
    settings.load_profile("rankbook")
    signal.signal(signal.SIGINT, signal.default_int_handler)  # as it has of what it puts into the background
    os.environ.pop("RANKBOOK_DSN", None)
    if TEST_DSN:
        os.environ["RANKBOOK_DSN"] = TEST_DSN  # what a test starts by itself, such as a command, works there too
    os.environ["RANKBOOK_HOME"] = str(make_home())


def pytest_unconfigure() -> None:
    for home in HOMES:
        remove_home(home)


def make_home() -> Path:
    """A home for a server, gone at the end of the run. In the short temporary folder, which the server's own user can
    pass through.
    """
    HOMES.append(Path(tempfile.mkdtemp(prefix="rankbook-test-", dir="/tmp")))
    return HOMES[-1]


def remove_home(home: Path) -> None:
    """The home, and every server in it first: what that still writes would come back."""
    clusters = [Path(folder) for folder, _, files in os.walk(home) if supervisor.SERVER in files]
    for cluster in clusters:
        _end_server(cluster)
    for sockets in {EmbeddedServer(cluster.parents[1]).socket_folder for cluster in clusters}:
        if not sockets.is_relative_to(home) and not sockets.is_symlink():
            shutil.rmtree(sockets, ignore_errors=True)
    shutil.rmtree(home, ignore_errors=True)


def _end_server(cluster: Path) -> None:
    """By an immediate shutdown, which gives shared memory back; then what is left, that which stands still too."""
    for number in (signal.SIGQUIT, signal.SIGKILL):
        postmaster = supervisor.postmaster_pid(cluster)
        for process in supervisor.processes(cluster):
            if number == signal.SIGKILL or process.pid == postmaster:
                with suppress(ProcessLookupError):
                    os.kill(process.pid, number)
        give_up = time.monotonic() + SERVERS_END
        while any(supervisor.is_held(cluster / lock) for lock in (supervisor.SERVER, supervisor.KEEPER)):
            if time.monotonic() > give_up:
                break
            time.sleep(0.02)
        else:
            return


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup() -> Iterator[None]:
    yield from _skipped_for_want_of_an_extension()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Iterator[None]:
    yield from _skipped_for_want_of_an_extension()


def _skipped_for_want_of_an_extension() -> Iterator[None]:
    """A server of one's own may lack an extension. The embedded one has them all, so there it is a failure."""
    try:
        yield
    except (MissingCapability, ProgrammingError) as error:
        told = re.search(r'.* needs the PostgreSQL extension .*|type "(vector|halfvec)" does not exist', str(error))
        if TEST_DSN is None or told is None:
            raise
        pytest.skip(told[0])


def lacks(store: Store, extension: str) -> None:
    """Skip, where a test asks for what the extension gives without Rankbook's asking for it first."""
    if TEST_DSN is not None and extension in store.capabilities.missing:
        pytest.skip(store.capabilities.missing[extension])


@pytest.fixture
def trigrams(store: Store) -> None:
    lacks(store, "pg_trgm")


@pytest.fixture
def unaccented(store: Store) -> None:
    lacks(store, "unaccent")


@pytest.fixture(scope="session")
def store() -> Iterator[Store]:
    """The embedded server, or the one at RANKBOOK_TEST_DSN."""
    opened = bridge.run(Store.open(TEST_DSN, chains=[evals_chain]))
    without_disk(opened)
    yield opened
    bridge.run(opened.close())


def without_disk(store: Store, *, commits: str = "off") -> None:
    """The server no longer waits for the disk at each commit. Only for one that goes away with its home.

    Whoever kills it wants `commits` on, as they are on the server that ships: the last ones would be lost.
    """
    if store.server is None:
        return
    with psycopg.connect(store.server.conninfo(), autocommit=True) as connection:
        for setting, value in (("fsync", "off"), ("synchronous_commit", commits), ("full_page_writes", "off")):
            connection.execute(f"ALTER SYSTEM SET {setting} = {value}")
        connection.execute("SELECT pg_reload_conf()")


@pytest.fixture
def name() -> str:
    """A collection name of this test alone."""
    return f"{OURS}{uuid.uuid4().hex[:12]}"


@pytest.fixture(scope="module", autouse=True)
def swept(request: pytest.FixtureRequest) -> Iterator[None]:
    """The collections of a file's tests are gone after it: all that lists collections takes longer with each."""
    here = [item for item in request.session.items if item.path == request.path and isinstance(item, pytest.Function)]
    store = request.getfixturevalue("store") if any("store" in item.fixturenames for item in here) else None
    yield
    if store is not None:
        bridge.run(_sweep(store))


async def _sweep(store: Store) -> None:
    with suppress(RankbookError):  # of a server that a test has stopped, or a collection that one has damaged
        for row in await collections.listed(store):
            if row.name.startswith(OURS):
                with suppress(RankbookError):
                    await load.drop(store, row.name)
        for entry in await trash.listed(store):
            if entry.collection.startswith(OURS):
                with suppress(RankbookError):  # a page that AppTest left behind is reading: a later file's
                    await trash.destroy(store, entry)


@pytest.fixture
def embedder() -> HashingEmbedder:
    return HashingEmbedder()


@pytest.fixture(scope="session")
def plain_ranx() -> Iterator[Callable[..., Any]]:
    """Calls a function in a process where ranx is plain Python: to compile its types and methods would take minutes."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        with pytest.MonkeyPatch.context() as patch:  # for that process alone, which begins with its first work
            patch.setenv("NUMBA_DISABLE_JIT", "1")
            patch.setitem(
                sys.modules, "__main__", ModuleType("__main__")
            )  # AppTest leaves a page there, to be run again
            process.submit(exec, "import ranx").result()
        yield lambda function, *given, **named: process.submit(function, *given, **named).result()


@pytest.fixture(scope="session", autouse=True)
def commands_built_once() -> Iterator[None]:
    """Typer's runner makes the whole tree of commands for each call, which takes longer than most calls."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typer.testing, "_get_command", cache(typer.main.get_command))
        yield


@pytest.fixture(scope="session")
def one_scan() -> Iterator[None]:
    """Each run of an AppTest looks through all installed packages for components, most of its time. Here the first."""
    from streamlit.components.v2 import manifest_scanner

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(manifest_scanner, "scan_component_manifests", cache(manifest_scanner.scan_component_manifests))
        yield


@pytest.fixture
def shared() -> Path:
    """The folder of real labelled collections; the test is skipped where it is absent."""
    if not SHARED.is_dir():
        pytest.skip(f"needs the labelled collections in {SHARED} (set RANKBOOK_DATA)")
    return SHARED
