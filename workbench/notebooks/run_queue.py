"""Cells that wait to be run, and the one that runs: a queue that one job of the process works through.

Owns the order, and what stopping ends. What becomes of a cell is decided by the function that runs it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from core.errors import Cancelled
from core.progress import Listener
from workbench.notebooks.cells.base import OpenCollections
from workbench.services import jobs
from workbench.services.jobs import Job

GRACE: Final = 6.0  # seconds that a stopped cell has to save what is done


@dataclass(frozen=True, slots=True)
class QueuedCell:
    """A cell that is to be run: `again` even if it is fresh, `allowed` even if it costs something."""

    cell: str
    again: bool = False
    allowed: bool = False


RunCell = Callable[[QueuedCell, OpenCollections, Listener, asyncio.Event], Awaitable[None]]


class RunQueue:
    """One notebook's queue. `changed` is called whenever the state of one of its cells changes."""

    def __init__(
        self, key: jobs.Key, title: str, lock: threading.RLock, run_cell: RunCell, changed: Callable[[], None]
    ) -> None:
        self.key, self.title = key, title
        self.stopped: set[str] = set()
        self._lock, self._run_cell, self._changed = lock, run_cell, changed
        self._waiting: list[QueuedCell] = []
        self._running = ""
        self._worker: object | None = None  # a new one for each job, so that one that ends late changes nothing

    @property
    def job(self) -> Job[None] | None:
        """The job that works through it right now."""
        job = jobs.find(self.key)
        return job if job is not None and not job.ended and self._worker is not None else None

    def state(self, cell: str) -> Literal["running", "waiting"] | None:
        if self.job is None:
            return None
        if cell == self._running:
            return "running"
        return "waiting" if any(each.cell == cell for each in self._waiting) else None

    def put(self, cells: Sequence[QueuedCell]) -> list[QueuedCell]:
        """Add those that are not in the queue yet to its end; which these are."""
        with self._lock:
            job = self.job
            needs_job = job is None or job.stopping
            new = [each for each in cells if needs_job or self.state(each.cell) is None]
            self._waiting += new
            self.stopped -= {each.cell for each in new}
            if self._waiting and needs_job:
                self._start()
            return new

    def keep_only(self, cells: Collection[str]) -> None:
        """Forget all other cells that wait."""
        with self._lock:
            self._waiting = [each for each in self._waiting if each.cell in cells]

    def stop(self) -> None:
        """End what runs, on the server too, and forget what waits."""
        with self._lock:
            self._waiting.clear()
            if (job := self.job) is not None:
                job.stop()
            self._changed()

    def _start(self) -> None:
        worker, before = object(), jobs.find(self.key)
        self._worker = worker

        async def work(listener: Listener, token: asyncio.Event) -> None:
            if before is not None and not before.ended:  # it was stopped, and saves what it has done
                await asyncio.to_thread(before.wait, 2 * GRACE)
            collections: OpenCollections = {}
            try:
                while (queued := self._next(worker)) is not None:
                    try:
                        await self._run_cell(queued, collections, listener, token)
                    except (asyncio.CancelledError, Cancelled):
                        with self._lock:
                            self.stopped.add(queued.cell)
                        raise
            finally:
                with self._lock:
                    if self._worker is worker:
                        self._worker, self._running = None, ""
                        self._waiting.clear()
                    self._changed()

        jobs.forget(self.key)
        jobs.start(self.key, self.title, work, grace=GRACE)

    def _next(self, worker: object) -> QueuedCell | None:
        """Taken under the lock, so that nothing is put into the queue of a job that is just about to end."""
        with self._lock:
            if self._worker is not worker:
                return None
            queued = self._waiting.pop(0) if self._waiting else None
            self._running = queued.cell if queued else ""
            if queued is None:
                self._worker = None
            self._changed()
            return queued
