"""What a view asks live: who keeps the answer, and that windows that wait for the same ask once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from core import bridge
from workbench.services import jobs
from workbench.services.cost_notice import ConsentNeeded

KIND = "asked in a test"


class Asked:
    """What is asked, and how often it was. What `sends` has to be allowed first."""

    def __init__(self) -> None:
        self.number, self.times, self.sends, self.shared = 0, 0, False, False
        self._may_end = asyncio.Event()
        self._may_end.set()

    def hold(self) -> None:
        """What is asked from now on waits."""
        self._may_end = asyncio.Event()

    def let(self) -> None:
        bridge.loop().call_soon_threadsafe(self._may_end.set)

    @property
    def key(self) -> jobs.Key:
        return KIND, str(self.number)

    async def work(self, _: Any, __: Any, *, allowed: bool) -> str | ConsentNeeded:
        if self.sends and not allowed:
            return ConsentNeeded(("It asks.",))
        self.times += 1
        await self._may_end.wait()
        return f"answer {self.number}"


ASKED = Asked()


def draw() -> None:
    import streamlit as st

    from tests.app.test_waiting import ASKED
    from workbench.components import job_progress

    found = job_progress.result_with_consent("slot", ASKED.key, "Asking", ASKED.work, shared=ASKED.shared)
    if found is not None:
        st.text(found)


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    ASKED.__init__()  # type: ignore[misc]
    yield
    ASKED.let()
    for key, _ in jobs.begun():
        if key[0] == KIND:
            jobs.forget(key)


def window() -> AppTest:
    return AppTest.from_function(draw, default_timeout=60)


def until(window: AppTest, holds: Callable[[], bool]) -> AppTest:
    """Drawn as often as it takes: a browser would look again by itself."""
    end = time.monotonic() + 30
    window.run()
    while not holds():
        assert time.monotonic() < end, "it never came"
        window.run()
    assert not window.exception
    return window


def answered(window: AppTest) -> AppTest:
    return until(window, lambda: bool(window.text))


def test_an_answer_is_kept_by_the_session_and_takes_no_place_among_everybodys_work():
    own = window()
    for ASKED.number in range(3):
        assert answered(own).text[0].value == f"answer {ASKED.number}"
        assert jobs.find(ASKED.key) is None
    for ASKED.number in range(3):
        assert own.run().text[0].value == f"answer {ASKED.number}"
    assert ASKED.times == 3


def test_of_two_windows_that_wait_for_one_answer_both_have_it_and_it_is_asked_once():
    one, other = window(), window()
    ASKED.hold()
    for each in (one, other):
        until(each, lambda each=each: [button.label for button in each.button] == ["Stop"])  # type: ignore[misc]
    ASKED.let()
    for each in (one, other):
        answered(each)
    assert ASKED.times == 1


def test_a_question_is_everybodys_and_its_answer_the_sessions():
    ASKED.sends = True
    one, other = window(), window()
    for each in (one, other):
        until(each, lambda each=each: [button.label for button in each.button] == ["Send and begin"])  # type: ignore[misc]
    assert isinstance(jobs.find(ASKED.key).result(), ConsentNeeded)  # type: ignore[union-attr]
    ASKED.hold()
    one.button[0].click().run()
    other.button[0].click().run()
    ASKED.let()
    answered(one)
    answered(other)
    assert ASKED.times == 1
    assert jobs.find(ASKED.key) is None


def test_what_is_shared_is_every_windows_as_long_as_somebody_looks():
    ASKED.shared = True
    answered(window())
    job = jobs.find(ASKED.key)
    assert job
    answered(window())
    assert jobs.find(ASKED.key) is job
    assert ASKED.times == 1


def test_work_that_was_stopped_goes_on_where_somebody_says_so():
    own = window()
    ASKED.hold()
    until(own, lambda: bool(own.button))
    own.button(key="slot.stop").click()
    until(own, lambda: [button.label for button in own.button] == ["Go on"])
    ASKED.let()
    own.button(key="slot.again").click()
    answered(own)
    assert ASKED.times == 2
