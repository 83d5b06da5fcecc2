"""Work on collections, wherever one looks from: how far it is, Stop, and what came of it."""

from __future__ import annotations

import html
from collections.abc import Sequence
from hashlib import sha256
from typing import Any, Final

import streamlit as st

from core.store.engine import Store
from workbench.behind.collections import attaching
from workbench.behind.collections import work as collections_work
from workbench.behind.collections.asked import CollectionsState
from workbench.behind.collections.work import CollectionJob
from workbench.behind.jobs import Job, Key
from workbench.ui import errors
from workbench.ui.collections import add as collections_add
from workbench.ui.collections import attach as collections_attach
from workbench.ui.collections import results as collections_results
from workbench.ui.collections.state import current, go

BEAT: Final = 0.6  # seconds between two looks at work under way


def draw(store: Store) -> None:
    """One panel for all of it. It looks again while something is under way, and the whole page when that has ended."""
    found = collections_work.begun(store)
    running = frozenset(doing.key for doing in found if not doing.job.ended)
    st.fragment(_panel, run_every=BEAT if running else None)(found, running, current())


def _panel(found: Sequence[CollectionJob], running: frozenset[Key], drawn: CollectionsState) -> None:
    """Drawn again by itself, and the whole page where that is another one now: the list, or what is selected."""
    if _place(current()) != _place(drawn) or any(doing.job.ended and doing.key in running for doing in found):
        st.rerun()
    for doing in found:
        if collections_work.put_away_already(doing):
            continue
        with st.container(border=True, key=_key(doing, "box")), errors.shown():
            _one(doing)


def _place(asked: CollectionsState) -> tuple[str, ...]:
    """What the page around it is drawn for."""
    return asked.collection, asked.add, asked.shown, asked.set


def _key(doing: CollectionJob, part: str) -> str:
    return f"work.{sha256(repr(doing.key).encode()).hexdigest()[:12]}.{part}"


def _one(doing: CollectionJob) -> None:
    job = doing.job
    if not job.ended:
        _under_way(doing)
        return
    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
        st.html(f'<p class="rb-work"><strong>{html.escape(job.title)}</strong> {_outcome(job)}</p>')
        st.button(
            "Close",
            key=_key(doing, "close"),
            type="tertiary",
            icon=":material/close:",
            on_click=collections_work.put_away,
            args=(doing,),
        )
    if job.stopped:
        st.html("<p>What was stored by then is whole, and stays: asked again, it goes on from there.</p>")
    elif isinstance(job.problem, Exception):
        collections_results.problem(job.problem)
    else:
        collections_results.draw(doing.what, doing.name, job.result())
    if (job.stopped or job.problem) and doing.form is not None:
        st.button(
            "Change it and try again",
            key=_key(doing, "again"),
            icon=":material/edit:",
            on_click=_again,
            args=(doing,),
        )


def _outcome(job: Job[Any]) -> str:
    return "Stopped." if job.stopped else "It failed." if job.problem else "Done."


def _under_way(doing: CollectionJob) -> None:
    share, said = doing.job.told
    st.html(
        f'<p class="rb-work" role="status"><strong>{html.escape(doing.job.title)}</strong> '
        f"<span>{html.escape(said)}</span></p>"
    )
    st.progress(share)
    st.button(
        "Stop",
        key=_key(doing, "stop"),
        icon=":material/stop_circle:",
        on_click=doing.job.stop,
        disabled=doing.job.stopping,
    )


def _again(doing: CollectionJob) -> None:
    """The form as it was filled in."""
    if doing.form is not None:
        collections_work.put_away(doing)
        if isinstance(doing.form, attaching.AttachRequest):
            go(**collections_attach.refill(doing.form))
        else:
            go(add=collections_add.refill(doing.form))
