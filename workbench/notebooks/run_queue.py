"""Cells that wait for their turn and the one that has it: a queue that one job of the process carries out.

Owns the order, and what stopping ends. What a turn comes to is whoever carries it out's.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from core.errors import Cancelled
from core.progress import Listener
from workbench.notebooks.runner import Grounds
from workbench.services import jobs
from workbench.services.jobs import Job

PATIENCE: Final = 6.0  # seconds that a stopped cell has to put away what is done


@dataclass(frozen=True, slots=True)
class QueuedCell:
    """A cell that is to be run. `again` even if it is fresh, `allowed` even if it costs something."""

    cell: str
    again: bool = False
    allowed: bool = False


CarryOut = Callable[[QueuedCell, Grounds, Listener, asyncio.Event], Awaitable[None]]


class RunQueue:
    """One notebook's queue. `moved` is called whenever it looks otherwise than before."""

    def __init__(
        self, key: jobs.Key, title: str, lock: threading.RLock, carry_out: CarryOut, moved: Callable[[], None]
    ) -> None:
        self.key, self.title = key, title
        self.stopped: set[str] = set()
        self._lock, self._carry_out, self._moved = lock, carry_out, moved
        self._queue: list[QueuedCell] = []
        self._running = ""
        self._worker: object | None = None

    @property
    def job(self) -> Job[None] | None:
        """What carries it out right now."""
        job = jobs.find(self.key)
        return job if job is not None and not job.ended and self._worker is not None else None

    def state(self, cell: str) -> Literal["running", "waiting"] | None:
        if self.job is None:
            return None
        if cell == self._running:
            return "running"
        return "waiting" if any(turn.cell == cell for turn in self._queue) else None

    def put(self, turns: Sequence[QueuedCell]) -> list[QueuedCell]:
        """At the end of the queue, but for what is in it; gives what is new."""
        with self._lock:
            new = [turn for turn in turns if self.state(turn.cell) is None or self._ending]
            self._queue += new
            self.stopped -= {turn.cell for turn in new}
            if self._queue and (self.job is None or self._ending):
                self._begin()
            return new

    def only(self, cells: Collection[str]) -> None:
        """Forget the turns of all other cells."""
        with self._lock:
            self._queue = [turn for turn in self._queue if turn.cell in cells]

    def stop(self) -> None:
        """End what runs, on the server too, and forget what waits."""
        with self._lock:
            self._queue.clear()
            if (job := self.job) is not None:
                job.stop()
            self._moved()

    @property
    def _ending(self) -> bool:
        return self.job is not None and self.job.stopping

    def _begin(self) -> None:
        worker, before = object(), jobs.find(self.key)
        self._worker = worker

        async def work(listener: Listener, token: asyncio.Event) -> None:
            if before is not None and not before.ended:  # it was stopped, and puts away what it did
                await asyncio.to_thread(before.wait, 2 * PATIENCE)
            await self._work(worker, listener, token)

        jobs.forget(self.key)
        jobs.start(self.key, self.title, work, patience=PATIENCE)

    async def _work(self, worker: object, listener: Listener, token: asyncio.Event) -> None:
        grounds: Grounds = {}
        running = ""
        try:
            while (turn := self._next(worker)) is not None:
                running = turn.cell
                await self._carry_out(turn, grounds, listener, token)
        except (asyncio.CancelledError, Cancelled):
            with self._lock:
                self.stopped.add(running)
            raise
        finally:
            with self._lock:
                if self._worker is worker:
                    self._worker, self._running = None, ""
                    self._queue.clear()
                self._moved()

    def _next(self, worker: object) -> QueuedCell | None:
        """Taken under the lock, so that nothing is put into the queue of a job that is just about to end."""
        with self._lock:
            if self._worker is not worker:
                return None
            turn = self._queue.pop(0) if self._queue else None
            self._running = turn.cell if turn else ""
            if turn is None:
                self._worker = None
            self._moved()
            return turn
