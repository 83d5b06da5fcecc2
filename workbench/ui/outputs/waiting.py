"""What a view asks live: work that goes on in the background, told of until it is there, and kept once it is.

A view never blocks for it. It draws what it has, and is drawn again when the answer came.
"""

from __future__ import annotations

from typing import TypeVar

import streamlit as st

from workbench.behind import jobs
from workbench.behind.jobs import Job, Key, Work

T = TypeVar("T")
AT_ONCE = 0.15  # seconds before a page shows that it waits
BEAT = 0.4  # seconds between two looks at work under way
LATEST = 12  # answers that a session keeps

STOPPED = '<div class="rb-box rb-note" role="note"><strong>Stopped</strong><p>Nothing was kept half done.</p></div>'


def answered(slot: str, key: Key, title: str, ask: Work[T]) -> T | None:
    """The answer; None while it is on its way, which is then shown, and where somebody stopped it."""
    kept: dict[Key, T] = st.session_state.setdefault("outputs.answers", {})
    if key not in kept:
        work = jobs.find(key) or jobs.begin(key, title, ask)
        if not under_way(slot, key, work):
            return None
        kept[key] = work.result()
        jobs.forget(key)
        for old in list(kept)[:-LATEST]:
            del kept[old]
    return kept[key]


def under_way(slot: str, key: Key, work: Job[T]) -> bool:
    """Whether it has an answer, or an error to be raised; else what there is to see and press."""
    if not work.wait(AT_ONCE):
        _told(slot, work)
        return False
    if work.stopped:
        st.html(STOPPED)
        st.button("Go on", key=f"{slot}.again", on_click=jobs.forget, args=(key,))
        return False
    if work.problem is not None:
        jobs.forget(key, work)  # it is told; the next look is another try
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
