"""The small process that starts the embedded server, outlives its clients, and stops it when the last one is gone.

Run by path, with the standard library only, so that it starts at once. All agreement between processes rests on
`flock`, because the kernel lets go of such a lock however its holder dies; no process id is ever taken on trust:

    lease.lock   shared by every client; the keeper gets it exclusively once there is none
    server.lock  inherited by every process of the server, so it is free exactly when none of them is left
    keeper.lock  held by the one keeper
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

with contextlib.suppress(ImportError):  # Windows has none; the embedded server is not for there, importing it must be
    import fcntl

LEASE, SERVER, KEEPER = "lease.lock", "server.lock", "keeper.lock"


def open_lock(path: Path) -> int:
    """A descriptor to lock. Never inherited unless passed on purpose: an heir would hold the lock too."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def try_lock(descriptor: int, *, shared: bool = False) -> bool:
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def lock(descriptor: int) -> None:
    """Wait until it is ours alone."""
    fcntl.flock(descriptor, fcntl.LOCK_EX)


def is_held(path: Path) -> bool:
    """Whether some process holds the lock exclusively."""
    descriptor = open_lock(path)
    try:
        return not try_lock(descriptor, shared=True)
    finally:
        os.close(descriptor)


def postmaster_pid(cluster: Path) -> int | None:
    """The id in the server's own file. To be believed only while server.lock is held."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        return int((cluster / "data" / "postmaster.pid").read_text().splitlines()[0])
    return None


def start_server(cluster: Path, server_lock: int, order: dict[str, Any]) -> None:
    """Start the server with the lock in its hands. Nothing else of this cluster lives, so its old marks can go."""
    (cluster / "data" / "postmaster.pid").unlink(missing_ok=True)
    Path(order["socket_lock"]).unlink(missing_ok=True)
    with (cluster / "server.log").open("ab") as log:
        subprocess.Popen(  # noqa: S603 - the command is put together by server.py
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


def stop_server_when_unused(cluster: Path, lease: int) -> None:
    """When the last client has left, ask for a fast shutdown; the lease keeps new clients waiting meanwhile.

    Asked again and again: a server that was starting has not written its process id yet.
    """
    lock(lease)
    while True:
        request_stop(cluster)
        time.sleep(0.2)


def request_stop(cluster: Path) -> None:
    pid = postmaster_pid(cluster)
    if pid is not None and is_held(cluster / SERVER):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGINT)


def took_over(server_lock: int) -> bool:
    """Tried for a moment, because `is_held` of another process takes the lock for an instant."""
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
    lock(keeper_lock)
    server_lock = open_lock(cluster / SERVER)
    starting = took_over(server_lock)  # else there is a server whose keeper was killed: adopt it
    detach()
    if starting:
        start_server(cluster, server_lock, order)
    os.close(server_lock)
    signal.signal(signal.SIGTERM, lambda *_: request_stop(cluster))
    lease = open_lock(cluster / LEASE)
    threading.Thread(target=stop_server_when_unused, args=(cluster, lease), daemon=True).start()
    lock(open_lock(cluster / SERVER))  # returns when the server's last process is gone
    os._exit(0)


if __name__ == "__main__":
    main()
