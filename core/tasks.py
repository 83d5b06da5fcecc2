"""Doing several things at once: all succeed, or the first failure is raised as itself and the rest are cancelled."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from typing import Any, TypeVar

T = TypeVar("T")
R = TypeVar("R")


async def side_by_side(*work: Coroutine[Any, Any, Any]) -> list[Any]:
    """Like a TaskGroup, but a caller meets the error that happened, not a group of it."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(each) for each in work]
    except BaseExceptionGroup as several:
        raise several.exceptions[0] from several.exceptions[0].__cause__
    return [task.result() for task in tasks]


async def bounded(most: int, each: Iterable[T], work: Callable[[T], Awaitable[None]]) -> None:
    """The work for each of them, so many at once; the first that raises ends it for all."""
    gate = asyncio.Semaphore(most)

    async def one(value: T) -> None:
        async with gate:
            await work(value)

    await side_by_side(*(one(value) for value in each))


async def in_order(
    most: int, given: AsyncIterator[T], work: Callable[[T], Coroutine[Any, Any, R]]
) -> AsyncGenerator[tuple[T, R]]:
    """What comes of each, in the order given, so many under way at once. Close it to cancel what is."""
    under_way: deque[tuple[T, asyncio.Task[R]]] = deque()
    try:
        async for value in given:
            under_way.append((value, asyncio.ensure_future(work(value))))
            if len(under_way) >= most:
                yield under_way[0][0], await under_way[0][1]
                under_way.popleft()
        while under_way:
            yield under_way[0][0], await under_way[0][1]
            under_way.popleft()
    finally:
        for _, task in under_way:
            task.cancel()
        await asyncio.gather(*(task for _, task in under_way), return_exceptions=True)
