"""The embedded server when processes come, go and are killed: real processes, each test in a home of its own."""

# mypy: disable-error-code="no-untyped-call, no-any-return, call-arg, union-attr, type-arg, misc"
# mypy: disable-error-code="arg-type, var-annotated, unused-ignore"

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import text

from core import bridge
from core.errors import ServerError
from core.store import grants, roles
from core.store.engine import Store
from core.store.server import supervisor
from core.store.server.embedded import SOCKET, EmbeddedServer
from evals.schema import schema_chain
from tests.conftest import TEST_DSN, make_home, remove_home
from workbench.server.access import JUDGES

REPOSITORY = Path(__file__).parents[3]
PATIENCE = 60

pytestmark = pytest.mark.skipif(TEST_DSN is not None, reason="it is the embedded server that is tested")

CLIENT = """
import sys
sys.path.insert(0, {repository!r})
import psycopg
from pathlib import Path
from core.store.conninfo import without_steering
from core.store.server.embedded import EmbeddedServer
server = EmbeddedServer(Path({home!r}))
server.acquire()
with without_steering(), psycopg.connect(server.conninfo(), autocommit=True) as connection:
    connection.execute("SELECT pg_advisory_lock(1)")
    connection.execute("CREATE TABLE IF NOT EXISTS kept (n int)")
    connection.execute("INSERT INTO kept VALUES ({number})")
    pid = server.pid
print(pid, flush=True)
sys.stdin.readline()
server.release()
"""


