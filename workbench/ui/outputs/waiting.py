"""What a view asks live: work that goes on in the background, told of until it is there, and kept once it is.

A view never blocks for it. It draws what it has, and is drawn again when the answer came. An answer is kept by the
session that asked; the process forgets it then, for it has few places for ended work, and they are everybody's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import streamlit as st

from workbench.behind import jobs
from workbench.behind.jobs import Job, Key, Work

T = TypeVar("T")
AT_ONCE = 0.15  # seconds before a page shows that it waits
BEAT = 0.4  # seconds between two looks at work under way
LATEST = 12  # answers that a session keeps
KEPT = "outputs.answers"

STOPPED = '<div class="rb-box rb-note" role="note"><strong>Stopped</strong><p>Nothing was kept half done.</p></div>'


def answered(
    slot: str, key: Key, title: str, ask: Work[T], *, stays: Callable[[T], bool] = lambda _: False
) -> T | None:
    """The answer; None while it is on its way, which is then shown, and where somebody stopped it.

    One that `stays` is the process's: every window has the same, as long as it is looked at.
    """
    kept = _kept()
    # From the first look on: of two windows that wait for one answer, the other may be the first to have it.
    work: Job[T] = kept.pop(key) if key in kept else jobs.find(key) or jobs.begin(key, title, ask)
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
