"""A Dask cluster: connecting to it, running functions on its workers, and errors that come back as values."""

from __future__ import annotations

import asyncio
import functools
import importlib
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

from core import errors
from core.errors import ClusterFailed, RankbookError

if TYPE_CHECKING:
    from distributed import Client, Future

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class WorkerError:
    """One of our own errors, raised on a worker: its class name and its sentence."""

    kind: str
    sentence: str

    def error(self) -> RankbookError:
        """The error to raise here. A class that takes more than a sentence becomes a RankbookError."""
        kind = getattr(errors, self.kind, RankbookError)
        plain = isinstance(kind, type) and issubclass(kind, RankbookError) and kind.__init__ is Exception.__init__
        made: RankbookError = kind(self.sentence) if plain else RankbookError(self.sentence)
        return made


def returns_errors(function: Callable[P, T]) -> Callable[P, T | WorkerError]:
    """Decorates a function that a worker runs: Rankbook's errors are returned as `WorkerError`."""

    @functools.wraps(function)
    def guarded(*given: P.args, **named: P.kwargs) -> T | WorkerError:
        try:
            return function(*given, **named)
        except RankbookError as error:
            return WorkerError(type(error).__name__, str(error))

    return guarded


AHEAD = 2  # calls a worker: the one that it runs, and the next already there
KEPT = "What was done until then is kept: run it again, and it goes on from there."
HERE = "or leave --dask and RANKBOOK_DASK out to work here."
INSTALL = "The package `distributed` is not installed. Run: pip install distributed, or unset RANKBOOK_DASK."
LOGGERS = ("client", "core", "comm", "batched", "utils", "scheduler")  # of the library: errors are raised instead


@dataclass(frozen=True, slots=True)
class Patience:
    """Seconds to wait for a connection, for the scheduler's answer, for a worker to come back, and between two looks.

    A scheduler that is gone is noticed at once; one that answers slowly is busy.
    """

    connecting: float = 5.0
    answering: float = 60.0
    without_workers: float = 30.0
    looks: float = 1.0


PATIENCE = Patience()


