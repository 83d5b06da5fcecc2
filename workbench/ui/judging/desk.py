"""A sitting on the page: begun in the background, found again by whoever opens the same address, and what is beside it.

Each part is a fragment: a grade redraws the desk, and nothing waits for the scores.
"""

from __future__ import annotations

import asyncio
import html
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import streamlit as st

from core import bridge
from core.progress import Listener
from core.store.browse import chunk_offsets
from evals.evaluation.context import EvalContext
from workbench.behind import jobs
from workbench.behind import sending as behind_sending
from workbench.behind.jobs import Key
from workbench.behind.judging import shown as judging_shown
from workbench.behind.judging import sitting as judging_sitting
from workbench.behind.judging.asked import JudgeState
from workbench.behind.judging.sitting import JudgingSession, Pool
from workbench.behind.sending import ConsentNeeded
from workbench.ui import address, may, sending
from workbench.ui.judging import judging
from workbench.ui.judging import side as judging_side
from workbench.ui.judging.judging import Desk, Span

KEPT = 200  # documents whose passages a session remembers


def draw(ground: EvalContext, mark: str, asked: JudgeState) -> None:
    """The sitting of that judge and pool; while its runs are made, how far they are."""
    key: Key = ("sitting", mark, *asked.pool)
    work = partial(begun, ground, asked)
    found: JudgingSession | None = sending.answered("judging", key, "Preparing the sitting", work, shared=True)
    if found is not None:
        _sitting(key, ground, asked, found)


def _sitting(key: Key, ground: EvalContext, asked: JudgeState, sitting: JudgingSession) -> None:
    st.html(f'<p class="rb-summary">{html.escape(told(asked, sitting))}</p>')
    name, way = judging_side.model() if may.edit(ground.store) else ("", "")
    desk, side = st.columns([9, 5], gap="medium")
    with desk:
        _desk(key, ground, sitting, asked, name)
    with side:
        if name:
            judging_side.suggestion(sitting, name)
        judging_side.follow(key, ground, sitting)
        if way:
            judging_side.without_model(way)


async def begun(
    ground: EvalContext, asked: JudgeState, listener: Listener, token: asyncio.Event, *, allowed: bool
) -> JudgingSession | ConsentNeeded:
    """Runs made or found, and the queue of them; where making them sends something, only once somebody allowed it."""
    here = ground.until(token)
    split = here.any_split(asked.split)
    entries = [await judging_shown.entry(here, asked.split, name) for name in asked.entries]
    if sends := await behind_sending.announced(here, entries, split, allowed=allowed):
        return sends
    runs = await judging_shown.runs_of(here, entries, split, listener)
    pool = Pool(tuple(runs), split, asked.spec(), asked.most, asked.lists)
    return await judging_sitting.opened(here.store, here.view, asked.judge, pool)


def told(asked: JudgeState, sitting: JudgingSession) -> str:
    """Which sitting it is, and what to know of its queue."""
    found, names = sitting.found, " and ".join(judging_shown.told_apart(sitting.pool.runs))
    said = [f"{sitting.judge} judges {asked.split!r} of {asked.collection!r}: {names}."]
    if found.stale:
        said.append(f"{found.stale} judgements are stale, their documents having changed: those pairs are asked anew.")
    if found.gone:
        said.append(f"{found.gone} documents are no longer there and were left out.")
    return " ".join(said)


@st.fragment
def _desk(key: Key, ground: EvalContext, sitting: JudgingSession, asked: JudgeState, model: str) -> None:
    suggests = f"Ask {model} what it would give. Its answer is shown below and never counts." if model else ""
    passages = _passages(ground)
    desk = Desk("judging.desk", sitting, asked.lists, passages, suggests, judging_side.asking(sitting))
    judging.draw(desk)
    if not sitting.left():
        _ended(key, sitting)


def _ended(key: Key, sitting: JudgingSession) -> None:
    with st.container(horizontal=True):
        if sitting.skipped:
            label = f"Go back to the {len(sitting.skipped)} skipped"
            st.button(label, key="judging.skipped", on_click=sitting.return_to_skipped, icon=":material/replay:")
        if sitting.tasks and st.button("Go on with the next", key="judging.next", icon=":material/arrow_forward:"):
            jobs.forget(key)
            st.rerun()
        if not sitting.tasks:
            st.button("Judge something else", key="judging.other", on_click=lambda: address.go(begun=""))


def _passages(ground: EvalContext) -> Callable[[Sequence[str]], Mapping[str, Sequence[Span]]]:
    """Asked of the store once a document."""
    view = ground.view
    kept: dict[tuple[str, str, str], Sequence[Span]] = st.session_state.setdefault("judging.passages", {})

    def find(ids: Sequence[str]) -> Mapping[str, Sequence[Span]]:
        keys = {each: (view.name, view.version_key, each) for each in ids}
        if new := [each for each in ids if keys[each] not in kept]:
            found = bridge.run(chunk_offsets(ground.store, view, new))
            kept.update({keys[each]: found.get(each, ()) for each in new})
        answer = {each: kept[keys[each]] for each in ids}
        for old in list(kept)[:-KEPT]:
            del kept[old]
        return answer

    return find
