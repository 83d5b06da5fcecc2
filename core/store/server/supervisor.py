"""The small process that starts the embedded server, outlives its clients, and stops it when the last one is gone.

Run by path, with the standard library only, so that it starts at once. Processes agree by `flock` alone, because the
kernel releases such a lock however its holder dies; no process id is ever trusted:

    lease.lock   shared by every client; the keeper gets it exclusively once there is none
    server.lock  inherited by every process of the server, so it is free exactly when none of them is left
    keeper.lock  held by the one keeper

A server is stopped once it accepts connections, not before: PostgreSQL may never end when it is asked for a fast
shutdown while it recovers from a crash. One that does not end gets a stronger signal, but never while anything of it
still moves.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

with contextlib.suppress(ImportError):  # Windows has none: no embedded server there, but importing this must work
    import fcntl

LEASE, SERVER, KEEPER = "lease.lock", "server.lock", "keeper.lock"
LOG = "server.log"
PATIENCE = 60.0  # seconds without movement after which a server that nobody uses, and never was ready, is ended
FIRMLY = 1 / 6  # of that, after which a server that was told to stop gets a stronger signal
IDLE, BUSY = 0.1, 0.05  # seconds between two looks: while the server serves, and while it is to end
PROTOCOL = 3 << 16  # version 3.0
TERMINATE = b"X\0\0\0\4"
CANNOT_CONNECT_NOW, TOO_MANY_CONNECTIONS = "57P03", "53300"
KNOCKED = "FATAL:  the database system is "  # logged of each connection that comes too early
NOT_IN_YET = ("startup", "authentication", "initializing")  # how the process of such a connection names itself
FLAGS, EXITING = 6, 4  # the field of /proc/PID/stat that holds the kernel's flags, and the one of a process that ends
WORKED = 10  # hundredths of a second of the processor that are work, and not just waking up now and then


def open_lock(path: Path) -> int:
    """A descriptor to lock. A child process inherits it only on purpose: it would hold the lock too."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def try_lock(descriptor: int, *, shared: bool = False) -> bool:
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def lock(descriptor: int) -> None:
    """Wait for the exclusive lock."""
    fcntl.flock(descriptor, fcntl.LOCK_EX)


def unlock(descriptor: int) -> None:
    fcntl.flock(descriptor, fcntl.LOCK_UN)


def is_held(path: Path) -> bool:
    """Whether some process holds the lock exclusively."""
    descriptor = open_lock(path)
    try:
        return not try_lock(descriptor, shared=True)
    finally:
        os.close(descriptor)


def write_pid(descriptor: int) -> None:
    """Into the lock file that we hold, so that messages of those who wait can name us. Nothing depends on it."""
    with contextlib.suppress(OSError):  # on a full disk there is no name
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)


def pid_in(path: Path) -> int | None:
    with contextlib.suppress(OSError, ValueError, IndexError):
        return int(path.read_text(errors="replace").splitlines()[0])
    return None


def postmaster_pid(cluster: Path) -> int | None:
    """The id in the server's own file, which is right only while server.lock is held."""
    return pid_in(cluster / "data" / "postmaster.pid")


def is_stopping(cluster: Path) -> bool:
    """Whether the server's own file says that it was told to stop."""
    with contextlib.suppress(OSError, IndexError):
        return (cluster / "data" / "postmaster.pid").read_text(errors="replace").splitlines()[7].startswith("stopping")
    return False


# -- what the server says ----------------------------------------------------------------------------------------------


class SupervisorAnswer(NamedTuple):
    """`state` is "ready", "not yet" (it starts, recovers or stops), "refused" or "silent"."""

    state: str
    words: str = ""


