"""The judging itself: one document after the other in a component, and the session behind it."""

from __future__ import annotations

import asyncio
import html
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import streamlit as st

from core import bridge
from core.errors import InputError, RankbookError
from core.expansion.base import FUNCTION_WORDS, words_in
from core.progress import Listener
from core.store.browse import chunk_offsets
from evals.evaluation.context import EvalContext
from evals.judging.agreement import PairId
from evals.judging.judgements import Task
from evals.judging.llm_judge import SCALE
from workbench.components import cards, feedback, job_progress
from workbench.components.theme import asset
from workbench.components.url_state import Address
from workbench.screens.judge import side as judge_side
from workbench.services import cost_notice, jobs, judging, judging_session, permissions
from workbench.services.cost_notice import ConsentNeeded
from workbench.services.jobs import Key
from workbench.services.judging_session import JudgingAction, JudgingPool, JudgingSession
from workbench.services.pool_request import JudgeState
from workbench.services.snippets import marked

address = Address("judging", JudgeState)

Plain = dict[str, Any]
Span = tuple[int, int]
WORDS: Final = {0: "Not relevant", 1: "Related", 2: "Answers in part", 3: "Answers"}
AHEAD: Final = 3  # documents that the page has before they are asked for, so that the next one is there at once
AHEAD_LETTERS: Final = 60_000
LISTED_LETTERS: Final = 6_000  # of each text in a list
LONGEST_NOTE: Final = 1000
PROBLEM: Final = "judging.problem"
HEARD: Final = "judging.heard"

_component = st.components.v2.component(
    "rankbook.judging",
    html='<div class="judging"></div>',
    css=f"{asset('components/assets/shared.css')}\n{asset('screens/judge/judging.css')}",
    js=asset("screens/judge/judging.js"),
)


@dataclass(frozen=True, slots=True)
class JudgingDesk:
    """A session in one window. `passages` gives where those of some documents begin and end."""

    key: str
    sitting: JudgingSession
    lists: bool
    passages: Callable[[Sequence[str]], Mapping[str, Sequence[Span]]] = field(repr=False)
    suggests: str = ""
    suggest: Callable[[PairId], None] = lambda _: None


def draw_queue(desk: JudgingDesk) -> None:
    """The next tasks, and the error of the last action."""
    if (problem := st.session_state.pop(PROBLEM, None)) is not None:
        feedback.draw_error(problem)

    def heard() -> None:
        if (given := st.session_state[desk.key].get("acts")) is not None:
            take(desk, given)

    _component(key=desk.key, data=shown(desk), on_acts_change=heard)


# -- its actions ---------------------------------------------------------------------------------------------------


def take(desk: JudgingDesk, given: Mapping[str, Any]) -> None:
    """Perform the component's actions that were not performed yet: it repeats each until it is answered. A callback."""
    token, before = str(given["token"]), st.session_state.get(HEARD, {})
    last = before["n"] if before.get("token") == token else 0
    for each in given["acts"]:
        if each["n"] <= last:
            continue
        last = int(each["n"])
        st.session_state[HEARD] = {"token": token, "n": last}  # done or failed, it is answered
        try:
            _perform(desk, each)
        except Exception as error:
            st.session_state[PROBLEM] = error
            if not isinstance(error, RankbookError):
                break


def _perform(desk: JudgingDesk, each: Mapping[str, Any]) -> None:
    pair = (str(each["pair"][0]), str(each["pair"][1]))
    if each["do"] == "suggest":
        desk.suggest(pair)
        return
    if each["do"] not in ("grade", "skip", "undo"):
        raise InputError(f"{each['do']!r:.40} is nothing that can be done to a document here.")
    grade = int(each.get("grade", 0))
    if grade not in SCALE:
        raise InputError(f"There is no grade {grade}: 0 (not relevant) to {max(SCALE)} are.")
    note = " ".join(str(each.get("note", "")).split())[:LONGEST_NOTE]
    bridge.run(desk.sitting.take(JudgingAction(each["do"], pair, grade, note)))


# -- its data -----------------------------------------------------------------------------------------------------


def shown(desk: JudgingDesk) -> Plain:
    """The data of the component."""
    session = desk.sitting
    if desk.lists:
        tasks = session.together()
    else:  # the first task, and those after it while their texts are short enough
        left, letters = session.left(), 0
        tasks = left[:1]
        for task in left[1:AHEAD]:
            letters += len(task.item.text)
            if letters > AHEAD_LETTERS:
                break
            tasks.append(task)
    spans = desk.passages([task.item.id for task in tasks]) if not desk.lists else {}
    beside = []
    if desk.lists:
        at, queries = session.queries
        beside.append(f"query {at} of {queries}")
    if session.skipped:
        beside.append(f"{len(session.skipped)} skipped")
    if session.elsewhere:
        beside.append(f"{len(session.elsewhere)} judged by others meanwhile")
    if (seconds := session.seconds_left) and session.left():
        beside.append(f"about {minutes(seconds)} left")
    every = len(session.tasks) - len(session.elsewhere - session.grades.keys())
    nothing = "Nothing is left in this sitting." if session.tasks else f"Nothing to judge. {session.found.sentence}"
    return {
        "lists": desk.lists,
        "scale": [[grade, WORDS[grade], meaning] for grade, meaning in SCALE.items()],
        "tasks": [_task(desk, task, spans.get(task.item.id, ())) for task in tasks],
        "progress": {"done": len(session.grades), "all": every, "beside": beside},
        "said": session.said,
        "nothing": nothing,
        "heard": st.session_state.get(HEARD, {"token": "", "n": 0}),
        "suggests": desk.suggests,
    }


