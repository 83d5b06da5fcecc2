"""Judgements in the store: who or what graded a pair, when, and on which version of the text.

Owns their rows, what makes one stale, what becomes of several, and their way into labels and files. A language model's
grades are rows like any other, marked as such, and come into a result only where that is asked for.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Final, Literal

from sqlalchemy import ColumnElement, Executable, Row, delete, func, literal, literal_column, select, tuple_
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from core.errors import InputError, StoreError
from core.store import gate, names
from core.store.collections import View
from core.store.engine import Store
from core.store.levels import documents
from core.store.trash_entries import ID_BYTES, Entry, not_in_trash, retention
from core.types import Query
from evals.judging.agreement import PairId, settled_grade
from evals.labels import DEFAULT_MAX_GRADE, Label
from evals.merged_from import Way
from evals.query_sets import Labelled
from evals.splits import Grades
from evals.store import Judgement as StoredJudgement
from evals.store import WithdrawnJudgement

MODEL_PREFIX = "llm:"  # how a language model signs; nobody else may
LONGEST_NAME = 200  # bytes of a judge's name
IDS_A_STATEMENT = 500
ROWS_A_STATEMENT = 500

KEY: Final = ("collection", "query_id", "item_id", "judge")
COLUMNS: Final = (*KEY, "grade", "is_model", "item_digest", "note", "judged_at")

Origin = Literal["labels", "human", "model"]


@dataclass(frozen=True, slots=True)
class Judgement:
    """A grade, given by a judge to a pair whose text was then as `version` says."""

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
class ShownItem:
    """What a judge sees of an item. `version` changes when title or text do; metadata are not what is judged."""

    id: str
    title: str
    text: str

    @property
    def version(self) -> bytes:
        return hashlib.blake2b(f"{self.title}\x00{self.text}".encode(), digest_size=16).digest()


@dataclass(frozen=True, slots=True)
class Task:
    """A pair to be judged, with all that the judge sees of it."""

    query: Query
    item: ShownItem


async def shown(store: Store, view: View, ids: Iterable[str]) -> dict[str, ShownItem]:
    """Those of the items that the collection holds, in an attached one too."""
    items, wanted = documents(store, view), sorted(set(ids))
    found: dict[str, ShownItem] = {}
    for at in range(0, len(wanted), IDS_A_STATEMENT):
        async with store.begin(items.namespace, read_only=True) as connection:
            rows = await connection.execute(items.described(wanted[at : at + IDS_A_STATEMENT]))
            found |= {row.id: ShownItem(row.id, row.title or "", row.text or "") for row in rows}
    return found


def signed(judge: str, *, is_model: bool = False) -> str:
    """The judge's name as it is kept, or a refusal: a person's grade and a model's must never look alike."""
    name = names.checked(judge, what="The judge's name", room=LONGEST_NAME)
    if name.startswith(MODEL_PREFIX) != is_model:
        raise InputError(
            f"The name {judge!r} does not fit: language models sign as {MODEL_PREFIX}MODEL, and nobody else does."
        )
    return name


# -- given, taken back, read ----------------------------------------------------------------------------------------


async def give(store: Store, collection: str, given: Sequence[Judgement]) -> list[Judgement]:
    """Keep judgements, all or none. What the same judges said of the same pairs before is replaced, and returned."""
    rows = {(*each.pair, each.judge): _row(collection, each) for each in map(_checked, given)}
    async with store.begin() as connection:
        before = await _of_pairs(connection, collection, sorted(rows))
        for at in range(0, len(rows), ROWS_A_STATEMENT):
            await connection.execute(_upsert(list(rows.values())[at : at + ROWS_A_STATEMENT]))
    return before


def _checked(each: Judgement) -> Judgement:
    for part in each.pair:
        if not gate.storable(part):
            raise InputError(f"The id {part!r:.80} holds what cannot be stored.")
    if isinstance(each.grade, bool) or not 0 <= each.grade <= DEFAULT_MAX_GRADE:
        raise InputError(f"The grade {each.grade} is not one: 0 (not relevant) to {DEFAULT_MAX_GRADE} are.")
    return replace(each, judge=signed(each.judge, is_model=each.is_model), note=gate.cleaned(each.note))