class Client:
    """A process that holds a lease on the server until told to go, or killed."""

    def __init__(self, home: Path, number: int = 0, *, environment: dict[str, str] | None = None, **options) -> None:
        code = CLIENT.format(repository=str(REPOSITORY), home=str(home), number=number)
        self.process = subprocess.Popen(
            [options.pop("python", sys.executable), "-W", "ignore", "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **(environment or {})},
            **options,
        )

    def ready(self) -> int:
        """The server's process id, once the client has written its row."""
        line = self.process.stdout.readline()
        assert line.strip().isdigit(), self.process.stderr.read()
        return int(line)

    def leave(self) -> None:
        with contextlib.suppress(BrokenPipeError, ValueError):
            self.process.communicate("go\n", timeout=PATIENCE)

    def kill(self) -> None:
        """End it, whether or not it has ended already; nothing of it stays open."""
        self.process.kill()
        with contextlib.suppress(ValueError):
            self.process.communicate(timeout=PATIENCE)


@pytest.fixture
def home():
    made = make_home()
    yield made
    remove_home(made)


@pytest.fixture
def client(home):
    """Makes clients, and lets the last of them go at the end."""
    made: list[Client] = []

    def start(number: int = 0, **options) -> Client:
        made.append(Client(options.pop("home", home), number, **options))
        return made[-1]

    yield start
    for each in made:
        each.kill()


def until(condition, what: str) -> None:
    """Wait for what must come to pass; however slow the machine is, it is not a matter of luck."""
    give_up = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < give_up, f"{what} did not happen in {PATIENCE} s"
        time.sleep(0.02)


def stopped(home: Path) -> None:
    until(lambda: not EmbeddedServer(home).running, "the server's end")


def kept(home: Path) -> list[int]:
    with EmbeddedServer(home) as server, psycopg.connect(server.conninfo()) as connection:
        return sorted(row[0] for row in connection.execute("SELECT n FROM kept"))


def alive(pid: int) -> bool:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().split(")")[1].split()[0] != "Z"
    return False


def keeper_pid(home: Path) -> int:
    """Who holds the keeper's lock, as the kernel tells it."""
    inode = (EmbeddedServer(home).cluster / supervisor.KEEPER).stat().st_ino
    for line in Path("/proc/locks").read_text().splitlines():
        if line.split()[5].endswith(f":{inode}") and line.split()[3] == "WRITE":
            return keeper_process(home)
    raise AssertionError("no keeper holds its lock")


def keeper_process(home: Path) -> int:
    """The lock was taken before the keeper detached, so the kernel names a process that is gone: find it by its
    order."""
    for folder in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if folder.name.isdigit():
                command = (folder / "cmdline").read_bytes().split(b"\0")
                if any(part.endswith(b"supervisor.py") for part in command) and any(
                    str(home).encode() in part for part in command
                ):
                    return int(folder.name)
    raise AssertionError("no keeper is there")


# -- sharing and stopping ------------------------------------------------------------------------------------------


def test_several_processes_share_one_server_and_the_last_one_out_stops_it(home, client):
    first, second, third = client(1), client(2), client(3)
    pids = {each.ready() for each in (first, second, third)}
    assert len(pids) == 1
    first.leave()
    third.leave()
    assert EmbeddedServer(home).pid in pids
    with psycopg.connect(EmbeddedServer(home).conninfo()) as connection:
        assert connection.execute("SELECT count(*) FROM kept").fetchone() == (3,)
    second.leave()
    stopped(home)
    assert not alive(pids.pop())
    assert kept(home) == [1, 2, 3]


def test_two_processes_that_start_at_once_on_a_fresh_home_get_one_server(home, client):
    started = [client(number) for number in range(4)]
    assert len({each.ready() for each in started}) == 1
    for each in started:
        each.leave()
    stopped(home)
    assert kept(home) == [0, 1, 2, 3]


def test_a_last_client_that_is_killed_still_stops_the_server(home, client):
    only = client(1)
    pid = only.ready()
    only.kill()
    stopped(home)
    assert not alive(pid)
    assert kept(home) == [1]


def test_a_client_killed_while_the_server_starts_leaves_none_behind(home):
    """No client at all is the shortest-lived client: the keeper's first look comes before the server has a process
    id."""
    with EmbeddedServer(home) as server:
        command = [str(server.programs.path("postgres")), "-D", str(server.data), *server._settings()]
    stopped(home)
    slow = ["/bin/sh", "-c", 'sleep 1; exec "$@"', "sh", *command]
    order = {
        "cluster": str(server.cluster),
        "socket_lock": str(server.socket_folder / f"{SOCKET}.lock"),
        "command": slow,
        "user": server.user.uid,
        "group": server.user.gid,
        "env": {"PATH": os.defpath},
    }
    subprocess.run([sys.executable, "-I", "-S", supervisor.__file__, json.dumps(order)], check=True)
    assert server.running
    stopped(home)
    with server:
        assert server.running


# -- kill -9 -------------------------------------------------------------------------------------------------------


def test_after_the_server_is_killed_the_same_processs_next_statement_works(home):
    async def work():
        async with await Store.open(home=home) as store:
            async with store.begin() as connection:
                await connection.execute(text("CREATE TABLE kept (n int)"))
                await connection.execute(text("INSERT INTO kept VALUES (1)"))
            for number in (2, 3):
                os.kill(store.server.pid, signal.SIGKILL)
                until(lambda: not store.server.running, "the end of its last process")
                async with store.begin() as connection:
                    await connection.execute(text("INSERT INTO kept VALUES (:number)"), {"number": number})
            async with store.begin() as connection:
                return list(await connection.scalars(text("SELECT n FROM kept ORDER BY n")))

    assert bridge.run(work()) == [1, 2, 3]
    stopped(home)
    assert kept(home) == [1, 2, 3]


def test_after_the_server_is_killed_whoever_is_signed_in_goes_on(home):
    """Roles have connections of their own, and the owner's may be idle just then."""

    async def work() -> tuple[int, bool]:
        async with await Store.open(home=home, chains=[schema_chain]) as owner:
            await grants.set_up(owner, JUDGES)
            async with await roles.opened(owner, roles.VIEWER, [schema_chain]) as viewer:
                os.kill(owner.server.pid, signal.SIGKILL)
                until(lambda: not owner.server.running, "the end of its last process")
                async with viewer.begin() as connection:
                    found = await connection.scalar(text("SELECT count(*) FROM rankbook.collections"))
            return found, owner.server.running

    assert bridge.run(work()) == (0, True)


def test_after_the_server_is_killed_a_new_process_finds_every_committed_row(home, client):
    first = client(1)
    os.kill(first.ready(), signal.SIGKILL)
    client(2).ready()
    assert kept(home) == [1, 2]


def test_after_server_and_client_are_both_killed_the_next_command_just_works(home, client):
    first = client(1)
    pid = first.ready()
    os.kill(pid, signal.SIGKILL)
    first.kill()
    assert client(2).ready() != pid
    assert kept(home) == [1, 2]


def test_a_server_whose_last_processes_are_still_busy_when_it_is_killed_is_started_again(home):
    """A backend in the middle of a computation notices its postmaster's death only at its end."""
    with EmbeddedServer(home) as server:
        busy = psycopg.connect(server.conninfo(), autocommit=True)
        busy.pgconn.send_query(
            b"DO $$ DECLARE x float := 0; BEGIN FOR i IN 1..12000000 LOOP x := sqrt(i); END LOOP; END $$"
        )
        with psycopg.connect(server.conninfo(), autocommit=True) as watching:
            query = "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE 'DO %'"
            until(lambda: watching.execute(query).fetchone() == (1,), "the computation's begin")
        os.kill(server.pid, signal.SIGKILL)
        server.ensure_running()
        with psycopg.connect(server.conninfo()) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)
        busy.close()
    stopped(home)


