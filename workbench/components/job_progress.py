"""Background work on a page: its progress with a Stop button, the question for consent, its result.

A page never blocks for it. It is drawn with what it has, and again when the result is there. A result is kept by the
session that asked; the process forgets it, for it keeps few ended jobs for everybody.
"""

from __future__ import annotations

import html
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
    """The result; None while the work goes on, which is drawn, and where it was stopped.

    A result that `stays` is kept by the process: every window gets the same.
    """
    kept = _kept()
    # From the first look on: of two windows that wait for one answer, the other may be the first to have it.
    work: Job[T] = kept.pop(key) if key in kept else jobs.find(key) or jobs.start(key, title, ask)
    kept[key] = work
    for old in list(kept)[:-LATEST]:
        del kept[old]
    if not has_ended(slot, key, work):
        return None
    found = work.result()
    if stays(found):
        del kept[key]
    else:
        jobs.forget(key, work)
    return found


def _kept() -> dict[Key, Job[Any]]:
    """This session's jobs, the last used one last."""
    kept: dict[Key, Job[Any]] = st.session_state.setdefault(KEPT, {})
    return kept


def forget(key: Key, work: Job[Any] | None = None) -> None:
    """So that it starts anew; with `work`, only if it is still that job."""
    _kept().pop(key, None)
    jobs.forget(key, work)


def has_ended(slot: str, key: Key, work: Job[T]) -> bool:
    """Whether there is a result, or an error to raise; else draws progress or that it was stopped."""
    if not work.wait(AT_ONCE):
        _watch(slot, work)
        return False
    if work.stopped:
        st.html(STOPPED)
        st.button("Go on", key=f"{slot}.again", on_click=forget, args=(key, work))
        return False
    if work.problem is not None:
        forget(key, work)  # it is told; the next look is another try
    return True


@st.fragment(run_every=BEAT)
def _watch(slot: str, work: Job[T]) -> None:
    if work.ended:
        st.rerun()
    draw_progress(slot, work)


def draw_progress(key: str, job: Job[Any]) -> None:
    """How far the job is, and a button that stops it. A title may contain a stranger's name, so it is no Markdown."""
    share, sentence = job.progress
    if not (job.step or job.stopping):
        sentence = f"{job.seconds:.0f} s"
    st.html(
        f'<p class="rb-work" role="status"><strong>{html.escape(job.title)}</strong> '
        f"<span>{html.escape(sentence)}</span></p>"
    )
    with st.container(horizontal=True, vertical_alignment="center"):
        st.progress(share, width="stretch")
        st.button("Stop", key=f"{key}.stop", icon=":material/stop_circle:", on_click=job.stop, disabled=job.stopping)


def result_with_consent(slot: str, key: Key, title: str, work: WorkWithConsent[T], *, shared: bool = False) -> T | None:
    """The result; None while the work goes on or waits for consent, which is drawn, and where it was stopped.

    `shared` results are the same in every window; a question is always, so that it is answered once.
    """
    found = result(
        slot, key, title, partial(work, allowed=False), stays=lambda found: shared or isinstance(found, ConsentNeeded)
    )
    if not isinstance(found, ConsentNeeded):
        return found

    def send() -> None:
        if (job := jobs.find(key)) and job.is_result(found):  # else somebody was quicker, and it is sent already
            jobs.forget(key, job)
            start_with_consent(key, title, work, allowed=True)

    consent_note("This", found.sentences)
    st.button("Send and begin", key=f"{slot}.send", icon=":material/payments:", on_click=send)
    return None


def consent_note(what: str, sentences: Sequence[str]) -> None:
    """What would be sent."""
    lines = "".join(f"<p>{feedback.as_html(each)}</p>" for each in sentences)
    st.html(
        f'<div class="rb-box rb-note" role="note"><strong>{what} asks a language model or sends texts to another '
        f"machine, which may cost money</strong>{lines}</div>"
    )