def _row(collection: str, each: Judgement) -> dict[str, object]:
    return {
        "collection": collection,
        "query_id": each.query_id,
        "item_id": each.item_id,
        "judge": each.judge,
        "grade": each.grade,
        "is_model": each.is_model,
        "item_digest": each.version,
        "note": each.note,
        "judged_at": each.judged_at or _latest(collection, each.judge),
    }


def _latest(collection: str, judge: str) -> ColumnElement[datetime]:
    """The clock's time and not the transaction's, so that of two judgements one is the last; just after the last one
    where the clock was put back.
    """
    table = StoredJudgement
    mine = select(func.max(table.judged_at) + literal(timedelta(microseconds=1)))
    last = mine.where(table.collection == collection, table.judge == judge).scalar_subquery()
    return func.greatest(func.clock_timestamp(), last)


def _upsert(rows: list[dict[str, object]]) -> Executable:
    statement = insert(StoredJudgement).values(rows)
    changed = {name: statement.excluded[name] for name in ("grade", "is_model", "item_digest", "note", "judged_at")}
    return statement.on_conflict_do_update(index_elements=["collection", "query_id", "item_id", "judge"], set_=changed)


async def undo(store: Store, collection: str, judge: str, *, before: Sequence[Judgement] = ()) -> Judgement | None:
    """Take back the last judgement that this judge gave, into the trash; None where there is none.

    `before` is what `give` returned then: an earlier grade of that pair stands again.
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
        kept = {name: getattr(row, name) for name in COLUMNS} | {"until": func.now() + literal(retention())}
        await connection.execute(insert(WithdrawnJudgement).values(kept))
        if earlier := [_row(collection, each) for each in before if (each.pair, each.judge) == (undone.pair, judge)]:
            await connection.execute(_upsert(earlier))
    return undone


# -- in the trash ----------------------------------------------------------------------------------------------------


async def withdrawn(store: Store) -> list[Entry]:
    """The judgements in the trash, an entry for each judge, collection and day."""
    table = WithdrawnJudgement
    day: ColumnElement[datetime] = literal_column("date_trunc('day', withdrawn_at, 'UTC')")
    last, size = func.max(table.withdrawn_at), func.sum(func.pg_column_size(literal_column("withdrawn_judgements")))
    totals = select(table.collection, table.judge, day, func.count(), size, last, func.max(table.until))
    async with store.begin(read_only=True) as connection:
        rows = await connection.execute(totals.group_by(table.collection, table.judge, day))
        return [
            Entry(
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


def _of_entry(entry: Entry) -> tuple[ColumnElement[bool], ...]:
    table, period = WithdrawnJudgement, entry.details
    during = table.withdrawn_at.between(period["from"], period["to"])
    return table.collection == entry.collection, table.judge == entry.name, during


async def restore(connection: AsyncConnection, entry: Entry) -> int:
    """The judgements of an entry as they were, of each pair the last; how many stay in the trash.

    A pair that this judge has graded again since keeps that grade.
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


async def destroy(connection: AsyncConnection, entry: Entry) -> bool:
    """Judgements of an entry for good; whether there were any."""
    return bool((await connection.execute(delete(WithdrawnJudgement).where(*_of_entry(entry)))).rowcount)


async def copy_to(connection: AsyncConnection, collection: str, other: str, until: datetime) -> None:
    """The judgements of a collection that were given until then, once more as judgements of another."""
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


async def _of_pairs(
    connection: AsyncConnection, collection: str, keys: Sequence[tuple[str, str, str]]
) -> list[Judgement]:
    table, found = StoredJudgement, []
    for at in range(0, len(keys), ROWS_A_STATEMENT):
        these = tuple_(table.query_id, table.item_id, table.judge).in_(keys[at : at + ROWS_A_STATEMENT])
        rows = await connection.execute(select(table.__table__).where(table.collection == collection, these))
        found += [_read(row) for row in rows]
    return found


def _read(row: Row[Any]) -> Judgement:
    read = row._mapping
    named = {name: read[name] for name in ("query_id", "item_id", "judge", "grade", "is_model", "note", "judged_at")}
    return Judgement(**named, version=bytes(read["item_digest"]))


@dataclass(frozen=True, slots=True)
class Standing:
    """The judgements that hold, and those whose text has changed or gone since."""

    current: tuple[Judgement, ...]
    stale: tuple[Judgement, ...]

    def sentence(self) -> str:
        if not self.stale:
            return f"{len(self.current)} judgements, all on the texts as they are."
        return (
            f"{len(self.stale)} of {len(self.current) + len(self.stale)} judgements are stale: their documents have "
            "changed or gone. They count for nothing until somebody looks again."
        )