def test_a_server_whose_keeper_was_killed_is_adopted_and_still_stops_at_the_end(home, client):
    first = client(1)
    pid = first.ready()
    os.kill(keeper_pid(home), signal.SIGKILL)
    until(lambda: not supervisor.is_held(EmbeddedServer(home).cluster / supervisor.KEEPER), "the keeper's end")
    second = client(2)
    assert second.ready() == pid
    first.leave()
    assert EmbeddedServer(home).running
    second.leave()
    stopped(home)
    assert kept(home) == [1, 2]


def test_when_all_three_are_killed_nothing_committed_is_gone(home, client):
    first = client(1)
    pid = first.ready()
    os.kill(keeper_pid(home), signal.SIGKILL)
    os.kill(pid, signal.SIGKILL)
    first.kill()
    assert kept(home) == [1]
    stopped(home)


def backend_at_work(server: EmbeddedServer) -> tuple[psycopg.Connection, int]:
    """A connection that has written a lot and not committed it, with its process: to recover from it takes a while."""
    busy = psycopg.connect(server.conninfo())
    busy.execute("CREATE TABLE IF NOT EXISTS filled (n int, filling text)")
    busy.commit()
    busy.execute("INSERT INTO filled SELECT i, md5(i::text) FROM generate_series(1, 200000) AS i")
    return busy, busy.info.backend_pid


def crash(server: EmbeddedServer) -> None:
    """Kill such a backend. The server has noticed: it ends all others, and recovers."""
    busy, backend = backend_at_work(server)
    noticed = server.log.read_text().count("terminated by signal 9")
    os.kill(backend, signal.SIGKILL)
    until(lambda: server.log.read_text().count("terminated by signal 9") > noticed, "the server's notice")
    busy.close()


def test_a_backend_killed_while_the_only_client_leaves_does_not_hold_up_the_next_command(home):
    """PostgreSQL that is asked for a fast shutdown while it recovers from a crash never ends."""
    for _ in range(4):
        with EmbeddedServer(home) as server:
            with psycopg.connect(server.conninfo()) as connection:
                connection.execute("CREATE TABLE IF NOT EXISTS kept (n int)")
                connection.execute("INSERT INTO kept VALUES (1)")
            crash(server)
        stopped(home)
        assert set(kept(home)) == {1}


def test_a_server_that_recovers_is_stopped_when_it_is_ready_and_not_before(home):
    with EmbeddedServer(home) as server:
        crash(server)
    stopped(home)
    said = [line for line in server.log.read_text().splitlines() if "LOG:" in line]
    recovered = [at for at, line in enumerate(said) if "ready to accept connections" in line][-1]
    stopping = [at for at, line in enumerate(said) if "received fast shutdown request" in line]
    assert stopping
    assert all(at > recovered for at in stopping)
    assert "rankbook: " not in server.log.read_text()  # nobody had to be firmer


# -- what does not move ----------------------------------------------------------------------------------------------


@contextlib.contextmanager
def frozen(home: Path):
    """All processes of the server stand still, as they do who wait for what never comes."""
    there = [each.pid for each in supervisor.processes(EmbeddedServer(home).cluster)]
    for pid in there:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield there
    finally:
        for pid in there:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def test_a_server_in_which_nothing_moves_is_named_with_the_way_out(home):
    with EmbeddedServer(home) as server, frozen(home) as there:
        impatient = EmbeddedServer(home)
        impatient.patience = 1.0
        with pytest.raises(ServerError, match=r"nothing has moved for .* s: process \d+ \(") as caught:
            impatient.acquire()
        assert f"`kill -QUIT {server.pid}`" in str(caught.value)
        assert server.pid in there
    stopped(home)


