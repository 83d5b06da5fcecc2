"""Work in the background: found again, heard of, stopped in good order or at once, tried again after a failure."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from core.errors import Cancelled, SpecError
from core.progress import Step
from workbench.services import jobs

KEY = ("test", "job")


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    yield
    if job := jobs.find(KEY):
        job.stop()
    jobs.forget(KEY)


def test_a_job_is_found_again_by_its_key_stopped_and_begun_anew():
    begun, stopped = threading.Event(), threading.Event()

    async def long(listener: Any, _: Any) -> Any:
        listener(Step("Legs", 1, 4, "queries"))
        begun.set()
        try:
            await asyncio.sleep(60)
        finally:
            stopped.set()

    job = jobs.start(KEY, "Long", long)
    assert jobs.start(KEY, "Long", long) is job
    assert jobs.find(KEY) is job
    assert begun.wait(60)
    assert not job.wait(0)
    assert job.told == (0.25, "Legs: 1 of 4 queries")
    job.stop()
    assert job.wait(60)
    assert job.stopped
    assert job.problem is None
    assert stopped.wait(60)
    jobs.forget(KEY)
    assert jobs.start(KEY, "Long", long) is not job


def test_one_that_failed_is_worth_another_try():
    async def fails(*_: Any) -> Any:
        raise SpecError("No.")

    job = jobs.start(KEY, "Fails", fails)
    job.wait(60)
    assert isinstance(job.problem, SpecError)
    with pytest.raises(SpecError):
        job.result()
    assert jobs.start(KEY, "Fails", fails) is not job


def test_patience_lets_work_put_away_what_is_done():
    kept = []

    async def careful(_: Any, token: asyncio.Event) -> Any:
        await token.wait()
        kept.append("what was done")
        raise Cancelled("Stopped.")

    job = jobs.start(KEY, "Careful", careful, patience=30)
    assert not job.wait(0.05)
    job.stop()
    assert job.told == (0.0, "Stopping")
    assert job.wait(60)
    assert job.stopped
    assert kept == ["what was done"]


def test_asked_to_stop_twice_it_stops_at_once():
    async def deaf(*_: Any) -> Any:
        await asyncio.sleep(60)

    job = jobs.start(KEY, "Deaf", deaf, patience=30)
    job.stop()
    assert not job.wait(0.05)
    job.stop()
    assert job.wait(60)
    assert job.stopped


def test_patience_has_an_end():
    async def deaf(*_: Any) -> Any:
        await asyncio.sleep(60)

    job = jobs.start(KEY, "Deaf", deaf, patience=0.05)
    job.stop()
    assert job.wait(60)
    assert job.stopped


async def soon(*_: Any) -> str:
    return "done"


def test_what_is_looked_at_outlives_what_nobody_looks_at():
    looked_at = jobs.start(KEY, "Soon", soon)
    others = [("test", f"other {number}") for number in range(jobs.KEPT + 1)]
    for key in others:
        jobs.start(key, "Soon", soon).wait(60)
        assert jobs.find(KEY) is looked_at
    assert jobs.find(others[0]) is None
    for key in others:
        jobs.forget(key)


def test_what_ended_makes_room_for_others_of_its_kind_alone():
    kept = jobs.start(KEY, "Soon", soon)
    kept.wait(60)
    others = [("other", f"{number}") for number in range(2 * jobs.KEPT)]
    for key in others:
        jobs.start(key, "Soon", soon).wait(60)
    there = [key for key, _ in jobs.begun() if key[0] == "other"]
    for key in others:
        jobs.forget(key)
    assert len(there) in (jobs.KEPT, jobs.KEPT + 1)  # room is made for the last while it may be under way
    assert jobs.find(KEY) is kept


def test_a_look_changes_nothing_of_the_order_in_which_they_began():
    other = ("test", "other")
    jobs.start(KEY, "Soon", soon)
    jobs.start(other, "Soon", soon)
    jobs.find(KEY)
    assert [key for key, _ in jobs.begun()][-2:] == [KEY, other]
    jobs.forget(other)


def test_one_that_another_took_the_place_of_is_not_forgotten():
    first = jobs.start(KEY, "Soon", soon)
    jobs.forget(KEY, first)
    second = jobs.start(KEY, "Soon", soon)
    jobs.forget(KEY, first)
    assert jobs.find(KEY) is second