def minutes(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds >= 90 else "1 min"


def _task(desk: JudgingDesk, task: Task, passages: Sequence[Span]) -> Plain:
    keywords = [word for word in words_in(task.query.text) if word not in FUNCTION_WORDS]
    text = task.item.text[:LISTED_LETTERS] if desk.lists else task.item.text
    given = desk.sitting.grades.get((task.query.id, task.item.id))
    return {
        "pair": [task.query.id, task.item.id],
        "queryId": task.query.id,
        "query": task.query.text,
        "about": [each for each in (task.query.kind, *task.query.tags) if each],
        "title": cards.title_of(task.item.title, task.item.id),
        "pieces": pieces(text, keywords, passages),
        "passages": [sum(found for _, found in marked(text[start:end], keywords)) for start, end in passages],
        "cut": f"{len(task.item.text) - len(text):,}" if len(text) < len(task.item.text) else "",
        "grade": given.grade if given else None,
        "note": given.note if given else "",
        "skipped": (task.query.id, task.item.id) in desk.sitting.skipped,
    }


def pieces(text: str, keywords: Sequence[str], passages: Sequence[Span] = ()) -> list[list[Any]]:
    """The text cut at marks and at the beginnings of passages: (text, marked, number of the passage or 0)."""
    numbers: dict[int, int] = {}
    for number, (start, _) in enumerate(passages, start=1):
        numbers.setdefault(start, number)
    made: list[list[Any]] = []
    at = 0
    for segment, found in marked(text, keywords):
        cuts = sorted(start - at for start in numbers if at < start < at + len(segment))
        for begin, end in zip([0, *cuts], [*cuts, len(segment)], strict=True):
            made.append([segment[begin:end], found, numbers.get(at + begin, 0)])
        at += len(segment)
    return made


KEPT = 200  # documents whose passages a session remembers


def draw(ctx: EvalContext, mark: str, state: JudgeState) -> None:
    """The session of that judge and pool, or the progress of its runs."""
    key: Key = ("sitting", mark, *state.pool)
    work = partial(begun, ctx, state)
    found: JudgingSession | None = job_progress.result_with_consent(
        "judging", key, "Preparing the sitting", work, shared=True
    )
    if found is not None:
        st.html(f'<p class="rb-summary">{html.escape(told(state, found))}</p>')
        name, way = judge_side.model() if permissions.may_edit(ctx.store) else ("", "")
        desk, side = st.columns([9, 5], gap="medium")
        with desk:
            _desk(key, ctx, found, state, name)
        with side:
            if name:
                judge_side.suggestion(found, name)
            judge_side.follow(key, ctx, found)
            if way:
                judge_side.without_model(way)


async def begun(
    ctx: EvalContext, state: JudgeState, listener: Listener, token: asyncio.Event, *, allowed: bool
) -> JudgingSession | ConsentNeeded:
    """The runs, made or found, and their queue; where making them sends something, after consent."""
    here = ctx.until(token)
    split = here.any_split(state.split)
    entries = [await judging.resolve_entry(here, state.split, name) for name in state.entries]
    if sends := await cost_notice.for_runs(here, entries, split, allowed=allowed):
        return sends
    runs = await judging.runs_of(here, entries, split, listener)
    pool = JudgingPool(tuple(runs), split, state.spec(), state.most, state.lists)
    return await judging_session.open_session(here.store, here.view, state.judge, pool)


def told(asked: JudgeState, session: JudgingSession) -> str:
    """The session's title and remarks on its queue."""
    found, names = session.found, " and ".join(judging.distinct_names(session.pool.runs))
    said = [f"{session.judge} judges {asked.split!r} of {asked.collection!r}: {names}."]
    if found.stale:
        said.append(f"{found.stale} judgements are stale, their documents having changed: those pairs are asked anew.")
    if found.gone:
        said.append(f"{found.gone} documents are no longer there and were left out.")
    return " ".join(said)


@st.fragment
def _desk(key: Key, ctx: EvalContext, session: JudgingSession, state: JudgeState, model: str) -> None:
    suggests = f"Ask {model} what it would give. Its answer is shown below and never counts." if model else ""
    view = ctx.view
    kept: dict[tuple[str, str, str], Sequence[Span]] = st.session_state.setdefault("judging.passages", {})

    def passages(ids: Sequence[str]) -> Mapping[str, Sequence[Span]]:
        keys = {each: (view.name, view.version_key, each) for each in ids}
        if new := [each for each in ids if keys[each] not in kept]:
            found = bridge.run(chunk_offsets(ctx.store, view, new))
            kept.update({keys[each]: found.get(each, ()) for each in new})
        answer = {each: kept[keys[each]] for each in ids}
        for old in list(kept)[:-KEPT]:
            del kept[old]
        return answer

    desk = JudgingDesk("judging.desk", session, state.lists, passages, suggests, judge_side.asking(session))
    draw_queue(desk)
    if not session.left():
        with st.container(horizontal=True):
            if session.skipped:
                label = f"Go back to the {len(session.skipped)} skipped"
                st.button(label, key="judging.skipped", on_click=session.return_to_skipped, icon=":material/replay:")
            if session.tasks and st.button("Go on with the next", key="judging.next", icon=":material/arrow_forward:"):
                jobs.forget(key)
                st.rerun()
            if not session.tasks:
                st.button("Judge something else", key="judging.other", on_click=lambda: address.go(begun=""))
