"""Long work in the background: begun once, heard of, stopped, and found again by its key whoever looks, and when.

Knows neither Streamlit nor what the work is, but that a key begins with its kind. Jobs live as long as the process;
ended ones make room for others of their kind, oldest first.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from concurrent import futures
from typing import Any, Final, Generic, TypeVar

from core import bridge
from core.errors import Cancelled
from core.progress import Listener, Step

T = TypeVar("T")
Key = tuple[str, ...]
Work = Callable[[Listener, asyncio.Event], Coroutine[Any, Any, T]]
KEPT: Final = 24  # of a kind that ended; the surface of 225 queries with its candidates is some 2 MB


class Job(Generic[T]):
    """Work under way, or done. It goes on while nobody looks.

    It is given a token that is set when somebody stops it, and then `patience` seconds to put away what is done. After
    these it is cancelled, and with it its statement on the server.
    """

    def __init__(self, title: str, work: Work[T], patience: float = 0.0) -> None:
        self.title, self.patience = title, patience
        self.begun_at = time.monotonic()
        self.step: Step | None = None
        self.stopping = False
        self._token = asyncio.Event()
        self._future = asyncio.run_coroutine_threadsafe(work(self._hear, self._token), bridge.loop())

    def _hear(self, step: Step) -> None:
        self.step = step

    @property
    def seconds(self) -> float:
        """How long ago it was begun, whatever becomes of the clock meanwhile."""
        return time.monotonic() - self.begun_at

    def wait(self, seconds: float) -> bool:
        """Whether it has ended, after at most that long."""
        return bool(futures.wait([self._future], seconds).done)

    @property
    def ended(self) -> bool:
        return self._future.done()

    def stop(self) -> None:
        """At once, or in good order where it has some patience; asked twice, at once."""
        loop = bridge.loop()
        if not self.patience or self.stopping:
            self._future.cancel()
        else:
            loop.call_soon_threadsafe(self._token.set)
            loop.call_soon_threadsafe(loop.call_later, self.patience, self._future.cancel)
        self.stopping = True

    @property
    def problem(self) -> BaseException | None:
        """What it failed of; being stopped is no failure."""
        if not self.ended or self.stopped:
            return None
        return self._future.exception()

    @property
    def stopped(self) -> bool:
        return self._future.cancelled() or (self.ended and isinstance(self._future.exception(), Cancelled))

    def result(self) -> T:
        return self._future.result()

    def came_to(self, found: object) -> bool:
        """Whether this very object is its result."""
        return self.ended and not self.stopped and self.problem is None and self.result() is found

    @property
    def told(self) -> tuple[float, str]:
        """How far it is, as a share and in words."""
        step = self.step
        if self.stopping:
            return 0.0, "Stopping"
        if step is None:
            return 0.0, "Beginning"
        of = f" of {step.total:,}" if step.total else ""
        share = min(1.0, step.done / step.total) if step.total else 0.0
        return share, f"{step.name}: {step.done:,}{of} {step.unit}"


_jobs: OrderedDict[Key, Job[Any]] = OrderedDict()
_lock = threading.Lock()


def start(key: Key, title: str, work: Work[T], *, patience: float = 0.0) -> Job[T]:
    """The job of that key, begun at the first call. One that failed is worth another try."""
    with _lock:
        if key not in _jobs or _jobs[key].problem is not None:
            _jobs[key] = Job(title, work, patience)
        _jobs.move_to_end(key)
        ended = [each for each, job in _jobs.items() if job.ended and each[0] == key[0]]
        for old in ended[: max(0, len(ended) - KEPT)]:
            del _jobs[old]
        return _jobs[key]


def find(key: Key) -> Job[Any] | None:
    """The job of that key, under way or ended. What is looked at is kept longest."""
    with _lock:
        if key in _jobs:
            _jobs.move_to_end(key)
        return _jobs.get(key)


def begun() -> list[tuple[Key, Job[Any]]]:
    """All that is under way or kept, the latest last."""
    with _lock:
        return sorted(_jobs.items(), key=lambda each: each[1].begun_at)


def forget(key: Key, job: Job[Any] | None = None) -> None:
    """So that it begins anew; with `job`, only where it is still that one."""
    with _lock:
        if job is None or _jobs.get(key) is job:
            _jobs.pop(key, None)
