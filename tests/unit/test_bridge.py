"""The bridge: one loop for all, results and errors as they are, and cancelling that reaches the work."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from core import bridge


async def running_loop() -> asyncio.AbstractEventLoop:
    return asyncio.get_running_loop()


def test_all_calls_from_all_threads_share_one_loop_in_a_thread_of_its_own() -> None:
    loops: list[asyncio.AbstractEventLoop] = []
    threads = [threading.Thread(target=lambda: loops.append(bridge.run(running_loop()))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert len(loops) == 8
    assert set(loops) == {bridge.loop()}


def test_an_error_comes_out_as_itself() -> None:
    async def fail() -> None:
        raise KeyError("as it is")

    with pytest.raises(KeyError, match="as it is"):
        bridge.run(fail())


def test_it_works_where_a_loop_runs_already() -> None:
    async def in_jupyter() -> asyncio.AbstractEventLoop:
        return bridge.run(running_loop())

    with ThreadPoolExecutor(1) as thread:  # this one may have a loop of somebody else's running
        assert thread.submit(asyncio.run, in_jupyter()).result() is bridge.loop()


def test_work_that_would_wait_for_itself_is_told_so() -> None:
    async def within() -> object:
        return bridge.run(running_loop())

    with pytest.raises(RuntimeError, match="would wait for itself"):
        bridge.run(within())


def test_work_that_is_cancelled_hears_of_it() -> None:
    begun, heard = threading.Event(), threading.Event()

    async def wait() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            heard.set()

    future = asyncio.run_coroutine_threadsafe(wait(), bridge.loop())
    assert begun.wait(10)
    future.cancel()
    assert heard.wait(10)