def knock(address: str | tuple[str, int], user: str = "rankbook", timeout: float = 2.0) -> SupervisorAnswer:
    """Whether the server at that socket, or host and port, accepts connections.

    Speaks the protocol itself: libpq would read the environment, and psycopg's ping blocks all threads.
    """
    parameters = b"\0".join([b"user", user.encode(), b"database", user.encode(), b"", b""])
    try:
        with _connect(address, timeout) as caller:
            caller.sendall(struct.pack("!ii", len(parameters) + 8, PROTOCOL) + parameters)
            kind, length = struct.unpack("!ci", _received(caller, 5))
            if kind == b"R":  # it is about to let us in
                with contextlib.suppress(OSError):  # a connection that just ends would be in the server's log
                    caller.sendall(TERMINATE)
                    for _ in range(100):  # more than what a server has to say
                        if not caller.recv(2**16):
                            break
                return SupervisorAnswer("ready")
            fields = _received(caller, min(length - 4, 2**16)).split(b"\0")
    except (OSError, struct.error) as error:
        return SupervisorAnswer("silent", getattr(error, "strerror", None) or str(error))
    parts = {field[:1]: field[1:].decode(errors="replace") for field in fields}
    code, words = parts.get(b"C", ""), parts.get(b"M", "")
    if code == TOO_MANY_CONNECTIONS:
        return SupervisorAnswer("ready", words)
    return SupervisorAnswer("not yet" if code == CANNOT_CONNECT_NOW else "refused", words)


def _connect(address: str | tuple[str, int], timeout: float) -> socket.socket:
    if not isinstance(address, str):
        return socket.create_connection(address, timeout)
    caller = socket.socket(socket.AF_UNIX)
    try:
        caller.settimeout(timeout)
        caller.connect(address)
    except BaseException:
        caller.close()
        raise
    return caller


def _received(caller: socket.socket, count: int) -> bytes:
    received = b""
    while len(received) < count:
        part = caller.recv(count - len(received))
        if not part:
            raise ConnectionResetError("the server hung up")
        received += part
    return received


# -- whether it moves --------------------------------------------------------------------------------------------------


class Process(NamedTuple):
    """A process of the server: its own title, hundredths of a second of processor time, bytes to and from the disk."""

    pid: int
    title: str
    worked: int
    stored: int
    waits_for_disk: bool

    @property
    def is_knocking(self) -> bool:
        return "[local]" in self.title and self.title.endswith(NOT_IN_YET)


def processes(cluster: Path) -> list[Process]:
    """All processes of the server, orphans included: those that hold its lock."""
    if not Path("/proc/self/fd").is_dir():
        return list(_listed_by_ps(postmaster_pid(cluster)))
    try:
        held = (cluster / SERVER).stat()
    except OSError:
        return []
    return [each for each in map(_process, holders(held)) if each is not None]


def holders(held: os.stat_result) -> list[int]:
    """The processes of a PostgreSQL that have this file open."""

    def is_open(pid: int) -> bool:
        with contextlib.suppress(OSError):
            for descriptor in Path(f"/proc/{pid}/fd").iterdir():
                with contextlib.suppress(OSError):
                    if os.path.samestat(descriptor.stat(), held):
                        return True
        return False

    return [pid for pid in _postgres() if is_open(pid)]


def _postgres() -> Iterator[int]:
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                if (folder / "comm").read_bytes() == b"postgres\n":
                    yield int(folder.name)


def living_in(data: Path) -> list[int]:
    """The processes of a PostgreSQL that work in this data folder, also where the file of their lock was deleted.

    Two servers in one folder would destroy what is stored there. One that is just ending has released its lock.
    """
    found = []
    with contextlib.suppress(OSError):
        folder = data.stat()
        for pid in _postgres():
            with contextlib.suppress(OSError):
                works_there = os.path.samestat(Path(f"/proc/{pid}/cwd").stat(), folder)
                if works_there and not int(_statistics(pid)[FLAGS]) & EXITING:
                    found.append(pid)
    return found


