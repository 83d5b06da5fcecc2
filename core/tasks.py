"""Concurrent work: side by side, in order, bounded in number, cancelled from outside or by a deadline."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from core.errors import Cancelled, DeadlineExceeded

if TYPE_CHECKING:
    from core.context import RequestContext

T = TypeVar("T")
R = TypeVar("R")
Most = int | Callable[[], int]  # how many at once, or who says it anew whenever one is done: a cluster may grow


async def side_by_side(*work: Coroutine[Any, Any, Any]) -> list[Any]:
    """Like a TaskGroup, but a caller meets the error that happened, not a group of it."""
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


async def bounded(most: Most, each: Iterable[T], work: Callable[[T], Coroutine[Any, Any, None]]) -> None:
    """The work for each of them, so many at once; the first that raises ends it for all."""
    under_way, lost = set[asyncio.Task[None]](), set[asyncio.Task[None]]()

    def ended(task: asyncio.Task[None]) -> None:
        under_way.discard(task)
        if task.cancelled():
            lost.add(task)

    async with _group() as group:
        for value in each:
            task = group.create_task(work(value))
            under_way.add(task)
            task.add_done_callback(ended)
            while len(under_way) >= _now(most):
                await asyncio.wait(under_way, return_when=asyncio.FIRST_COMPLETED)
    if lost:  # which a group takes for done
        raise asyncio.CancelledError


def _now(most: Most) -> int:
    return most if isinstance(most, int) else most()


async def in_order(
    most: Most, given: AsyncIterator[T], work: Callable[[T], Coroutine[Any, Any, R]]
) -> AsyncGenerator[tuple[T, R]]:
    """What comes of each, in the order given, so many under way at once. Close it to cancel what is."""
    under_way: deque[tuple[T, asyncio.Task[R]]] = deque()
    try:
        async for value in given:
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


async def run_cancellable(context: RequestContext, work: Coroutine[Any, Any, T]) -> T:
    """The work's result, unless its token is set or its deadline passes first: then it is cancelled, and awaited."""
    if context.cancellation and context.cancellation.is_set():
        work.close()
        raise Cancelled("The search was cancelled before it began.")
    if context.cancellation is None and context.deadline is None:
        return await work
    task = asyncio.ensure_future(work)
    token = asyncio.ensure_future(context.cancellation.wait()) if context.cancellation else None
    try:
        waiting = {task, token} if token else {task}
        done, _ = await asyncio.wait(waiting, timeout=context.deadline, return_when=asyncio.FIRST_COMPLETED)
        if task in done:
            return task.result()
        if token in done:
            raise Cancelled("The search was cancelled.")
        raise DeadlineExceeded(f"The search did not end within {context.deadline:g} s.")
    finally:
        if token:
            token.cancel()
        if not task.done():
            task.cancel()
            await asyncio.wait({task})
        if not task.cancelled():
            task.exception()  # looked at, so that nobody logs a failure as forgotten that came with the stop


async def until(token: asyncio.Event | None, work: Coroutine[Any, Any, T]) -> T:
    """The result, or `Cancelled` once the token is set and the work has undone what it began."""
    if token is None:
        return await work
    task, stop = asyncio.ensure_future(work), asyncio.ensure_future(token.wait())
    try:
        await asyncio.wait((task, stop), return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            task.cancel()
            try:
                return await task  # which may have come to its end just now
            except (asyncio.CancelledError, Exception) as error:
                raise Cancelled("Somebody stopped the work.") from error
        return task.result()
    finally:
        stop.cancel()
        if not task.done():  # this very task was cancelled
            task.cancel()
            await asyncio.wait((task,))
