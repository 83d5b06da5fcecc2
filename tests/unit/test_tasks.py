"""Side by side: all succeed in order, or the first failure comes out as itself and the rest are cancelled."""

from __future__ import annotations

import asyncio

import pytest

from core import bridge
from core.tasks import side_by_side


async def give(value: int, turns: int = 0) -> int:
    for _ in range(turns):
        await asyncio.sleep(0)
    return value


def test_results_come_in_the_order_asked_for() -> None:
    assert bridge.run(side_by_side(give(1, 5), give(2), give(3, 2))) == [1, 2, 3]
    assert bridge.run(side_by_side()) == []


def test_a_failure_comes_out_as_itself_with_its_cause_and_the_others_are_cancelled() -> None:
    cancelled: list[bool] = []

    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    async def fail() -> None:
        await asyncio.sleep(0)
        raise LookupError("what happened") from ZeroDivisionError("why")

    with pytest.raises(LookupError, match="what happened") as caught:
        bridge.run(side_by_side(wait(), fail(), wait()))
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert cancelled == [True, True]


def test_cancelling_the_whole_cancels_each() -> None:
    cancelled: list[int] = []

    async def wait(number: int) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.append(number)

    async def work() -> None:
        task = asyncio.create_task(side_by_side(wait(1), wait(2)))
        for _ in range(5):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    bridge.run(work())
    assert sorted(cancelled) == [1, 2]
