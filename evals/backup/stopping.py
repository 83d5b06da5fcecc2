"""Work that a token ends: it is cancelled, and waited for until it has put things back."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from core.errors import Cancelled

T = TypeVar("T")


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
