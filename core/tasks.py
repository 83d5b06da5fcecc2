"""Concurrent work: side by side, in order, bounded in number, cancelled from outside or by a deadline."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from core.errors import Cancelled, DeadlineExceeded

T = TypeVar("T")
R = TypeVar("R")
Most = int | Callable[[], int]  # how many at once; a function is called whenever one is done, as a cluster may grow


async def side_by_side(*work: Coroutine[Any, Any, Any]) -> list[Any]:
    """All results, in order. The first error is raised by itself, not as an exception group, and ends the others."""
    async with _group() as group:
        tasks = [group.create_task(each) for each in work]
    return [task.result() for task in tasks]


@asynccontextmanager
async def _group() -> AsyncGenerator[asyncio.TaskGroup]:
    try:
        async with asyncio.TaskGroup() as group:
            yield group
    except BaseExceptionGroup as several:
        raise several.exceptions[0] from several.exceptions[0].__cause__


async def bounded(most: Most, values: Iterable[T], work: Callable[[T], Coroutine[Any, Any, None]]) -> None:
    """Do the work for each value, at most so many at once; the first that raises ends all."""
    under_way, lost = set[asyncio.Task[None]](), set[asyncio.Task[None]]()

    def ended(task: asyncio.Task[None]) -> None:
        under_way.discard(task)
        if task.cancelled():
            lost.add(task)

    async with _group() as group:
        for value in values:
            task = group.create_task(work(value))
            under_way.add(task)
            task.add_done_callback(ended)
            while len(under_way) >= _now(most):
                await asyncio.wait(under_way, return_when=asyncio.FIRST_COMPLETED)
    if lost:  # a task group takes a cancelled task for one that is done
        raise asyncio.CancelledError


def _now(most: Most) -> int:
    return most if isinstance(most, int) else most()


async def in_order(
    most: Most, values: AsyncIterator[T], work: Callable[[T], Coroutine[Any, Any, R]]
) -> AsyncGenerator[tuple[T, R]]:
    """Each value with its result, in the order of the values, at most so many at once. Closing it cancels the rest."""
    under_way: deque[tuple[T, asyncio.Task[R]]] = deque()
    try:
        async for value in values:
            under_way.append((value, asyncio.ensure_future(work(value))))
            if len(under_way) >= _now(most):
                yield under_way[0][0], await under_way[0][1]
                under_way.popleft()
        while under_way:
            yield under_way[0][0], await under_way[0][1]
            under_way.popleft()
    finally:
        for _, task in under_way:
            task.cancel()
        await asyncio.gather(*(task for _, task in under_way), return_exceptions=True)


async def run_cancellable(
    work: Coroutine[Any, Any, T],
    cancellation: asyncio.Event | None = None,
    deadline: float | None = None,
    *,
    name: str = "The search",
) -> T:
    """The work's result, unless the event is set or so many seconds pass first: then it is cancelled, and awaited.

    Work that ends while it is being cancelled gives its result. `name` begins the sentence of an error.
    """
    if cancellation and cancellation.is_set():
        work.close()
        raise Cancelled(f"{name} was cancelled before it began.")
    if cancellation is None and deadline is None:
        return await work
    task = asyncio.ensure_future(work)
    stop = asyncio.ensure_future(cancellation.wait()) if cancellation else None
    try:
        done, _ = await asyncio.wait(
            {task, stop} if stop else {task}, timeout=deadline, return_when=asyncio.FIRST_COMPLETED
        )
        if task in done:
            return task.result()
        task.cancel()
        await asyncio.wait({task})
        if not task.cancelled() and task.exception() is None:
            return task.result()
        if done:
            raise Cancelled(f"{name} was cancelled.")
        raise DeadlineExceeded(f"{name} did not end within {deadline:g} s.")
    finally:
        if stop:
            stop.cancel()
        if not task.done():  # whoever waits here was cancelled
            task.cancel()
            await asyncio.wait({task})
        if not task.cancelled():
            task.exception()  # retrieved, so that a failure during the cancellation is not logged as forgotten
