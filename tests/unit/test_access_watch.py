"""Which of the open pages are drawn anew when it changed who may do what, and when."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Any

import pytest
from streamlit.runtime.fragment import MemoryFragmentStorage
from streamlit.runtime.state import SessionState

from workbench.server.follow_roles import draw_again


@dataclass
class Page:
    """As Streamlit keeps one that is open."""

    id: str
    _scriptrunner: object | None = None
    _client_state: str = "what it shows"
    _user_info: dict[str, Any] = field(default_factory=lambda: {"role": "viewer"})
    breaks: bool = False
    drawn: list[str] = field(default_factory=list)
    _fragment_storage: MemoryFragmentStorage = field(default_factory=MemoryFragmentStorage)
    _session_state: SessionState = field(default_factory=SessionState)
    ended: bool = False

    def request_rerun(self, state: str) -> None:
        if self.breaks:
            raise AttributeError("its run has just ended")
        self.drawn.append(state)

    def shutdown(self) -> None:
        self.ended = True


def follow(*pages: Any) -> set[str]:
    return draw_again(pages, lambda told: told["role"] is not None)


def test_pages_are_drawn_with_what_they_show():
    one, other = Page("one"), Page("other")
    assert follow(one, other) == set()
    assert (one.drawn, other.drawn) == (["what it shows"], ["what it shows"])


def test_a_page_that_is_being_drawn_is_left_until_it_is_known_what_it_shows():
    page = Page("one", _scriptrunner=object(), _client_state="")
    assert follow(page) == {"one"}
    assert page.drawn == []
    page._scriptrunner, page._client_state = None, "Variants"
    assert follow(page) == set()
    assert page.drawn == ["Variants"]


def test_whoever_may_not_come_in_any_more_is_shown_out_in_the_middle_of_it():
    page = Page("one", _scriptrunner=object(), _user_info={"role": None})
    assert follow(page) == set()
    assert page.drawn == ["what it shows"]


def test_a_page_that_cannot_be_drawn_now_has_another_turn_and_keeps_up_no_other():
    broken, other = Page("broken", breaks=True), Page("other")
    assert follow(broken, other) == {"broken"}
    assert other.drawn == ["what it shows"]


@pytest.mark.parametrize("moved", ["_fragment_storage", "_session_state", "_user_info"])
def test_a_page_of_another_streamlit_that_cannot_be_kept_from_acting_is_ended_and_the_log_says_why(moved, caplog):
    page, other = Page("one", _scriptrunner=object() if moved == "_user_info" else None), Page("other")
    delattr(page, moved)
    with caplog.at_level(logging.WARNING, "rankbook"):
        assert follow(page, other) == set()
    assert page.ended
    assert page.drawn == []
    assert (other.ended, other.drawn) == (False, ["what it shows"])
    (made,) = caplog.records
    assert (made.levelname, made.getMessage()) == ("WARNING", "access_not_followed")
    assert made.exc_info
