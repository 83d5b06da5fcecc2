"""Judgements in the store: who or what graded a pair, when, and on which version of the text.

Owns their table, their trash, and what makes one stale. A language model's grades are rows like any other, marked as
such; `merging` decides whether they count.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final, Literal

from sqlalchemy import ColumnElement, Executable, Row, delete, func, literal, literal_column, select, tuple_
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from core.errors import InputError, StoreError
from core.store import names, sanitize
from core.store.collections import CollectionView
from core.store.engine import Store
from core.store.passages import ItemText, read_items
from core.store.trash_entries import ID_BYTES, TrashEntry, not_in_trash, retention
from core.types import Query
from evals.judging.agreement import PairId
from evals.labels.label_checks import DEFAULT_MAX_GRADE
from evals.schema import JudgementRow as StoredJudgement
from evals.schema import WithdrawnJudgement

MODEL_PREFIX = "llm:"  # of the names of language models, and of no other judge
LONGEST_NAME = 200  # bytes of a judge's name
ROWS_A_STATEMENT = 500

KEY: Final = ("collection", "query_id", "item_id", "judge")
COLUMNS: Final = (*KEY, "grade", "is_model", "item_digest", "note", "judged_at")

Origin = Literal["labels", "human", "model"]


@dataclass(frozen=True, slots=True)
class Judgement:
    """A judge's grade of a pair. `version` is the digest of the item's text at that time."""

    query_id: str
    item_id: str
    judge: str
    grade: int
    version: bytes
    is_model: bool = False
    note: str = ""
    judged_at: datetime | None = None

    @property
    def pair(self) -> PairId:
        return self.query_id, self.item_id


@dataclass(frozen=True, slots=True)
class Task:
    """A pair to be judged, with everything that the judge sees."""

    query: Query
    item: ItemText


def judge_name(judge: str, *, is_model: bool = False) -> str:
    """The judge's name as it is stored. A person's name that looks like a model's is refused, and the reverse."""
    name = names.checked(judge, what="The judge's name", room=LONGEST_NAME)
    if name.startswith(MODEL_PREFIX) != is_model:
        raise InputError(
            f"The name {judge!r} does not fit: language models sign as {MODEL_PREFIX}MODEL, and nobody else does."
        )
    return name


# -- saved, undone, read ---------------------------------------------------------------------------------------------


async def save_judgements(store: Store, collection: str, judgements: Sequence[Judgement]) -> list[Judgement]:
    """Store judgements, all or none. Those that they replace, of the same judges and pairs, are returned."""
    rows: dict[tuple[str, str, str], dict[str, object]] = {}
    for each in judgements:
        for part in each.pair:
            if not sanitize.storable(part):
                raise InputError(f"The id {part!r:.80} holds what cannot be stored.")
        if isinstance(each.grade, bool) or not 0 <= each.grade <= DEFAULT_MAX_GRADE:
            raise InputError(f"The grade {each.grade} is not one: 0 (not relevant) to {DEFAULT_MAX_GRADE} are.")
        judge = judge_name(each.judge, is_model=each.is_model)
        rows[*each.pair, judge] = _row(collection, replace(each, judge=judge, note=sanitize.cleaned(each.note)))
    table, replaced, keys, values = StoredJudgement, list[Judgement](), sorted(rows), list(rows.values())
    async with store.begin() as connection:
        for at in range(0, len(rows), ROWS_A_STATEMENT):
            some = tuple_(table.query_id, table.item_id, table.judge).in_(keys[at : at + ROWS_A_STATEMENT])
            before = await connection.execute(select(table.__table__).where(table.collection == collection, some))
            replaced += [_read(row) for row in before]
        for at in range(0, len(rows), ROWS_A_STATEMENT):
            await connection.execute(_upsert(values[at : at + ROWS_A_STATEMENT]))
    return replaced


