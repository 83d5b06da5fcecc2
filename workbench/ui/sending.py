"""Work that may cost money: where it asks a language model or sends texts to another machine, a question comes first.

Such work begins with finding out what it would send. It comes to `Sends` where somebody has to allow that, and is begun
again, allowed, when somebody does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from functools import partial
from typing import Any, Protocol, TypeVar

import streamlit as st

from core.progress import Listener
from workbench.behind import jobs
from workbench.behind.jobs import Job, Key
from workbench.behind.sending import ConsentNeeded
from workbench.ui import errors
from workbench.ui.outputs import waiting

T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")


class Sending(Protocol[T_co]):
    """Work for a job that sends nothing unless it is allowed."""

    def __call__(
        self, listener: Listener, token: asyncio.Event, /, *, allowed: bool
    ) -> Coroutine[Any, Any, T_co | ConsentNeeded]: ...


def begun(key: Key, title: str, work: Sending[T], *, allowed: bool = False) -> Job[T | ConsentNeeded]:
    """The job of that key, begun at the first call."""
    return jobs.find(key) or jobs.begin(key, title, partial(work, allowed=allowed))


def answered(slot: str, key: Key, title: str, work: Sending[T], *, shared: bool = False) -> T | None:
    """The answer; None while it is on its way or hangs on a question, which is then shown, and where it was stopped.

    One that is `shared` is every window's, as a sitting is; so is a question, which is answered once.
    """
    found = waiting.answered(
        slot, key, title, partial(work, allowed=False), stays=lambda found: shared or isinstance(found, ConsentNeeded)
    )
    if not isinstance(found, ConsentNeeded):
        return found

    def send() -> None:
        if (job := jobs.find(key)) and job.came_to(found):  # else somebody was quicker, and it is sent already
            jobs.forget(key, job)
            begun(key, title, work, allowed=True)

    told("This", found.sentences)
    st.button("Send and begin", key=f"{slot}.send", icon=":material/payments:", on_click=send)
    return None


def told(what: str, sentences: Sequence[str]) -> None:
    """What would be sent, before anything is."""
    lines = "".join(f"<p>{errors.as_html(each)}</p>" for each in sentences)
    st.html(
        f'<div class="rb-box rb-note" role="note"><strong>{what} asks a language model or sends texts to another '
        f"machine, which may cost money</strong>{lines}</div>"
    )