class Cluster:
    """A scheduler and its workers, opened with `Cluster.opened`."""

    def __init__(self, address: str, client: Client, patience: Patience) -> None:
        self.address, self._client, self._patience = address, client, patience
        self.workers = 0
        self._watching: asyncio.Future[None] = asyncio.Future()
        self._under_way = 0
        self._changed = asyncio.Condition()

    @classmethod
    @asynccontextmanager
    async def opened(cls, address: str, patience: Patience = PATIENCE) -> AsyncIterator[Cluster]:
        """Connected for the time of the context, with one worker at least."""
        client = await _connect(address, patience)
        cluster = cls(address, client, patience)
        try:
            await cluster._look_until(lambda: cluster.workers > 0, patience.connecting)
            cluster._watching = asyncio.ensure_future(cluster._watch())
            yield cluster
        finally:
            cluster._watching.cancel()
            await asyncio.gather(cluster._watching, return_exceptions=True)
            with suppress(Exception):  # nothing is lost where the scheduler is gone
                await asyncio.wait_for(cast("Any", client).close(), patience.connecting)

    @property
    def lines(self) -> int:
        """How many calls may be under way at once. Workers that join meanwhile count."""
        return max(1, AHEAD * self.workers)

    async def ask(self, function: Callable[..., T | WorkerError], *given: Any) -> T:
        """The function's result from a worker. When cancelled, a call that has not begun there is withdrawn."""
        async with self._turn():
            try:
                future = self._client.submit(function, *given, pure=False)
            except Exception as error:  # a client that lost its scheduler takes nothing more
                raise self._gone() from error
            answer = asyncio.ensure_future(self._answer(future))
            try:
                await asyncio.wait({answer, self._watching}, return_when=asyncio.FIRST_COMPLETED)
                if not answer.done():
                    self._watching.result()  # raises why nobody will answer
                return cast("T", await answer)
            finally:
                if answer.done() and not answer.cancelled():
                    answer.exception()
                else:
                    answer.cancel()
                    with suppress(Exception):  # a cluster that is gone has nothing to cancel
                        await cast("Any", future).cancel()

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        async with self._changed:
            await self._changed.wait_for(lambda: self._under_way < self.lines)
            self._under_way += 1
        try:
            yield
        finally:
            self._under_way -= 1
            async with self._changed:
                self._changed.notify_all()

    async def _answer(self, future: Future[Any]) -> Any:
        from distributed.client import FutureCancelledError
        from distributed.scheduler import KilledWorker

        try:
            answer = await future
        except FutureCancelledError as error:
            raise self._gone() from error
        except KilledWorker as error:
            raise ClusterFailed(
                f"The workers of the Dask cluster at {self.address} died over one piece of work, one after the other, "
                f"for want of memory perhaps. Give them more of it, or start fewer on a machine. {KEPT}"
            ) from error
        except Exception as error:
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise ClusterFailed(
                f"A worker of the Dask cluster at {self.address} could not do its work ({type(error).__name__}: "
                f"{reason:.200}). Its Python needs the same version of Rankbook, with what it needs. {KEPT}"
            ) from error
        if isinstance(answer, WorkerError):
            raise answer.error()
        return answer

    # -- watching ----------------------------------------------------------------------------------------------------

    async def _watch(self) -> None:
        """Raises when no worker is left that could answer."""
        while True:
            await asyncio.sleep(self._patience.looks)
            await self._look()
            if not self.workers:
                await self._look_until(lambda: self.workers > 0, self._patience.without_workers)

    async def _look_until(self, enough: Callable[[], bool], patience: float) -> None:
        begun = time.monotonic()
        await self._look()
        while not enough():
            if time.monotonic() - begun > patience:
                raise ClusterFailed(
                    f"The Dask cluster at {self.address} has had no worker for {patience:g} s. Start one with "
                    f"`dask worker {self.address}`, {HERE} {KEPT}"
                )
            await asyncio.sleep(min(self._patience.looks, 0.2))
            await self._look()

    async def _look(self) -> None:
        try:
            async with asyncio.timeout(self._patience.answering):  # Python 3.11's `wait_for` may swallow a cancellation
                cores = await cast("Any", self._client.scheduler).ncores()
        except TimeoutError as error:
            raise ClusterFailed(
                f"The Dask scheduler at {self.address} has not answered for {self._patience.answering:g} s. {KEPT}"
            ) from error
        except Exception as error:  # what a lost connection raises differs with the moment
            raise self._gone() from error
        if len(cores) != self.workers:
            self.workers = len(cores)
            async with self._changed:
                self._changed.notify_all()

    def _gone(self) -> ClusterFailed:
        return ClusterFailed(
            f"The Dask cluster at {self.address} is gone. Start its scheduler and workers again, {HERE} {KEPT}"
        )


async def _connect(address: str, patience: Patience) -> Client:
    """The library's client, connected to the scheduler."""
    try:
        distributed = await asyncio.to_thread(importlib.import_module, "distributed")
    except ImportError as error:
        raise ClusterFailed(INSTALL) from error
    for name in LOGGERS:
        logging.getLogger(f"distributed.{name}").setLevel(logging.CRITICAL)
    client = None
    try:
        client = distributed.Client(
            address, asynchronous=True, timeout=patience.connecting, set_as_default=False, name="rankbook"
        )
        return cast("Client", await client)
    except Exception as error:  # addresses that are none, hosts that are unknown, ports where something else listens
        if client is not None:
            with suppress(Exception):
                await client.close()
        raise ClusterFailed(
            f"No Dask scheduler answers at {address}. Write its address as tcp://host:8786, start one with "
            f"`dask scheduler`, {HERE}"
        ) from error
