"""The candidates of a place: the set-ups among which a winner is chosen, so that each verdict must hold among all.

A place is a collection in one state, its queries with their labels, and a split. Candidates are all set-ups that were
scored there as they ship, each by its newest run. A cell of a suite's grid is none until somebody evaluates it by
itself. A set-up can be set aside; how many were, after their scores were seen, is counted.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from sqlalchemy import ColumnElement, delete, func, select
from sqlalchemy.dialects.postgresql import insert

from core.store.engine import Store
from core.store.names import TRASH_MARK
from core.store.schema import TrashRow
from core.variant import Variant
from evals.runs.run_store import RunSummary, variant_of_row
from evals.runs.types import CandidateRun, CandidateSet, Run, RunSubject
from evals.schema import RunRow, SetUp

Evaluated = Run | RunSummary

CHOSEN, CELL, ASIDE = "chosen", "cell", "aside"
DIGITS = 32  # of a row's key


def set_up_of(variant: Variant | None, name: str) -> str:
    """The key of a set-up: what a variant does, whatever its name; of another engine's run its name."""
    return variant.id if variant is not None else f"run {name}"


async def enter(store: Store, runs: Iterable[Run], cells: Collection[str] = ()) -> None:
    """Note the set-ups of these runs: those with ids among `cells` as cells of a grid, all others as chosen."""
    rows = {
        (variant := run.variant).id: _row(run.subject, variant.id, CELL if variant.id in cells else CHOSEN)
        for run in runs
        if run.variant is not None and not run.depth
    }
    if not rows or not store.keeps:
        return
    statement = insert(SetUp)
    chosen = statement.excluded.status == CHOSEN
    taken = statement.on_conflict_do_update(
        index_elements=["key"], set_={"status": CHOSEN}, where=chosen & (SetUp.status == CELL)
    )
    in_order = sorted(rows.values(), key=lambda row: str(row["key"]))  # so that two at once do not wait for each other
    async with store.begin() as connection:
        await connection.execute(taken, in_order)


async def set_aside(store: Store, run: Evaluated, *, back: bool = False) -> None:
    """Take the run's set-up out of the candidates over these queries, or `back` among them."""
    set_up = set_up_of(run.variant, run.name)
    async with store.begin() as connection:
        if back:
            there = (*_over(run.subject), SetUp.set_up == set_up)
            await connection.execute(delete(SetUp).where(*there, SetUp.status == ASIDE))
            return
        scores = await connection.scalar(select(RunRow.scores).where(RunRow.id == run.id))
        row = _row(run.subject, set_up, ASIDE) | {"seen": bool(scores)}
        statement = insert(SetUp).values(row)
        changed = {"status": ASIDE, "seen": statement.excluded.seen, "changed_at": func.now()}
        await connection.execute(statement.on_conflict_do_update(index_elements=["key"], set_=changed))


async def is_aside(store: Store, run: Evaluated) -> bool:
    """Whether the run's set-up is set aside."""
    there = (*_over(run.subject), SetUp.set_up == set_up_of(run.variant, run.name), SetUp.status == ASIDE)
    async with store.begin(read_only=True) as connection:
        return await connection.scalar(select(SetUp.key).where(*there).limit(1)) is not None


async def place_of(store: Store, runs: Sequence[Run], metrics: Sequence[str]) -> CandidateSet:
    """The candidates that are not among these runs, with their scores by each metric."""
    subject = runs[0].subject
    in_table = {set_up_of(run.variant, run.name) for run in runs}
    same = (  # what ships, over the same documents, queries and labels
        RunRow.collection_version == subject.version,
        RunRow.content == subject.content,
        RunRow.query_set == subject.query_set,
        RunRow.query_set_digest == subject.digest,
        RunRow.split == subject.split,
        RunRow.depth == 0,
    )
    newest_first = (RunRow.used_at.desc(), RunRow.id)
    by_query = (RunRow.scores[f"{metric} by query"].label(f"scores {at}") for at, metric in enumerate(metrics))
    kept_runs = select(RunRow.id, RunRow.name, RunRow.variant, *by_query).order_by(*newest_first)
    in_trash = (
        select(RunRow.name, RunRow.variant, RunRow.scores)
        .join(TrashRow, RunRow.collection == TRASH_MARK + TrashRow.id)
        .where(TrashRow.collection == subject.collection, TrashRow.kind.in_(("run", "runs")), *same)
        .order_by(*newest_first)
    )
    async with store.begin(read_only=True) as connection:
        known = {row.set_up: row for row in await connection.execute(select(SetUp).where(*_over(subject)))}
        kept = list(await connection.execute(kept_runs.where(RunRow.collection == subject.collection, *same)))
        deleted = list(await connection.execute(in_trash))
    newest: dict[str, Any] = {}
    for row in kept:
        variant = variant_of_row(row)
        newest.setdefault(set_up_of(variant, row.name), (row, variant))
    trashed = {set_up_of(variant_of_row(row), row.name): bool(row.scores) for row in deleted}
    lost = [scored for set_up, scored in trashed.items() if set_up not in newest and set_up not in in_table]
    gone = [known[each] for each in newest if each in known and known[each].status == ASIDE and each not in in_table]
    others = tuple(
        CandidateRun(row.name, variant, dict(zip(metrics, row[3:], strict=True)))
        for set_up, (row, variant) in newest.items()
        if set_up not in in_table and (set_up not in known or known[set_up].status == CHOSEN)
    )
    cells = frozenset(set_up for set_up, row in known.items() if row.status == CELL)
    return CandidateSet(others, cells, len(gone), len(lost), sum(row.seen for row in gone) + sum(lost))


def _over(subject: RunSubject) -> tuple[ColumnElement[bool], ...]:
    """A set-up stays chosen, a cell, or set aside when documents or labels change."""
    return (
        SetUp.collection == subject.collection,
        SetUp.query_set == subject.query_set,
        SetUp.split == subject.split,
    )


def _row(subject: RunSubject, set_up: str, status: str) -> dict[str, Any]:
    place = (subject.collection, subject.query_set, subject.split, set_up)
    key = hashlib.blake2b(json.dumps(place).encode(), digest_size=DIGITS // 2).hexdigest()
    names = ("collection", "query_set", "split", "set_up")
    return {"key": key, **dict(zip(names, place, strict=True)), "status": status, "seen": False}