def _row(collection: str, each: Judgement) -> dict[str, object]:
    table = StoredJudgement
    # The clock's time and not the transaction's, so that the order of judgements is known; and just after the judge's
    # last one where the clock was put back.
    last = select(func.max(table.judged_at) + literal(timedelta(microseconds=1)))
    last = last.where(table.collection == collection, table.judge == each.judge)
    return {
        "collection": collection,
        "query_id": each.query_id,
        "item_id": each.item_id,
        "judge": each.judge,
        "grade": each.grade,
        "is_model": each.is_model,
        "item_digest": each.version,
        "note": each.note,
        "judged_at": each.judged_at or func.greatest(func.clock_timestamp(), last.scalar_subquery()),
    }


def _upsert(rows: list[dict[str, object]]) -> Executable:
    statement = insert(StoredJudgement).values(rows)
    changed = {name: statement.excluded[name] for name in ("grade", "is_model", "item_digest", "note", "judged_at")}
    return statement.on_conflict_do_update(index_elements=["collection", "query_id", "item_id", "judge"], set_=changed)


async def undo(store: Store, collection: str, judge: str, *, before: Sequence[Judgement] = ()) -> Judgement | None:
    """Move the judge's last judgement into the trash; None if there is none.

    `before` is what `save_judgements` returned for it: an earlier grade of that pair is stored again.
    """
    table = StoredJudgement
    async with store.begin() as connection:
        mine = select(table.__table__).where(table.collection == collection, table.judge == judge)
        last = mine.order_by(table.judged_at.desc(), table.query_id.desc(), table.item_id.desc()).limit(1)
        row = (await connection.execute(last.with_for_update())).one_or_none()
        if row is None:
            return None
        undone = _read(row)
        at = (table.collection == collection, table.judge == judge)
        await connection.execute(
            delete(table).where(*at, table.query_id == undone.query_id, table.item_id == undone.item_id)
        )
        withdrawn = {name: getattr(row, name) for name in COLUMNS} | {"until": func.now() + literal(retention())}
        await connection.execute(insert(WithdrawnJudgement).values(withdrawn))
        if earlier := [_row(collection, each) for each in before if (each.pair, each.judge) == (undone.pair, judge)]:
            await connection.execute(_upsert(earlier))
    return undone


# -- the trash -------------------------------------------------------------------------------------------------------


async def withdrawn_entries(store: Store) -> list[TrashEntry]:
    """The judgements in the trash, one entry for each judge, collection and day."""
    table = WithdrawnJudgement
    day: ColumnElement[datetime] = literal_column("date_trunc('day', withdrawn_at, 'UTC')")
    last, size = func.max(table.withdrawn_at), func.sum(func.pg_column_size(literal_column("withdrawn_judgements")))
    totals = select(table.collection, table.judge, day, func.count(), size, last, func.max(table.until))
    async with store.begin(read_only=True) as connection:
        rows = await connection.execute(totals.group_by(table.collection, table.judge, day))
        return [
            TrashEntry(
                hashlib.blake2b(f"{collection}\n{judge}\n{start}".encode(), digest_size=ID_BYTES).hexdigest(),
                "judgements",
                judge,
                collection,
                count,
                int(size),
                judge,
                end,
                until,
                {"from": start, "to": end},
            )
            for collection, judge, start, count, size, end, until in rows
        ]


def _of_entry(entry: TrashEntry) -> tuple[ColumnElement[bool], ...]:
    table, period = WithdrawnJudgement, entry.details
    during = table.withdrawn_at.between(period["from"], period["to"])
    return table.collection == entry.collection, table.judge == entry.name, during