def test_a_server_in_which_nothing_moves_and_that_nobody_uses_is_ended(home):
    server = EmbeddedServer(home)
    server.patience = 2.0
    server.acquire()
    with psycopg.connect(server.conninfo()) as connection:
        connection.execute("CREATE TABLE kept (n int)")
        connection.execute("INSERT INTO kept VALUES (1)")
    with frozen(home):
        server.release()
        stopped(home)
    assert "rankbook: SIGQUIT to" in server.log.read_text()
    assert "rankbook: SIGKILL to" in server.log.read_text()
    assert kept(home) == [1]


def test_a_shutdown_that_hangs_is_ended_while_a_command_waits_for_it(home):
    """The keeper that asked for it was killed: the next one sees that the server does not end."""
    server = EmbeddedServer(home)
    server.patience = 3.0
    server.acquire()
    with psycopg.connect(server.conninfo()) as connection:
        connection.execute("CREATE TABLE kept (n int)")
        connection.execute("INSERT INTO kept VALUES (1)")
    os.kill(keeper_pid(home), signal.SIGKILL)
    idle = psycopg.connect(server.conninfo())  # a smart shutdown waits for it for ever
    os.kill(server.pid, signal.SIGTERM)
    until(lambda: supervisor.is_stopping(server.cluster), "the beginning of the shutdown")
    server.ensure_running()
    assert kept(home) == [1]
    idle.close()
    server.release()
    stopped(home)


