"""The desk of a sitting: a component with keys that shows what is to be judged, and what its acts do.

Owns what a judge sees, which is neither rank nor variant. Texts are a stranger's: the component sets them with
`textContent`. What is shown and kept is the sitting's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import streamlit as st

from core import bridge
from core.errors import InputError, RankbookError
from core.expansion.base import FUNCTION_WORDS, words_in
from evals.judging.agreement import PairId
from evals.judging.judgements import Task
from evals.judging.llm_judge import SCALE
from workbench.behind.judging.sitting import JudgingAction, JudgingSession
from workbench.behind.search.marking import marked
from workbench.ui import cards, errors
from workbench.ui.theme import read

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
    css=f"{read('shared.css')}\n{read('judging/judging.css')}",
    js=read("judging/judging.js"),
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


def draw(desk: Desk) -> None:
    """What is to be judged, and what went wrong with the last act."""
    if (problem := st.session_state.pop(PROBLEM, None)) is not None:
        errors.draw(problem)

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
