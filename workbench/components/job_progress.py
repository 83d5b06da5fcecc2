"""What a page shows of work in the background: its progress and a button that stops it, a question, its result.

A page never blocks for it. It draws what it has, and is drawn again when the result came. A result is kept by the
session that asked; the process forgets it then, for it keeps little of ended work, and for everybody.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import streamlit as st

from workbench.components import feedback
from workbench.services import jobs
from workbench.services.cost_notice import ConsentNeeded, WorkWithConsent, start_with_consent
from workbench.services.jobs import Job, Key, Work

T = TypeVar("T")
AT_ONCE = 0.15  # seconds before a page shows that it waits
BEAT = 0.4  # seconds between two looks at work under way
LATEST = 12  # answers that a session keeps
KEPT = "outputs.answers"

STOPPED = '<div class="rb-box rb-note" role="note"><strong>Stopped</strong><p>Nothing was kept half done.</p></div>'


def result(slot: str, key: Key, title: str, ask: Work[T], *, stays: Callable[[T], bool] = lambda _: False) -> T | None:
    """The answer; None while it is on its way, which is then shown, and where somebody stopped it.

    One that `stays` is the process's: every window has the same, as long as it is looked at.
    """
    kept = _kept()
    # From the first look on: of two windows that wait for one answer, the other may be the first to have it.
    work: Job[T] = kept.pop(key) if key in kept else jobs.find(key) or jobs.start(key, title, ask)
    kept[key] = work
    for old in list(kept)[:-LATEST]:
        del kept[old]
    if not under_way(slot, key, work):
        return None
    found = work.result()
    if stays(found):
        del kept[key]
    else:
        jobs.forget(key, work)
    return found


def _kept() -> dict[Key, Job[Any]]:
    """This session's, the one that was looked at last behind the others."""
    kept: dict[Key, Job[Any]] = st.session_state.setdefault(KEPT, {})
    return kept


def forget(key: Key, work: Job[Any] | None = None) -> None:
    """So that it is asked anew; with `work`, other work of that key goes on."""
    _kept().pop(key, None)
    jobs.forget(key, work)


def under_way(slot: str, key: Key, work: Job[T]) -> bool:
    """Whether it has an answer, or an error to be raised; else what there is to see and press."""
    if not work.wait(AT_ONCE):
        _told(slot, work)
        return False
    if work.stopped:
        st.html(STOPPED)
        st.button("Go on", key=f"{slot}.again", on_click=forget, args=(key, work))
        return False
    if work.problem is not None:
        forget(key, work)  # it is told; the next look is another try
    return True


@st.fragment(run_every=BEAT)
def _told(slot: str, work: Job[T]) -> None:
    if work.ended:
        st.rerun()
    share, said = work.told
    with st.container(horizontal=True, vertical_alignment="center"):
        st.progress(
            share, f"{work.title}. {said}" if work.step else f"{work.title}: {work.seconds:.0f} s", width="stretch"
        )
        st.button("Stop", key=f"{slot}.stop", on_click=work.stop, icon=":material/stop_circle:")


def result_with_consent(slot: str, key: Key, title: str, work: WorkWithConsent[T], *, shared: bool = False) -> T | None:
    """The answer; None while it is on its way or hangs on a question, which is then shown, and where it was stopped.

    One that is `shared` is every window's, as a sitting is; so is a question, which is answered once.
    """
    found = result(
        slot, key, title, partial(work, allowed=False), stays=lambda found: shared or isinstance(found, ConsentNeeded)
    )
    if not isinstance(found, ConsentNeeded):
        return found

    def send() -> None:
        if (job := jobs.find(key)) and job.came_to(found):  # else somebody was quicker, and it is sent already
            jobs.forget(key, job)
            start_with_consent(key, title, work, allowed=True)

    consent_note("This", found.sentences)
    st.button("Send and begin", key=f"{slot}.send", icon=":material/payments:", on_click=send)
    return None


def consent_note(what: str, sentences: Sequence[str]) -> None:
    """What would be sent, before anything is."""
    lines = "".join(f"<p>{feedback.as_html(each)}</p>" for each in sentences)
    st.html(
        f'<div class="rb-box rb-note" role="note"><strong>{what} asks a language model or sends texts to another '
        f"machine, which may cost money</strong>{lines}</div>"
    )