async def standing(store: Store, view: View) -> Standing:
    """All judgements of a collection, held against its texts."""
    given = await load(store, view.name)
    now = {item.id: item.version for item in (await shown(store, view, (each.item_id for each in given))).values()}
    return Standing(
        tuple(each for each in given if now.get(each.item_id) == each.version),
        tuple(each for each in given if now.get(each.item_id) != each.version),
    )


# -- what becomes of several ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Resolved:
    """The one grade of a pair: whose, and whether people's or a model's."""

    grade: int
    origin: Origin
    judges: tuple[str, ...]


def resolved(judgements: Iterable[Judgement], *, models: bool = False) -> dict[PairId, Resolved]:
    """One grade a pair: the median of people's, the lower of the middle two.

    A model's grades count only where `models` asks for them, and only for pairs that no person has graded.
    """
    by_pair: dict[PairId, list[Judgement]] = defaultdict(list)
    for each in judgements:
        by_pair[each.pair].append(each)
    found = {}
    for pair, several in sorted(by_pair.items()):
        people = [each for each in several if not each.is_model]
        if counted := people or (several if models else []):
            grade = settled_grade([each.grade for each in counted])
            found[pair] = Resolved(grade, "human" if people else "model", tuple(sorted(each.judge for each in counted)))
    return found


def by_judge(judgements: Iterable[Judgement]) -> dict[str, dict[PairId, int]]:
    """Each judge's grades, as agreement wants them."""
    found: dict[str, dict[PairId, int]] = defaultdict(dict)
    for each in judgements:
        found[each.judge][each.pair] = each.grade
    return dict(found)


def with_judgements(grades: Grades, settled: Mapping[PairId, Resolved]) -> dict[str, dict[str, int]]:
    """Labels and judgements as one; of a pair that has both, the judgement, which is the later word."""
    united = {query: dict(given) for query, given in grades.items()}
    for (query, item), each in settled.items():
        united.setdefault(query, {})[item] = each.grade
    return united


@dataclass(frozen=True, slots=True)
class Merged:
    """A query set with judgements among its labels, and where the label of each pair of the split comes from.

    `ways` has the splits that judgements came into, this one and those that an earlier merge had made.
    """

    labelled: Labelled
    origins: Mapping[PairId, Origin]
    left_out: int  # judgements of queries that the set does not have
    ways: Mapping[str, Way] = field(default_factory=dict)

    @property
    def counts(self) -> dict[Origin, int]:
        return dict(sorted(Counter(self.origins.values()).items()))


def merged(
    labelled: Labelled, settled: Mapping[PairId, Resolved], *, split: str = "test", overrule: bool = False
) -> Merged:
    """Judgements as labels of a split. A pair that is labelled there keeps its label, unless judgements `overrule`."""
    known = {query.id for query in labelled.queries}
    labels = {(label.query_id, label.item_id): label for label in labelled.labels if label.split == split}
    origins: dict[PairId, Origin] = dict.fromkeys(labels, "labels")
    for pair, each in settled.items():
        if pair[0] in known and (overrule or pair not in labels):
            labels[pair], origins[pair] = Label(*pair, each.grade, split), each.origin
    others = [label for label in labelled.labels if label.split != split]
    ordered = sorted([*others, *labels.values()], key=lambda label: (label.split, label.query_id, label.item_id))
    left_out = sum(query not in known for query, _ in settled)
    return Merged(replace(labelled, labels=tuple(ordered)), dict(sorted(origins.items())), left_out)


def qrels(grades: Mapping[PairId, int], form: Literal["trec", "beir"] = "trec") -> str:
    """A judgement file: TREC's four columns, or BEIR's three with a header. Ids with blanks fit only the second."""
    if form == "beir":
        rows = [f"{query}\t{item}\t{grade}" for (query, item), grade in sorted(grades.items())]
        return "\n".join(["query-id\tcorpus-id\tscore", *rows, ""])
    for each in (part for pair in grades for part in pair):
        if len(each.split()) != 1 or each != each.strip():
            raise InputError(
                f"The id {each!r:.80} holds a blank, and TREC's columns are parted by blanks. Export as BEIR's TSV."
            )
    return "".join(f"{query} 0 {item} {grade}\n" for (query, item), grade in sorted(grades.items()))