def test_ctrl_c_ends_a_command_that_waits(home):
    with EmbeddedServer(home), frozen(home):
        environment = {**os.environ, "RANKBOOK_HOME": str(home), "PYTHONPATH": str(REPOSITORY)}
        command = subprocess.Popen(
            [sys.executable, "-m", "workbench.cli", "data", "list"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
            cwd=REPOSITORY,
        )
        line = command.stderr.readline()
        while line and "Waiting for PostgreSQL" not in line:
            line = command.stderr.readline()
        assert "Waiting for PostgreSQL" in line
        begun = time.monotonic()
        command.send_signal(signal.SIGINT)
        _, said = command.communicate(timeout=PATIENCE)
        assert time.monotonic() - begun < 10
    assert command.returncode == 130
    assert "Traceback" not in said
    stopped(home)


def test_recovery_after_a_crash_is_waited_for_however_long_it_takes(home):
    said: list[str] = []
    with EmbeddedServer(home) as server:
        with psycopg.connect(server.conninfo(), autocommit=True) as connection:
            connection.execute("CREATE TABLE kept (n int, filling text)")
            connection.execute("CREATE INDEX ON kept (filling)")
            connection.execute("CHECKPOINT")
            connection.execute("INSERT INTO kept SELECT i, md5(i::text) FROM generate_series(1, 300000) AS i")
        os.kill(server.pid, signal.SIGKILL)
        server.ensure_running(said.append)
        with psycopg.connect(server.conninfo()) as connection:
            assert connection.execute("SELECT count(*), max(n) FROM kept").fetchone() == (300_000, 300_000)
    assert "redo done" in server.log.read_text()
    stopped(home)


# -- what crashes leave behind ------------------------------------------------------------------------------------------  # noqa: E501


def test_a_stale_pid_file_that_names_a_living_stranger_is_no_obstacle_and_the_stranger_lives_on(home, client):
    first = client(1)
    first.ready()
    first.leave()
    stopped(home)
    data, user = EmbeddedServer(home).data, EmbeddedServer(home).user
    # As the server's own account: one of another it would not take for a server of its own anyway.
    stranger = subprocess.Popen(["cat"], stdin=subprocess.PIPE, user=user.uid, group=user.gid)
    lines = [str(stranger.pid), str(data), "1", "5432", str(data.parent), "", "  5432001         0", "ready   "]
    (data / "postmaster.pid").write_text("\n".join(lines) + "\n")
    assert not EmbeddedServer(home).running
    assert EmbeddedServer(home).pid is None
    second = client(2)
    assert second.ready() != stranger.pid
    second.leave()
    stopped(home)
    assert stranger.poll() is None
    stranger.communicate(b"\n")
    assert kept(home) == [1, 2]


def test_orphaned_lock_files_and_sockets_are_no_obstacle(home, client):
    client(1).ready()
    server = EmbeddedServer(home)
    for pid in (keeper_pid(home), server.pid):
        os.kill(pid, signal.SIGKILL)
    stopped(home)
    (server.cluster / f"{SOCKET}.lock").write_text(f"{os.getpid()}\n{server.data}\n1\n5432\n{server.cluster}\n")
    (server.cluster / SOCKET).touch()
    for name in (supervisor.LEASE, supervisor.SERVER, supervisor.KEEPER, "start.lock"):
        (server.cluster / name).write_text("of somebody long gone\n")
    assert kept(home) == [1]


@pytest.mark.skipif(not Path("/proc/self/cwd").exists(), reason="where a process works is not told here")
def test_no_second_server_is_started_where_somebody_deleted_the_locks_of_the_first(home, client):
    first = client(1)
    first.ready()
    server = EmbeddedServer(home)
    pid = server.pid
    for name in (supervisor.SERVER, supervisor.KEEPER):
        (server.cluster / name).unlink()
    with pytest.raises(ServerError, match=rf"was deleted.*none was started.*`kill -INT {pid}`"):
        server.acquire()
    assert alive(pid)
    os.kill(pid, signal.SIGINT)
    until(lambda: not supervisor.living_in(server.data), "the first server ends")
    client(2).ready()
    assert kept(home) == [1, 2]


@pytest.mark.skipif(not Path("/proc/self/cwd").exists(), reason="where a process works is not told here")
def test_a_server_whose_lock_somebody_deleted_is_stopped_all_the_same(home, client):
    first, server = client(1), EmbeddedServer(home)
    first.ready()
    (server.cluster / supervisor.SERVER).unlink()
    first.leave()
    until(lambda: not supervisor.living_in(server.data), "the server ends")
    client(2).ready()
    assert kept(home) == [1, 2]


def test_a_killed_initdb_leaves_nothing_that_is_taken_for_a_cluster(home, client):
    server = EmbeddedServer(home)
    server._make_folders()
    (server.cluster / "data.part" / "base" / "1").mkdir(parents=True)
    (server.cluster / "data.part" / "PG_VERSION").write_text("18\n")
    client(1).ready()
    assert not (server.cluster / "data.part").exists()
    assert kept(home) == [1]


def test_a_client_killed_during_its_first_start_leaves_a_home_that_works(home):
    for _ in range(3):
        hasty = Client(home)
        until(lambda: any(EmbeddedServer(home).cluster.glob("data*")), "initdb's begin")
        hasty.kill()
    with EmbeddedServer(home) as server:
        assert server.running
    stopped(home)


# -- where it lives ------------------------------------------------------------------------------------------------


def test_a_home_whose_path_is_too_long_for_a_socket_is_shared_all_the_same(home, client):
    long = home / ("x" * 100) / ("y" * 50)
    home.chmod(0o711)
    first = client(1, home=long)
    second = client(2, home=long, environment={"TMPDIR": str(home)})
    assert first.ready() == second.ready()
    server = EmbeddedServer(long)
    assert len(str(server.socket_folder / SOCKET)) <= 103
    assert stat.S_IMODE(server.socket_folder.stat().st_mode) == 0o700
    first.leave()
    second.leave()
    stopped(long)
    server.socket_folder.rmdir()


def test_a_socket_folder_that_somebody_else_put_there_is_refused(home):
    long = home / ("x" * 100) / ("y" * 50)
    home.chmod(0o711)
    elsewhere = home / "elsewhere"
    elsewhere.mkdir()
    folder = EmbeddedServer(long).socket_folder
    folder.symlink_to(elsewhere)
    try:
        with pytest.raises(ServerError, match="belongs to somebody else"):
            EmbeddedServer(long).acquire()
        assert not list(elsewhere.iterdir())
    finally:
        folder.unlink()


def test_data_are_private_and_no_folder_above_the_home_changes(home):
    above = home / "above" / "between"
    above.mkdir(parents=True)
    for folder in (home, above.parent, above):
        folder.chmod(0o755)
    before = {folder: folder.stat() for folder in (home, above.parent, above, Path("/tmp"), Path("/"))}
    with EmbeddedServer(above / "home") as server:
        assert stat.S_IMODE(server.data.stat().st_mode) == 0o700
        assert stat.S_IMODE(server.cluster.stat().st_mode) == 0o700
        assert stat.S_IMODE(server.home.stat().st_mode) & 0o066 == 0
        assert stat.S_IMODE((server.cluster / SOCKET).stat().st_mode) == 0o700
        assert server.data.stat().st_uid == server.user.owner
    for folder, was in before.items():
        assert (folder.stat().st_mode, folder.stat().st_uid) == (was.st_mode, was.st_uid), folder
    stopped(above / "home")


def test_data_that_others_could_read_are_private_again_after_the_next_start(home):
    with EmbeddedServer(home) as server:
        pass
    stopped(home)
    for folder in (server.data, server.cluster):
        folder.chmod(0o755)
    with server:
        assert [stat.S_IMODE(folder.stat().st_mode) for folder in (server.data, server.cluster)] == [0o700, 0o700]
    stopped(home)


NAMES = ["a, b,c", "it's früh 日本", 'a "quoted" back\\slash', "100% $HOME", "not UTF-8: \udcff"]


@pytest.mark.parametrize("name", NAMES)
def test_a_home_may_have_any_name(home, client, name):
    home.chmod(0o711)
    odd = home / name
    assert client(1, home=odd).ready() == client(2, home=odd).ready()
    server = EmbeddedServer(odd)
    assert stat.S_IMODE(server.socket_folder.stat().st_mode) == 0o700
    assert kept(odd) == [1, 2]
    elsewhere = server.socket_folder != server.cluster
    assert elsewhere == ("," in name or "\udcff" in name)
    if elsewhere:
        shutil.rmtree(server.socket_folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root could take a home away from somebody")
@pytest.mark.parametrize("place", ["", "new", "postgres", "postgres/18", "postgres/18/data"])
def test_root_does_not_work_in_somebodys_home(home, place):
    taken = home / "somebodys"
    (taken / place if place != "new" else taken).mkdir(parents=True)
    for folder in (taken, *taken.rglob("*")):
        os.chown(folder, 4711, 4711)
        folder.chmod(0o700)
    before = {folder: folder.stat() for folder in (taken, *taken.rglob("*"))}
    with pytest.raises(
        ServerError, match=r"You are root, and .* belongs to the user 4711.*Run the command as"
    ) as caught:
        EmbeddedServer(taken / "new" if place == "new" else taken).acquire()
    assert "RANKBOOK_HOME" in str(caught.value)
    after = {folder: folder.stat() for folder in (taken, *taken.rglob("*"))}
    assert {each: (was.st_uid, was.st_mode) for each, was in before.items()} == {
        each: (now.st_uid, now.st_mode) for each, now in after.items()
    }


def test_a_home_that_is_somebodys_own_folder_keeps_its_mode(home):
    home.chmod(0o755)
    with EmbeddedServer(home):
        assert stat.S_IMODE(home.stat().st_mode) == 0o755
    stopped(home)


def test_nothing_listens_on_the_network(home, client):
    pid = client(1).ready()
    inodes = {
        str(link.readlink()).removeprefix("socket:[").rstrip("]")
        for link in Path(f"/proc/{pid}/fd").iterdir()
        if str(link.readlink()).startswith("socket:[")
    }
    assert inodes
    listening = set()
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(FileNotFoundError):
            rows = Path(f"/proc/net/{table}").read_text().splitlines()[1:]
            listening |= {row.split()[9] for row in rows if row.split()[3] == "0A"}
    assert not inodes & listening


HOSTILE_ENVIRONMENT = {
    "PGAPPNAME": "somebody",
    "PGCONNECT_TIMEOUT": "soon",
    "PGDATESTYLE": "nonsense",
    "PGGEQO": "nonsense",
    "PGGSSDELEGATION": "1",
    "PGGSSLIB": "nonsense",
    "PGKRBSRVNAME": "nonsense",
    "PGLOADBALANCEHOSTS": "nonsense",
    "PGMAXPROTOCOLVERSION": "nonsense",
    "PGMINPROTOCOLVERSION": "nonsense",
    "PGPASSFILE": "/nonexistent",
    "PGPASSWORD": "secret",
    "PGREQUIREAUTH": "scram-sha-256",
    "PGREQUIREPEER": "somebody",
    "PGREQUIRESSL": "1",
    "PGSERVICE": "nowhere",
    "PGSERVICEFILE": "/nonexistent",
    "PGSSLCERT": "/nonexistent",
    "PGSSLCERTMODE": "require",
    "PGSSLCOMPRESSION": "nonsense",
    "PGSSLCRL": "/nonexistent",
    "PGSSLCRLDIR": "/nonexistent",
    "PGSSLKEY": "/nonexistent",
    "PGSSLMAXPROTOCOLVERSION": "nonsense",
    "PGSSLMINPROTOCOLVERSION": "nonsense",
    "PGSSLNEGOTIATION": "direct",
    "PGSSLROOTCERT": "system",
    "PGSSLSNI": "nonsense",
    "PGSYSCONFDIR": "/nonexistent",
    "PGTZ": "nonsense",
    "PGPORT": "6543",
    "PGHOST": "192.0.2.1",
    "PGHOSTADDR": "192.0.2.1",
    "PGDATA": "/nonexistent",
    "PGDATABASE": "other",
    "PGUSER": "other",
    "PGOPTIONS": "-c default_transaction_read_only=on -c search_path=nowhere",
    "PGCLIENTENCODING": "LATIN1",
    "PGTARGETSESSIONATTRS": "standby",
    "PGSSLMODE": "verify-full",
    "PGGSSENCMODE": "require",
    "PGCHANNELBINDING": "require",
    "LC_ALL": "tr_TR.UTF-8",
    "LANG": "xx_XX",
    "TZ": "Pacific/Chatham",
    "PYTHONUTF8": "1",
}


def test_postgres_and_locale_variables_of_the_user_do_not_matter(home, client):
    alone = client(1)
    pid = alone.ready()
    odd = client(2, environment=HOSTILE_ENVIRONMENT)
    assert odd.ready() == pid
    odd.leave()
    alone.leave()
    stopped(home)
    third = client(3, environment=HOSTILE_ENVIRONMENT)
    third.ready()
    with psycopg.connect(EmbeddedServer(home).conninfo()) as connection:
        settings = "datcollate, datctype, pg_encoding_to_char(encoding), current_setting('timezone')"
        found = connection.execute(f"SELECT {settings} FROM pg_database WHERE datname = 'rankbook'").fetchone()
    assert found == ("C", "C", "UTF8", "UTC")
    third.leave()
    stopped(home)
    assert kept(home) == [1, 2, 3]


def test_the_whole_store_opens_under_a_hostile_environment(home, monkeypatch):
    for name, value in HOSTILE_ENVIRONMENT.items():
        monkeypatch.setenv(name, value)

    async def work():
        async with await Store.open(home=home) as store:
            return store.capabilities.missing

    assert bridge.run(work()) == {}
    stopped(home)


# -- sentences -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("damage", ["postgresql.conf", "pg_hba.conf", "global/pg_control"])
def test_a_server_that_cannot_start_is_told_in_a_sentence_that_names_the_log(home, damage):
    with EmbeddedServer(home) as server:
        pass
    stopped(home)
    damaged = server.data / damage
    whole = damaged.read_bytes()
    damaged.write_bytes(b"this is no configuration = = =\n")
    for _ in range(2):
        with pytest.raises(ServerError, match=r"did not start: .*(FATAL|PANIC|LOG|configuration|control)") as caught:
            EmbeddedServer(home).acquire()
        assert str(server.log) in str(caught.value)
    damaged.write_bytes(whole)
    with server:
        assert server.running
    stopped(home)


def test_a_server_that_lets_nobody_in_is_told_at_once_and_not_waited_for(home):
    with EmbeddedServer(home) as server:
        pass
    stopped(home)
    hba = server.data / "pg_hba.conf"
    whole = hba.read_text()
    hba.write_text(f"local all all reject\n{whole}")
    begun = time.monotonic()
    with pytest.raises(ServerError, match=r"refuses the connection \(pg_hba\.conf rejects") as caught:
        server.acquire()
    assert time.monotonic() - begun < 30
    assert str(hba) in str(caught.value)
    assert "`local all all peer map=rankbook`" in str(caught.value)
    stopped(home)  # it is stopped all the same
    hba.write_text(whole)
    with server:
        assert server.running
    stopped(home)


def test_a_failed_start_gives_its_lease_back(home):
    with EmbeddedServer(home) as server:
        pass
    stopped(home)
    conf = server.data / "postgresql.conf"
    whole = conf.read_bytes()
    conf.write_bytes(b"nonsense nonsense nonsense\n")
    with pytest.raises(ServerError):
        server.acquire()
    lease = supervisor.open_lock(server.cluster / supervisor.LEASE)
    assert supervisor.try_lock(lease)
    os.close(lease)
    conf.write_bytes(whole)


@pytest.mark.skipif(os.geteuid() != 0, reason="a home that the server's user cannot reach takes root")
def test_a_home_that_the_servers_user_may_not_reach_is_refused_with_the_way_out(home):
    home.chmod(0o700)
    with pytest.raises(ServerError, match=r"You are root.*Set RANKBOOK_HOME"):
        EmbeddedServer(home / "inside").acquire()
    assert stat.S_IMODE(home.stat().st_mode) == 0o700


def test_a_home_that_is_a_file_is_refused_in_a_sentence(home):
    (home / "file").write_text("")
    with pytest.raises(ServerError, match="Set RANKBOOK_HOME to a folder of yours"):
        EmbeddedServer(home / "file").acquire()


# -- as an ordinary user ---------------------------------------------------------------------------------------------


ORDINARY = 65534
IMPORTS = f"import sys; sys.path.insert(0, {str(REPOSITORY)!r}); import core.store.server.embedded"


def ordinary_python() -> str:
    """A Python of the same version that an ordinary user can run with our packages, if there is one."""
    ours = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for candidate in (sys.executable, f"/usr/bin/{ours}", f"/usr/local/bin/{ours}"):
        with contextlib.suppress(OSError, subprocess.CalledProcessError):
            subprocess.run(
                [candidate, "-W", "ignore", "-c", IMPORTS],
                user=ORDINARY,
                group=ORDINARY,
                extra_groups=[],
                env=ordinary_environment(),
                cwd="/",
                capture_output=True,
                check=True,
            )
            return candidate
    pytest.skip("no Python of this version, with the packages, can be run by an ordinary user here")


def ordinary_environment() -> dict[str, str]:
    packages = next(path for path in sys.path if path.endswith("site-packages"))
    return {"PYTHONPATH": packages, "PYTHONDONTWRITEBYTECODE": "1"}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root could give a home away")
@pytest.mark.parametrize("given_away", ["rank book", "rank book/postgres/18"])
def test_a_home_that_was_given_away_is_told_with_the_command_that_gives_it_back(home, client, given_away):
    """As an older Rankbook did where root ran a command with somebody's home."""
    own = home / "rank book"
    (own / "postgres/18").mkdir(parents=True)
    for folder in (home, own, own / "postgres", own / "postgres/18"):
        taken = folder == home / given_away or home / given_away in folder.parents
        os.chown(folder, *((4711, 4711) if taken else (ORDINARY, ORDINARY)))
        folder.chmod(0o711)
    person = {"home": own, "python": ordinary_python(), "user": ORDINARY, "group": ORDINARY, "extra_groups": []}
    person |= {"environment": ordinary_environment(), "cwd": "/"}
    refused = client(1, **person)
    assert refused.process.stdout.readline() == ""
    said = refused.process.stderr.read()
    assert f"{home / given_away} belongs to the user 4711" in said
    command = re.search("`sudo (chown .*)`", said)
    assert command, said
    subprocess.run(shlex.split(command[1]), check=True)
    again = client(2, **person)
    assert again.ready()
    again.leave()
    stopped(own)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else; else every test is this test")
def test_an_ordinary_user_has_a_server_of_his_own_that_survives_being_killed(home, client):
    python = ordinary_python()
    os.chown(home, ORDINARY, ORDINARY)
    person = {
        "python": python,
        "user": ORDINARY,
        "group": ORDINARY,
        "extra_groups": [],
        "environment": ordinary_environment(),
        "cwd": "/",
    }
    first = client(1, **person)
    pid = first.ready()
    assert Path(f"/proc/{pid}").stat().st_uid == ORDINARY
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    os.kill(pid, signal.SIGKILL)
    first.kill()
    second = client(2, **person)
    assert second.ready() != pid
    second.leave()
    stopped(home)
