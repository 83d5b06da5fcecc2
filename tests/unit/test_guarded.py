"""A guarded search that fails at the very moment in which it is stopped: nobody is told of a forgotten task."""

from __future__ import annotations

import asyncio
import gc

import pytest

from core import bridge
from core.tasks import run_cancellable


def test_a_failure_that_comes_with_the_stop_is_not_logged_as_forgotten() -> None:
    said: list[str] = []

    async def work() -> None:
        bridge.loop().set_exception_handler(lambda _, context: said.append(context["message"]))
        stopped = asyncio.Event()

        async def fail() -> None:
            await stopped.wait()
            caller.cancel()  # before what waits for this task is told of its end
            raise ConnectionError

        caller = asyncio.ensure_future(run_cancellable(fail(), deadline=60.0))
        await asyncio.sleep(0)
        stopped.set()
        with pytest.raises(asyncio.CancelledError):
            await caller

    try:
        bridge.run(work())
        gc.collect()
    finally:
        bridge.loop().set_exception_handler(None)
    assert said == []
