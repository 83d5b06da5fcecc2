"""One document after the other to grade: the component, and the session behind it."""

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
from evals.evaluation.context import EvalContext
from evals.judging.agreement import PairId
from evals.judging.judgements import Task
from evals.judging.llm_judge import SCALE
from workbench.components import cards, feedback, job_progress, url_state
from workbench.components.theme import asset
from workbench.screens.judge import side as judging_side
from workbench.services import cost_notice as behind_sending
from workbench.services import jobs, permissions
from workbench.services import judging as judging_shown
from workbench.services import judging_session as judging_sitting
from workbench.services.cost_notice import ConsentNeeded
from workbench.services.jobs import Key
from workbench.services.judging_session import JudgingAction, JudgingSession, Pool
from workbench.services.pool_request import JudgeState
from workbench.services.snippets import marked

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
class Desk:
    """A sitting as one window has it. `passages` gives where those of some documents begin and end."""

    key: str
    sitting: JudgingSession
    lists: bool
    passages: Callable[[Sequence[str]], Mapping[str, Sequence[Span]]] = field(repr=False)
    suggests: str = ""
    suggest: Callable[[PairId], None] = lambda _: None


def draw_queue(desk: Desk) -> None:
    """What is to be judged, and what went wrong with the last act."""
    if (problem := st.session_state.pop(PROBLEM, None)) is not None:
        feedback.draw_error(problem)

    def heard() -> None:
        if (given := st.session_state[desk.key].get("acts")) is not None:
            take(desk, given)

    _component(key=desk.key, data=shown(desk), on_acts_change=heard)


# -- what it is told ---------------------------------------------------------------------------------------------------


def take(desk: Desk, given: Mapping[str, Any]) -> None:
    """Do what the page says and was not done yet: it says each thing until it is answered. In a callback."""
    token, before = str(given["token"]), st.session_state.get(HEARD, {})
    last = before["n"] if before.get("token") == token else 0
    for each in given["acts"]:
        if each["n"] <= last:
            continue
        last = int(each["n"])
        st.session_state[HEARD] = {"token": token, "n": last}  # done or failed, it is answered
        try:
            _do(desk, each)
        except Exception as error:
            st.session_state[PROBLEM] = error
            if not isinstance(error, RankbookError):
                break


def _do(desk: Desk, each: Mapping[str, Any]) -> None:
    query, item = each["pair"]
    if each["do"] == "suggest":
        desk.suggest((str(query), str(item)))
        return
    if each["do"] not in ("grade", "skip", "undo"):
        raise InputError(f"{each['do']!r:.40} is nothing that can be done to a document here.")
    grade = int(each.get("grade", 0))
    if grade not in SCALE:
        raise InputError(f"There is no grade {grade}: 0 (not relevant) to {max(SCALE)} are.")
    note = " ".join(str(each.get("note", "")).split())[:LONGEST_NOTE]
    act = JudgingAction(each["do"], (str(query), str(item)), grade, note)
    bridge.run(desk.sitting.take(act))


# -- what it shows -----------------------------------------------------------------------------------------------------


def shown(desk: Desk) -> Plain:
    """All that the component is given."""
    sitting = desk.sitting
    tasks = sitting.together() if desk.lists else _ahead(sitting.left())
    spans = desk.passages([task.item.id for task in tasks]) if not desk.lists else {}
    return {
        "lists": desk.lists,
        "scale": [[grade, WORDS[grade], meaning] for grade, meaning in SCALE.items()],
        "tasks": [_task(desk, task, spans.get(task.item.id, ())) for task in tasks],
        "progress": _progress(desk),
        "said": sitting.said,
        "nothing": "Nothing is left in this sitting."
        if sitting.tasks
        else f"Nothing to judge. {sitting.found.sentence}",
        "heard": st.session_state.get(HEARD, {"token": "", "n": 0}),
        "suggests": desk.suggests,
    }


def _ahead(tasks: Sequence[Task]) -> list[Task]:
    """The first, and those after it while they are not too long."""
    taken, letters = list(tasks[:1]), 0
    for task in tasks[1:AHEAD]:
        letters += len(task.item.text)
        if letters > AHEAD_LETTERS:
            break
        taken.append(task)
    return taken


def _progress(desk: Desk) -> Plain:
    sitting = desk.sitting
    beside = []
    if desk.lists:
        at, queries = sitting.queries
        beside.append(f"query {at} of {queries}")
    if sitting.skipped:
        beside.append(f"{len(sitting.skipped)} skipped")
    if sitting.elsewhere:
        beside.append(f"{len(sitting.elsewhere)} judged by others meanwhile")
    if (seconds := sitting.seconds_left) and sitting.left():
        beside.append(f"about {minutes(seconds)} left")
    every = len(sitting.tasks) - len(sitting.elsewhere - sitting.grades.keys())
    return {"done": len(sitting.grades), "all": every, "beside": beside}


def minutes(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds >= 90 else "1 min"


def _task(desk: Desk, task: Task, passages: Sequence[Span]) -> Plain:
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
        "passages": _hits(text, keywords, passages),
        "cut": f"{len(task.item.text) - len(text):,}" if len(text) < len(task.item.text) else "",
        "grade": given.grade if given else None,
        "note": given.note if given else "",
        "skipped": (task.query.id, task.item.id) in desk.sitting.skipped,
    }


def pieces(text: str, keywords: Sequence[str], passages: Sequence[Span] = ()) -> list[list[Any]]:
    """The text cut where marks begin and end, and where passages begin: each piece with whether it is marked, and with
    the number of the passage that begins there, 0 for none.
    """
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


def _hits(text: str, keywords: Sequence[str], passages: Sequence[Span]) -> list[int]:
    """In each passage, how many words are marked."""
    return [sum(found for _, found in marked(text[start:end], keywords)) for start, end in passages]


KEPT = 200  # documents whose passages a session remembers


def draw(ground: EvalContext, mark: str, asked: JudgeState) -> None:
    """The sitting of that judge and pool; while its runs are made, how far they are."""
    key: Key = ("sitting", mark, *asked.pool)
    work = partial(begun, ground, asked)
    found: JudgingSession | None = job_progress.result_with_consent(
        "judging", key, "Preparing the sitting", work, shared=True
    )
    if found is not None:
        _sitting(key, ground, asked, found)


def _sitting(key: Key, ground: EvalContext, asked: JudgeState, sitting: JudgingSession) -> None:
    st.html(f'<p class="rb-summary">{html.escape(told(asked, sitting))}</p>')
    name, way = judging_side.model() if permissions.may_edit(ground.store) else ("", "")
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
    if sends := await behind_sending.for_runs(here, entries, split, allowed=allowed):
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
    draw_queue(desk)
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
            st.button("Judge something else", key="judging.other", on_click=lambda: url_state.go(begun=""))


def _passages(ground: EvalContext) -> Callable[[Sequence[str]], Mapping[str, Sequence[Span]]]:
    """Asked of the store once a document."""
    view = ground.view
    kept: dict[tuple[str, str, str], Sequence[Span]] = st.session_state.setdefault("judging.passages", {})

    def find(ids: Sequence[str]) -> Mapping[str, Sequence[Span]]:
        keys = {each: (view.name, view.version_key, each) for each in ids}
        if new := [each for each in ids if keys[each] not in kept]:
            found = bridge.run(judging_shown.passages(ground.store, view, new))
            kept.update({keys[each]: found.get(each, ()) for each in new})
        answer = {each: kept[keys[each]] for each in ids}
        for old in list(kept)[:-KEPT]:
            del kept[old]
        return answer

    return find
