"""Waiting for the embedded server as long as it makes progress, with messages on what is waited for.

Ends no process: the keeper does, once nobody needs the server.
"""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

from core.errors import Cancelled, ServerError
from core.progress import SPACE, Progress
from core.store.server import supervisor
from core.store.server.supervisor import Watch

SHORTEST, LONGEST = 0.02, 0.5  # seconds between two tries; each is a connection, which costs the server something
AT_WORK = ("startup", "checkpointer performing")  # titles of processes for which all others wait


class Wait:
    """One wait. `pause` between two tries; it raises once another try is useless."""

    def __init__(
        self,
        cluster: Path,
        progress: Progress = lambda _: None,
        cancelled: threading.Event | None = None,
        patience: float = supervisor.PATIENCE,
    ) -> None:
        self.cluster, self.progress, self.patience, self.space = cluster, progress, patience, SPACE
        self.cancelled = cancelled or threading.Event()
        self.watch = Watch(cluster)
        self.begun = self.reported = self.checked = time.monotonic()
        self._created = 0  # files that initdb has written

    def pause(self, what: str, holder: int | None = None) -> None:
        """Sleep, the longer the longer the wait lasts. `holder` is the process that is waited for, if it is known."""
        waited = time.monotonic() - self.begun
        if self.cancelled.wait(min(LONGEST, max(SHORTEST, waited / 10))):
            raise Cancelled("Nobody waits for the server any more.")
        now = time.monotonic()
        if now - self.checked < LONGEST:
            return
        self.checked = now
        still = self.watch.still()
        created, self._created = self._created, sum(len(files) for _, _, files in os.walk(self.cluster / "data.part"))
        if self._created != created:  # initdb, which is no process of the server yet, has written more files
            self.watch.restart()
        elif still > self.patience:
            raise ServerError(self._stuck_text(what, still, holder))
        if now - self.reported >= self.space:
            self.reported = now
            self.progress(f"Waiting for {what} for {now - self.begun:.0f} s: {self._progress_text()}")

    def _progress_text(self) -> str:
        worker = self._worker()
        if worker is None:
            return "it has no process yet."
        stored = f", {self.watch.stored / 2**20:,.0f} MB read and written" if self.watch.stored >= 2**20 else ""
        words = f"; its log says: {self.watch.words.rstrip('.')}" if self.watch.words else ""
        return f"process {worker.pid} ({worker.title}){stored}{words}."

    def _worker(self) -> supervisor.Process | None:
        """The process that is most likely waited for: one that recovers or writes a checkpoint, or that moved last."""
        there = self.watch.processes
        at_work = [each for each in there.values() if each.title.startswith(AT_WORK)]
        postmaster = supervisor.postmaster_pid(self.cluster)
        return next(iter(at_work), there.get(self.watch.mover) or there.get(postmaster or 0))

    def _stuck_text(self, what: str, still: float, holder: int | None) -> str:
        worker, postmaster = self._worker(), supervisor.postmaster_pid(self.cluster)
        kept = (
            supervisor.pid_in(self.cluster / supervisor.KEEPER)
            if supervisor.is_held(self.cluster / supervisor.KEEPER)
            else None
        )
        if worker is not None:
            name = f"process {worker.pid} ({worker.title})"
            way_out = f"`kill -QUIT {postmaster}`" if postmaster in self.watch.processes else f"`kill {worker.pid}`"
        elif (process := holder or kept) is not None:
            name, way_out = f"process {process}, which holds it up", f"`kill -KILL {process}`"
        else:
            name, way_out = "no process of it", ""
        end = f"End it with {way_out}" if way_out else f"Look into {self.cluster / supervisor.LOG}"
        return (
            f"Waited for {what}, but nothing has moved for {still:.0f} s: {name}. {end}, then run the same command "
            f"again. What was committed is kept; the log is {self.cluster / supervisor.LOG}."
        )
