"""Errors as a person can read them, notes, and the question before something is deleted for good.

A traceback goes to the terminal, never to the page.
"""

from __future__ import annotations

import html
import logging
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import streamlit as st

from core.errors import MissingCapability, RankbookError
from workbench.components.theme import asset
from workbench.services.jobs import Job

_log = logging.getLogger("rankbook")


@contextmanager
def draw_errors() -> Iterator[None]:
    """Whatever goes wrong inside is drawn where it went wrong."""
    try:
        yield
    except Exception as error:
        draw_error(error)


def draw_error(error: Exception) -> None:
    """A missing capability is a note, any other error of ours a complaint, and the rest is our own fault."""
    if isinstance(error, MissingCapability):
        _box("note", "Not available here", str(error))
    elif isinstance(error, RankbookError):
        _box("complaint", "That did not work", str(error))
    else:
        _log.error("unexpected error", exc_info=error)
        said = f"{type(error).__name__}. What happened exactly stands in the terminal; `rankbook doctor` may know more."
        _box("complaint", "Something unexpected went wrong", said)


def _box(kind: str, title: str, sentence: str) -> None:
    role = "alert" if kind == "complaint" else "note"
    st.html(f'<div class="rb-box rb-{kind}" role="{role}"><strong>{title}</strong><p>{as_html(sentence)}</p></div>')


def as_html(sentence: str) -> str:
    """Escaped; what stands in backticks is set as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(sentence))


def say(sentence: str) -> None:
    st.html(f'<p class="rb-report">{as_html(sentence)}</p>')


def note(title: str, sentence: str) -> None:
    st.html(
        f'<div class="rb-box rb-note" role="note"><strong>{html.escape(title)}</strong><p>{as_html(sentence)}</p></div>'
    )


def endpoint_note(sentence: str) -> None:
    """What is sent away, where anything is."""
    if sentence:
        note("Asks an endpoint", sentence)


F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Question:
    """One at a time of this key, about one thing."""

    key: str
    title: str

    def ask(self, about: str) -> None:
        """In a callback: the run that follows draws the dialog."""
        st.session_state[self.key] = about

    @property
    def about(self) -> str | None:
        """What it is asked about; None while nobody asks."""
        found: str | None = st.session_state.get(self.key)
        return found

    def dialog(self, draw: F) -> F:
        """That function as the dialog."""
        return st.dialog(self.title, on_dismiss=self._withdraw)(draw)

    def answered(self) -> None:
        """Away with the dialog. Ends the run."""
        self._withdraw()
        st.rerun()

    def _withdraw(self) -> None:
        st.session_state.pop(self.key, None)


def start_or_refuse(begin: Callable[[], Job[Any]]) -> Callable[[], None]:
    """A button's callback that begins work; what refuses to begin is told where the page is drawn anew."""

    def click() -> None:
        try:
            begin()
        except RankbookError as error:
            st.session_state["collections.refused"] = error

    return click


def draw_refused() -> None:
    if (refused := st.session_state.pop("collections.refused", None)) is not None:
        draw_error(refused)


_reveal = st.components.v2.component("rankbook.reveal", html="<span></span>", js=asset("components/assets/reveal.js"))


def scroll_to(place: str, of: str) -> None:
    """Bring the container of that key into view once for each `of`: an id, empty where nothing is open."""
    with st.container(key="reveal"):
        _reveal(key=f"reveal.{place}", data={"place": place, "of": of})
