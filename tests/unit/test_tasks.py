"""Side by side: all succeed in order, or the first failure comes out as itself and the rest are cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from core import bridge
from core.tasks import bounded, in_order, side_by_side


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


def test_things_under_way_at_once_come_in_the_order_given_and_no_more_than_so_many_are_begun() -> None:
    begun: list[int] = []

    async def given() -> AsyncIterator[int]:
        for value in range(6):
            yield value

    async def work(value: int) -> int:
        begun.append(value)
        return await give(value * 10, turns=9 - value)

    async def taken() -> list[tuple[int, int]]:
        found = []
        async for pair in in_order(3, given(), work):
            found.append(pair)
            assert len(begun) <= len(found) + 2
        return found

    assert bridge.run(taken()) == [(value, value * 10) for value in range(6)]


def test_no_more_are_begun_than_may_be_under_way_and_more_as_soon_as_more_may() -> None:
    under_way, seen, most = 0, list[int](), 2

    async def work(value: int) -> None:
        nonlocal under_way, most
        under_way += 1
        seen.append(under_way)
        await give(value, turns=5)
        under_way -= 1
        most = 2 if value < 5 else 4

    bridge.run(bounded(lambda: most, range(20), work))
    assert len(seen) == 20
    assert max(seen[:6]) == 2
    assert max(seen) == 4
    seen.clear()
    bridge.run(bounded(3, range(9), work))
    assert max(seen) == 3


def test_what_is_bounded_ends_with_the_first_that_fails_and_begins_no_more() -> None:
    begun: list[int] = []

    async def work(value: int) -> None:
        begun.append(value)
        await give(value, turns=3)
        if value == 1:
            raise ValueError("the second")
        await asyncio.Event().wait()

    with pytest.raises(ValueError, match="the second"):
        bridge.run(bounded(2, range(9), work))
    assert begun == [0, 1]


def test_what_is_bounded_does_not_take_a_cancelled_one_for_done() -> None:
    async def work(value: int) -> None:
        if value == 1:
            cancelled = asyncio.get_running_loop().create_future()
            cancelled.cancel()
            await cancelled

    async def whole() -> None:
        with pytest.raises(asyncio.CancelledError):
            await bounded(2, range(4), work)

    bridge.run(whole())


def test_what_is_under_way_is_cancelled_where_one_fails_or_nobody_wants_the_rest() -> None:
    cancelled: list[int] = []

    async def given() -> AsyncIterator[int]:
        for value in range(3):
            yield value

    async def work(value: int) -> int:
        if value == 0:
            raise ValueError("the first")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(value)
            raise
        return value

    async def taken() -> None:
        async for _ in in_order(3, given(), work):
            pass

    with pytest.raises(ValueError, match="the first"):
        bridge.run(taken())
    assert cancelled == [1, 2]
