"""Errors as a person can read them. A traceback goes to the terminal, never to the page."""

from __future__ import annotations

import html
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager

import streamlit as st

from core.errors import MissingCapability, RankbookError

_log = logging.getLogger("rankbook")


@contextmanager
def shown() -> Iterator[None]:
    """Whatever goes wrong inside is drawn where it went wrong."""
    try:
        yield
    except Exception as error:
        draw(error)


def draw(error: Exception) -> None:
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
