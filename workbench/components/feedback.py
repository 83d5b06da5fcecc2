"""Messages: errors in a person's words, notes, confirmations, and what the server is waited for.

Tracebacks go to the terminal, never to the page.
"""

from __future__ import annotations

import html
import logging
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import streamlit as st
from streamlit.delta_generator import DeltaGenerator
from streamlit.runtime.scriptrunner import add_script_run_ctx, get_script_run_ctx

from core.errors import MissingCapability, RankbookError
from workbench.components.theme import asset
from workbench.services import server_waits
from workbench.services.jobs import Job

_log = logging.getLogger("rankbook")


@contextmanager
def draw_errors() -> Iterator[None]:
    """An error inside is drawn in its place."""
    try:
        yield
    except Exception as error:
        draw_error(error)


def draw_error(error: Exception) -> None:
    """A missing capability is a note, another expected error a complaint, anything else a bug."""
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
    """Escaped; text in backticks becomes code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(sentence))


def say(sentence: str) -> None:
    st.html(f'<p class="rb-report">{as_html(sentence)}</p>')


def note(title: str, sentence: str) -> None:
    st.html(
        f'<div class="rb-box rb-note" role="note"><strong>{html.escape(title)}</strong><p>{as_html(sentence)}</p></div>'
    )


def endpoint_note(sentence: str) -> None:
    """The note of what is sent to an endpoint; nothing for an empty sentence."""
    if sentence:
        note("Asks an endpoint", sentence)


F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Question:
    """A confirmation in a dialog. One is open at a time, about one thing."""

    key: str
    title: str

    def ask(self, about: str) -> None:
        """For callbacks: the next run draws the dialog."""
        st.session_state[self.key] = about

    @property
    def about(self) -> str | None:
        """What it is about; None while it is closed."""
        found: str | None = st.session_state.get(self.key)
        return found

    def dialog(self, draw: F) -> F:
        """The function as the dialog."""
        return st.dialog(self.title, on_dismiss=self._withdraw)(draw)

    def answered(self) -> None:
        """Close the dialog. Ends the run."""
        self._withdraw()
        st.rerun()

    def _withdraw(self) -> None:
        st.session_state.pop(self.key, None)


def start_or_refuse(begin: Callable[[], Job[Any]]) -> Callable[[], None]:
    """A button's callback that starts work; a refusal is drawn with the next run of the page."""

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
    """Scroll to the container of that key, once for each `of`: an id, empty where nothing is open."""
    with st.container(key="reveal"):
        _reveal(key=f"reveal.{place}", data={"place": place, "of": of})


# -- while the database server is waited for ---------------------------------------------------------------------------


def wait_note(sentence: str) -> str:
    return f'<div class="rb-box rb-note" role="status"><p>{as_html(sentence)}</p></div>'


@contextmanager
def server_wait(html_of: Callable[[str], str] = wait_note) -> Iterator[DeltaGenerator]:
    """A place at the top of the page. While the page is drawn, it says what the server is waited for."""
    place, context, sentences = st.empty(), get_script_run_ctx(), list[str]()

    def draw(sentence: str) -> None:
        add_script_run_ctx(ctx=context)
        place.html(html_of(sentence))

    def listen(sentence: str) -> None:
        """Drawn in a new thread that belongs to this page: the calling thread belongs to none."""
        sentences.append(sentence)
        drawing = threading.Thread(target=draw, args=(sentence,), daemon=True)
        drawing.start()
        drawing.join()

    with server_waits.heard_by(listen):
        yield place
    if sentences:
        place.empty()