def _statistics(pid: int) -> list[str]:
    """The fields of /proc/PID/stat after the name, which may hold anything."""
    return (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()


def _process(pid: int) -> Process | None:
    folder, stored = Path("/proc") / str(pid), 0
    with contextlib.suppress(OSError, ValueError):  # not every kernel tells it
        lines = dict(line.split(": ") for line in (folder / "io").read_text().splitlines())
        stored = int(lines["read_bytes"]) + int(lines["write_bytes"])
    try:
        state, *numbers = _statistics(pid)
        title = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        title = title.removeprefix("postgres: ") if title.startswith("postgres: ") else "postmaster"
    except OSError:
        return None
    worked = (int(numbers[10]) + int(numbers[11])) * 100 // os.sysconf("SC_CLK_TCK")
    return Process(pid, title, worked, stored, state == "D")


def _listed_by_ps(postmaster: int | None) -> Iterator[Process]:
    """Where there is no /proc: the postmaster and its children."""
    if postmaster is None:
        return
    listing = subprocess.run(
        ["/bin/ps", "-axo", "pid=,ppid=,state=,time=,command="], capture_output=True, text=True, check=False
    )
    for line in listing.stdout.splitlines():
        pid, parent, state, clock, title = line.split(None, 4)
        if postmaster in (int(pid), int(parent)):
            worked = 0.0
            for part in clock.split(":"):
                worked = worked * 60 + float(part)
            yield Process(int(pid), title.removeprefix("postgres: "), int(worked * 100), 0, state.startswith("U"))


def _written_back() -> int:
    """Pages that the kernel has written to all disks so far."""
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/vmstat").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("nr_written ")).split()[1])
    return 0


class Watch:
    """Whether the server makes progress: its processes work, read, write, come, go or change title, or its log grows.

    Connections that come too early do not count, nor does the postmaster, which answers them.
    """

    def __init__(self, cluster: Path) -> None:
        self.cluster = cluster
        self.moved_at = time.monotonic()
        self.processes: dict[int, Process] = {}
        self.mover = 0  # the process that moved last
        self.words = ""  # the last line of the log
        self.stored = 0  # bytes to and from the disk since the watch began
        self._before: dict[int, Process] = {}
        self._written_back = self._read = 0
        with contextlib.suppress(OSError):
            self._read = (cluster / LOG).stat().st_size

    def still(self) -> float:
        """For how many seconds nothing has moved."""
        self.processes = {each.pid: each for each in self.seen() if not each.is_knocking}
        if self._log_grew() | self._processes_moved():
            self.moved_at, self._before = time.monotonic(), self.processes
        return time.monotonic() - self.moved_at

    def seen(self) -> list[Process]:
        return processes(self.cluster)

    def restart(self) -> None:
        """Count from now."""
        self.moved_at, self._before = time.monotonic(), self.processes

    def _processes_moved(self) -> bool:
        moved = self.processes.keys() != self._before.keys()
        postmaster = postmaster_pid(self.cluster)
        for pid in self.processes.keys() & self._before.keys():
            now, before = self.processes[pid], self._before[pid]
            if pid != postmaster and (
                now.title != before.title or now.stored != before.stored or now.worked - before.worked >= WORKED
            ):
                self.mover, moved = pid, True
                self.stored += now.stored - before.stored
        if any(each.waits_for_disk for each in self.processes.values()):
            pages, self._written_back = self._written_back, _written_back()
            moved |= pages != self._written_back
        return moved

    def _log_grew(self) -> bool:
        try:
            with (self.cluster / LOG).open("rb") as log:
                size = os.fstat(log.fileno()).st_size
                log.seek(max(self._read if self._read <= size else 0, size - 2**16))
                lines = log.read().decode(errors="replace").splitlines()
                self._read = size
        except OSError:
            return False
        news = [line for line in lines if line.strip() and KNOCKED not in line]
        if news:
            self.words = news[-1].rpartition("LOG:  ")[2].strip()
        return bool(news)


# -- starting and stopping ---------------------------------------------------------------------------------------------


def start_server(cluster: Path, server_lock: int, order: dict[str, Any]) -> None:
    """Start the server, which inherits the lock. Nothing else of this cluster runs, so stale files can be removed."""
    (cluster / "data" / "postmaster.pid").unlink(missing_ok=True)
    Path(order["socket_lock"]).unlink(missing_ok=True)
    with (cluster / LOG).open("ab") as log:
        subprocess.Popen(  # noqa: S603 - the command is put together by embedded.py
            order["command"],
            cwd=cluster,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=[server_lock],
            start_new_session=True,
            user=order["user"],
            group=order["group"],
            extra_groups=[] if order["user"] is not None else None,
            umask=0o077,
            env=order["env"],
        )


class Keeper:
    """Stops the server when nobody uses it, and makes sure that one that should end does end.

    Fast shutdown, immediate shutdown, SIGKILL: the next one follows where nothing of the server has moved for a while.
    None of the three loses anything that was committed.
    """

    def __init__(self, cluster: Path, address: str, patience: float = PATIENCE) -> None:
        self.cluster, self.address, self.patience = cluster, address, patience
        self.lease = open_lock(cluster / LEASE)
        self.held = (cluster / SERVER).stat()
        self.watch = Watch(cluster)
        self.sent: signal.Signals | None = None
        self.dismissed = False  # told to stop the server although somebody uses it
        self._ready = 0  # how many looks in a row found it ready

    def run(self) -> None:
        while True:
            pause = IDLE
            with contextlib.suppress(OSError):  # a process may end while it is examined: there is a next look
                pause = self.look()
            time.sleep(pause)

    def look(self) -> float:
        """Do what is due. Returns in how many seconds to look again."""
        if not self.cluster.is_dir():  # somebody removed the home
            for pid in holders(self.held):
                os.kill(pid, signal.SIGKILL)
        if self.sent is not None or self._is_ending():
            self._end()
            return BUSY
        if self.dismissed or try_lock(self.lease):
            self._stop_once_ready()
            if self.sent is None:  # until it is ready others may come in
                unlock(self.lease)
            return BUSY
        return IDLE

    def _is_ending(self) -> bool:
        """Whether somebody else stops it, or the postmaster is gone and other processes are left."""
        pid = postmaster_pid(self.cluster)
        return pid is not None and (is_stopping(self.cluster) or not _is_alive(pid))

    def _stop_once_ready(self) -> None:
        """Ready twice in a row, as a crash that has just happened shows meanwhile."""
        answer = knock(self.address)
        self._ready = self._ready + 1 if answer.state in ("ready", "refused") else 0
        if self._ready > 1:
            self._send(signal.SIGINT)
        elif not self._ready and (still := self.watch.still()) > self.patience:
            self._send(signal.SIGQUIT, f"nothing of it moved for {still:.0f} s while it was starting")

    def _end(self) -> None:
        still = self.watch.still()
        is_foreign = self.sent is None and _is_alive(postmaster_pid(self.cluster))  # it may wait for its sessions
        if still <= self.patience * FIRMLY * (2 if is_foreign else 1):
            return
        firmer = signal.SIGQUIT if self.sent in (None, signal.SIGINT) else signal.SIGKILL
        self._send(firmer, f"nothing of it moved for {still:.0f} s while it was stopping")

    def _send(self, number: signal.Signals, why: str = "") -> None:
        """Signal the postmaster; where it is gone, or must be killed, all processes that are left."""
        self.watch.still()
        postmaster = postmaster_pid(self.cluster)
        there = [each.pid for each in processes(self.cluster)] or living_in(self.cluster / "data")
        if postmaster not in there or number == signal.SIGKILL:
            number, targets = signal.SIGKILL, sorted(there, key=lambda pid: pid != postmaster)
        else:
            targets = [postmaster]
        if why:
            line = f"{number.name} to {', '.join(map(str, targets))}, because {why}"
            with contextlib.suppress(OSError), (self.cluster / LOG).open("a") as log:  # a full disk is no obstacle
                log.write(f"{time.strftime('%Y-%m-%d %H:%M:%S %Z')} [{os.getpid()}] rankbook: {line}\n")
        for pid in targets:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        self.sent = number
        self.watch.restart()


def _is_alive(pid: int | None) -> bool:
    if pid is None:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def took_over(server_lock: int) -> bool:
    """Whether the lock was taken; tried for a moment, as `is_held` in another process holds it for an instant."""
    for _ in range(20):
        if try_lock(server_lock):
            return True
        time.sleep(0.01)
    return False


def detach() -> None:
    """Leave the client's session, terminal and process tree."""
    if os.fork():
        os._exit(0)
    os.setsid()
    if os.fork():
        os._exit(0)
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)


def main() -> None:
    order = json.loads(sys.argv[1])
    cluster = Path(order["cluster"])
    keeper_lock = open_lock(cluster / KEEPER)
    if not took_over(keeper_lock):
        return  # there is one, which was overlooked
    server_lock = open_lock(cluster / SERVER)
    starting = took_over(server_lock)  # else there is a server whose keeper was killed: adopt it
    detach()
    write_pid(keeper_lock)
    if starting:
        start_server(cluster, server_lock, order)
    os.close(server_lock)
    keeper = Keeper(cluster, order["socket_lock"].removesuffix(".lock"), order.get("patience", PATIENCE))
    signal.signal(signal.SIGTERM, lambda *_: setattr(keeper, "dismissed", True))
    threading.Thread(target=keeper.run, daemon=True).start()
    lock(open_lock(cluster / SERVER))  # returns when the server's last process is gone
    os._exit(0)


if __name__ == "__main__":
    main()
