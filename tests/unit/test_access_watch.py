"""Which of the open pages are drawn anew when it changed who may do what, and when."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from workbench.access.watch import draw_anew


@dataclass
class Page:
    """As Streamlit keeps one that is open."""

    id: str
    _scriptrunner: object | None = None
    _client_state: str = "what it shows"
    drawn: list[str] = field(default_factory=list)

    def request_rerun(self, state: str) -> None:
        self.drawn.append(state)


def test_pages_that_are_due_are_drawn_with_what_they_show():
    due: Any = Page("due")
    later: Any = Page("came later")
    assert draw_anew([due, later], {"due", "closed since"}) == set()
    assert (due.drawn, later.drawn) == (["what it shows"], [])


def test_a_page_that_is_being_drawn_is_left_until_it_is_known_what_it_shows():
    page: Any = Page("due", _scriptrunner=object(), _client_state="")
    assert draw_anew([page], {"due"}) == {"due"}
    assert page.drawn == []
    page._scriptrunner, page._client_state = None, "Variants"
    assert draw_anew([page], {"due"}) == set()
    assert page.drawn == ["Variants"]
