"""Work in the background: started once, observed, stopped, and found again by its key from any window.

Knows neither Streamlit nor the work; a key begins with the kind of work. Jobs live as long as the process; of each kind
the oldest ended ones are forgotten.
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
    """Work under way, or ended. It goes on whether or not a page shows it.

    When it is stopped, its token is set, and it has `grace` seconds to finish in good order. Then it is cancelled, and
    with it its statement on the server.
    """

    def __init__(self, title: str, work: Work[T], grace: float = 0.0) -> None:
        self.title, self.grace = title, grace
        self.begun_at = time.monotonic()
        self.step: Step | None = None
        self.stopping = False
        self._token = asyncio.Event()
        self._future = asyncio.run_coroutine_threadsafe(work(self._hear, self._token), bridge.loop())

    def _hear(self, step: Step) -> None:
        self.step = step

    @property
    def seconds(self) -> float:
        """How long ago it was started."""
        return time.monotonic() - self.begun_at

    def wait(self, seconds: float) -> bool:
        """Whether it has ended, after at most that long."""
        return bool(futures.wait([self._future], seconds).done)

    @property
    def ended(self) -> bool:
        return self._future.done()

    def stop(self) -> None:
        """In good order where it has some grace; a second call stops at once."""
        loop = bridge.loop()
        if not self.grace or self.stopping:
            self._future.cancel()
        else:
            loop.call_soon_threadsafe(self._token.set)
            loop.call_soon_threadsafe(loop.call_later, self.grace, self._future.cancel)
        self.stopping = True

    @property
    def problem(self) -> BaseException | None:
        """The exception that it failed with; being stopped is no failure."""
        if not self.ended or self.stopped:
            return None
        return self._future.exception()

    @property
    def stopped(self) -> bool:
        return self._future.cancelled() or (self.ended and isinstance(self._future.exception(), Cancelled))

    def result(self) -> T:
        return self._future.result()

    def is_result(self, found: object) -> bool:
        """Whether this very object is its result."""
        return self.ended and not self.stopped and self.problem is None and self.result() is found

    @property
    def progress(self) -> tuple[float, str]:
        """The share that is done, and a sentence."""
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


def start(key: Key, title: str, work: Work[T], *, grace: float = 0.0) -> Job[T]:
    """The job of that key, started at the first call. One that failed is started again."""
    with _lock:
        if key not in _jobs or _jobs[key].problem is not None:
            _jobs[key] = Job(title, work, grace)
        _jobs.move_to_end(key)
        ended = [each for each, job in _jobs.items() if job.ended and each[0] == key[0]]
        for old in ended[: max(0, len(ended) - KEPT)]:
            del _jobs[old]
        return _jobs[key]


def find(key: Key) -> Job[Any] | None:
    """The job of that key, under way or ended. Jobs that are found are kept longest."""
    with _lock:
        if key in _jobs:
            _jobs.move_to_end(key)
        return _jobs.get(key)


def listed() -> list[tuple[Key, Job[Any]]]:
    """All jobs, the latest last."""
    with _lock:
        return sorted(_jobs.items(), key=lambda each: each[1].begun_at)


def forget(key: Key, job: Job[Any] | None = None) -> None:
    """Forget the job, so that it starts anew; with `job`, only if it is still that one."""
    with _lock:
        if job is None or _jobs.get(key) is job:
            _jobs.pop(key, None)