async def restore(connection: AsyncConnection, entry: TrashEntry) -> int:
    """Restore the judgements of an entry, the last of each pair; returns how many stay in the trash.

    A pair that the judge has graded again since keeps its new grade.
    """
    current, old = StoredJudgement, WithdrawnJudgement
    graded = select(current.judge).where(*(getattr(current, name) == getattr(old, name) for name in KEY)).exists()
    removed = delete(old).where(*_of_entry(entry), ~graded).returning(*old.__table__.columns)
    ordered = sorted(await connection.execute(removed), key=lambda row: row.key)
    rows = {(row.query_id, row.item_id): row for row in ordered}
    left = int(await connection.scalar(select(func.count()).select_from(old).where(*_of_entry(entry))) or 0)
    if not rows:
        raise not_in_trash(entry) if not left else StoreError(f"{entry.name} has graded all of these again since.")
    restored = insert(current).values([{name: getattr(row, name) for name in COLUMNS} for row in rows.values()])
    stored = await connection.execute(restored.on_conflict_do_nothing().returning(current.item_id))
    if len(stored.all()) != len(rows):
        raise StoreError(f"{entry.name} graded one of these at this moment. Bring them back again.")
    return left


async def destroy(connection: AsyncConnection, entry: TrashEntry) -> bool:
    """Delete the judgements of an entry for good; whether there were any."""
    return bool((await connection.execute(delete(WithdrawnJudgement).where(*_of_entry(entry)))).rowcount)


async def copy_to(connection: AsyncConnection, collection: str, other: str, until: datetime) -> None:
    """Copy the judgements that a collection had at that time to another collection."""
    values = [literal(other) if name == "collection" else StoredJudgement.__table__.c[name] for name in COLUMNS]
    rows = select(*values).where(StoredJudgement.collection == collection, StoredJudgement.judged_at <= until)
    added = insert(StoredJudgement).from_select(COLUMNS, rows, include_defaults=False)
    await connection.execute(added.on_conflict_do_nothing())


async def load(store: Store, collection: str) -> list[Judgement]:
    """All judgements of a collection, by query, item and judge."""
    table = StoredJudgement
    wanted = select(table.__table__).where(table.collection == collection)
    async with store.begin(read_only=True) as connection:
        rows = await connection.execute(wanted.order_by(table.query_id, table.item_id, table.judge))
        return [_read(row) for row in rows]


def _read(row: Row[Any]) -> Judgement:
    read = row._mapping
    named = {name: read[name] for name in ("query_id", "item_id", "judge", "grade", "is_model", "note", "judged_at")}
    return Judgement(**named, version=bytes(read["item_digest"]))


@dataclass(frozen=True, slots=True)
class JudgementStatus:
    """The judgements that count, and the stale ones, whose text has changed or gone since."""

    current: tuple[Judgement, ...]
    stale: tuple[Judgement, ...]

    def sentence(self) -> str:
        if not self.stale:
            return f"{len(self.current)} judgements, all on the texts as they are."
        return (
            f"{len(self.stale)} of {len(self.current) + len(self.stale)} judgements are stale: their documents have "
            "changed or gone. They count for nothing until somebody looks again."
        )


async def judgement_status(store: Store, view: CollectionView) -> JudgementStatus:
    """All judgements of a collection, compared with its present texts."""
    stored = await load(store, view.name)
    items = await read_items(store, view, {each.item_id for each in stored})
    current = {item.id: item.version for item in items.values()}
    return JudgementStatus(
        tuple(each for each in stored if current.get(each.item_id) == each.version),
        tuple(each for each in stored if current.get(each.item_id) != each.version),
    )


async def change_mark(store: Store, collection: str) -> str:
    """A text that changes with every judgement of the collection."""
    table = StoredJudgement
    wanted = select(func.count(), func.max(table.judged_at), func.sum(table.grade + 1))
    async with store.begin(read_only=True) as connection:
        row = (await connection.execute(wanted.where(table.collection == collection))).one()
        return " ".join(map(str, row))


async def judged_by_others(store: Store, collection: str, judge: str) -> set[PairId]:
    """The pairs that other people have judged, stale judgements included."""
    table = StoredJudgement
    others = (table.collection == collection, table.judge != judge, ~table.is_model)
    async with store.begin(read_only=True) as connection:
        rows = await connection.execute(select(table.query_id, table.item_id).where(*others))
        return {(row.query_id, row.item_id) for row in rows}
