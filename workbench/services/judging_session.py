"""A sitting in the browser: one judge, one queue; what is graded, passed over, taken back, and what comes next.

Owns the order of a sitting and how far it is. Each grade is kept at once by `evals.judging.judgements`; nothing here is
needed to find it again. Works in the bridge's loop alone. Knows no Streamlit.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from sqlalchemy import select

from core.errors import InputError
from core.store.collections import CollectionView
from core.store.engine import Store
from core.store.passages import read_items
from evals.judging import judgements as judging
from evals.judging.agreement import PairId
from evals.judging.judgements import Judgement, Task
from evals.judging.queue import Queue, QueueSpec, build_queue
from evals.runs.types import Run
from evals.schema import JudgementRow as StoredJudgement
from evals.types import QuerySplit

RECENT: Final = 20  # documents that the pace is told by
PAUSE: Final = 180.0  # seconds; longer is no reading but a pause


@dataclass(frozen=True, slots=True)
class JudgingAction:
    """What a judge did. A pair that was only passed over has no grade."""

    do: Literal["grade", "skip", "undo"]
    pair: PairId = ("", "")
    grade: int = 0
    note: str = ""


@dataclass(frozen=True, slots=True)
class _Done:
    pair: PairId
    skipped: bool
    before: tuple[Judgement, ...] = ()  # what a grade took the place of


@dataclass(frozen=True, slots=True)
class Pool:
    """What a sitting is of. `most` is how many documents it holds; with `lists`, those of a query stand together."""

    runs: tuple[Run, ...]
    split: QuerySplit
    spec: QueueSpec
    most: int
    lists: bool = False


class JudgingSession:
    """`tasks` in the order in which they are shown. `grades` are those that were given in this sitting."""

    def __init__(self, store: Store, view: CollectionView, judge: str, pool: Pool, found: Queue) -> None:
        self.store, self.view, self.judge = store, view, judging.judge_name(judge)
        self.pool, self.found = pool, found
        self.tasks = {(task.query.id, task.item.id): task for task in found.tasks}
        self.grades: dict[PairId, Judgement] = {}
        self.skipped: set[PairId] = set()
        self.elsewhere: set[PairId] = set()  # judged by others since
        self.said = ""  # what the last act came to
        self._done: list[_Done] = []
        self._known: set[PairId] = set()
        self._moments = [time.monotonic()]
        self._turn = asyncio.Lock()

    # -- what there is -------------------------------------------------------------------------------------------------

    def left(self) -> list[Task]:
        """What is still to be judged, next first."""
        done = self.grades.keys() | self.skipped | self.elsewhere
        return [task for pair, task in list(self.tasks.items()) if pair not in done]

    def together(self) -> list[Task]:
        """All tasks of the query that is next, graded ones too."""
        left = self.left()
        return [task for task in list(self.tasks.values()) if left and task.query.id == left[0].query.id]

    @property
    def queries(self) -> tuple[int, int]:
        """At which query one is, counted from 1, and how many there are."""
        every, left = ({task.query.id for task in tasks} for tasks in (list(self.tasks.values()), self.left()))
        return min(len(every), len(every) - len(left) + 1), len(every)

    @property
    def seconds_left(self) -> float | None:
        """By the pace of the last documents; None while there is none."""
        gaps = [after - before for before, after in zip(self._moments, self._moments[1:], strict=False)]
        read = [gap for gap in gaps if gap < PAUSE][-RECENT:]
        return statistics.median(read) * len(self.left()) if len(read) > 2 else None

    # -- what a judge does ---------------------------------------------------------------------------------------------

    async def take(self, act: JudgingAction) -> None:
        """One after the other, whichever window they come from."""
        async with self._turn:
            if act.do == "undo":
                self.said = await self._undo()
            else:
                self.said = await (self._grade(act) if act.do == "grade" else self._skip(act))
                self._moments.append(time.monotonic())
            if not self.pool.spec.again:
                judged = await of_others(self.store, self.view.name, self.judge)
                self.elsewhere = (judged - self._known) & self.tasks.keys()

    async def begin(self) -> None:
        """Know what others have judged by now: of that, only what is stale is in the queue, and has to be asked."""
        self._known = await of_others(self.store, self.view.name, self.judge)

    def _task(self, pair: PairId) -> Task:
        if pair not in self.tasks:
            raise InputError(
                f"The document {pair[1]!r:.80} is not in this sitting any more, so its grade was not kept. "
                "Reload the page to go on with what is left."
            )
        return self.tasks[pair]

    async def _grade(self, act: JudgingAction) -> str:
        task = self._task(act.pair)
        made = Judgement(*act.pair, self.judge, act.grade, task.item.version, note=act.note)
        before = await judging.save_judgements(self.store, self.view.name, [made])
        self._done.append(_Done(act.pair, skipped=False, before=tuple(before)))
        self.grades[act.pair] = made
        self.skipped.discard(act.pair)
        return f"Kept: {act.grade} for {named(task)}"

    async def _skip(self, act: JudgingAction) -> str:
        task = self._task(act.pair)
        self.skipped.add(act.pair)
        self._done.append(_Done(act.pair, skipped=True))
        return f"Skipped: {named(task)}"

    def return_to_skipped(self) -> None:
        self.skipped.clear()
        self._done = [each for each in self._done if not each.skipped]

    async def _undo(self) -> str:
        """The last thing of this sitting; at its beginning, the last grade of the one before."""
        last = self._done.pop() if self._done else None
        if last is not None and last.skipped:
            self.skipped.discard(last.pair)
            self._first(last.pair, self.tasks[last.pair])
            return f"Back to {named(self.tasks[last.pair])}"
        before = last.before if last else ()
        undone = await judging.undo(self.store, self.view.name, self.judge, before=before)
        if undone is None:
            return "There is nothing to take back."
        if last is not None and last.pair != undone.pair:  # given in another window
            self._done.append(last)
        self._forget(undone.pair, before)
        task = await self._again(undone.pair)
        if task is None:
            return f"Taken back: {undone.grade} for {undone.item_id!r}, which is not among these queries."
        self._first(undone.pair, task)
        return f"Taken back: {undone.grade} for {named(task)}"

    def _forget(self, pair: PairId, before: Iterable[Judgement]) -> None:
        """Where an earlier grade of this sitting stands again, it is shown as such."""
        still = any(each.pair == pair and not each.skipped for each in self._done)
        earlier = next((each for each in before if each.pair == pair), None)
        if still and earlier is not None:
            self.grades[pair] = earlier
        else:
            self.grades.pop(pair, None)

    async def _again(self, pair: PairId) -> Task | None:
        if pair in self.tasks:
            return self.tasks[pair]
        item = (await read_items(self.store, self.view, [pair[1]])).get(pair[1])
        query = self.pool.split.queries.get(pair[0])
        return Task(query, item) if query and item else None

    def _first(self, pair: PairId, task: Task) -> None:
        self.tasks = {pair: task, **{each: other for each, other in self.tasks.items() if each != pair}}


def named(task: Task) -> str:
    return f"“{task.item.title.strip() or task.item.id}”"


async def opened(store: Store, view: CollectionView, judge: str, pool: Pool) -> JudgingSession:
    """The queue of that judge, as it is now."""
    found = await build_queue(store, view, pool.runs, pool.spec, judge)
    if len(found.tasks) > pool.most and not pool.lists:  # more would be needed than fit: the most telling ones
        found = await build_queue(store, view, pool.runs, pool.spec.model_copy(update={"limit": pool.most}), judge)
    if pool.lists:
        found = replace(found, tasks=by_query(found.tasks, pool.most))
    sitting = JudgingSession(store, view, judge, pool, found)
    await sitting.begin()
    return sitting


def by_query(tasks: Sequence[Task], most: int) -> tuple[Task, ...]:
    """Query by query, in the order in which they come first; no more queries once `most` are there."""
    grouped: dict[str, list[Task]] = {}
    for task in tasks:
        grouped.setdefault(task.query.id, []).append(task)
    taken: list[Task] = []
    for several in grouped.values():
        if len(taken) >= most:
            break
        taken += several
    return tuple(taken)


async def of_others(store: Store, collection: str, judge: str) -> set[PairId]:
    """The pairs that other people have judged, stale ones too."""
    table = StoredJudgement
    theirs = (table.collection == collection, table.judge != judge, ~table.is_model)
    async with store.begin(read_only=True) as connection:
        rows = await connection.execute(select(table.query_id, table.item_id).where(*theirs))
        return {(row.query_id, row.item_id) for row in rows}
