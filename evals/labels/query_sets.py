"""Query sets in the store: kept whole or not at all, read back as plain values."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, fields, replace
from datetime import datetime
from typing import Any, Final, TypeVar

from sqlalchemy import bindparam, delete, func, insert, literal_column, select, text, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession

from core.errors import UnknownName
from core.store import names, sanitize, trash
from core.store.engine import Store
from core.store.names import trash_mark
from core.store.trash_entries import TrashEntry, name_taken, new_id
from core.types import Flaw, Query, Row
from evals.labels import revisions
from evals.labels.revisions import UNSAID, Cause, LabelChange, LabelDifference, LabelState, rows_only_in
from evals.schema import QuerySet, StoredExclusion, StoredLabel, StoredQuery, StoredSpan
from evals.types import DEFAULT_QUERY_SET, Exclusion, Label, LabelledQueries, MergedFrom, Span

T = TypeVar("T")
CHANGING = text("SELECT pg_advisory_xact_lock(hashtextextended(:of, 8))")
FLAWS_KEPT = 1000  # of each kind
Found = Mapping[str, Sequence[Flaw]]  # flaws by what was looked at: "documents", "labels", "leaks", "repeats"


def admitted(rows: Iterable[Row[T] | Flaw]) -> Iterator[Row[T] | Flaw]:
    """Rows as they can be stored: texts and metadata cleaned as those of items are, a row with a broken id left out."""
    for row in rows:
        yield row if isinstance(row, Flaw) else _admitted(row)


def _admitted(row: Row[T]) -> Row[T] | Flaw:
    changes: dict[str, Any] = {}
    for each in fields(row.value):  # type: ignore[arg-type]
        value = getattr(row.value, each.name)
        if isinstance(value, str) and not sanitize.storable(value):
            if each.name.endswith("id"):
                return Flaw(row.place, f"the {each.name} {value!r:.80} holds what cannot be stored: change it")
            changes[each.name] = sanitize.cleaned(value)
        elif isinstance(value, tuple):
            changes[each.name] = tuple(sanitize.cleaned(str(part)) for part in value)
        elif isinstance(value, Mapping):
            try:
                changes[each.name] = sanitize.cleaned_metadata(value)
            except sanitize.Rejected as reason:
                return Flaw(row.place, str(reason))
    return Row(replace(row.value, **changes), row.place) if changes else row  # type: ignore[type-var]


@asynccontextmanager
async def changing(store: Store, collection: str, name: str) -> AsyncIterator[None]:
    """What is read of a set and kept anew, as one step: whoever else does so meanwhile waits."""
    async with store.begin() as connection:
        await connection.execute(CHANGING, {"of": f"{collection}\n{name}"})
        yield


async def keep(
    store: Store,
    collection: str,
    labelled: LabelledQueries,
    found: Found | None = None,
    *,
    checked_version: int | None = None,
    merged: MergedFrom | None = None,
    name: str = DEFAULT_QUERY_SET,
    cause: Cause = UNSAID,
) -> bool:
    """Put a query set in the place of the one of that name. False where queries and labels are the same.

    What that changes of a set that was there is kept as a revision.

    `found` takes the place of the flaws of its kinds; what was found by a look that was not taken this time stands.
    `checked_version` is the collection's, where its texts have been looked through for these queries; `merged` says
    of which other set and judgements all of it was made.
    """
    digest = labelled.digest()
    async with store.begin() as connection:
        session = AsyncSession(connection)
        row = await find(session, collection, name, locked=True)
        changed = row is None or bytes(row.digest) != digest
        before, was = LabelledQueries(), None
        if row is None:
            row = QuerySet(collection=collection, name=name, digest=digest, flaws=[])
            session.add(row)
        elif changed:
            before, was = await parts(session, row), LabelState.of(row)
        if changed:
            row.digest, row.changed_at, row.checked_version = digest, func.now(), None
        if checked_version is not None:
            row.checked_version = checked_version
        if merged:
            row.merged_digest, row.merged_from = digest, merged.model_dump()
        row.flaws = _with(row.flaws, found or {})
        await session.flush()
        if changed:
            await write_parts(connection, row.key, before, labelled)
        if was is not None:
            difference = LabelDifference.between(before, was, labelled, LabelState.of(row))
            change = LabelChange.between(before, labelled)
            await revisions.record(connection, row.key, change, difference, cause)
    return changed


def _with(kept: Sequence[dict[str, Any]], found: Found) -> list[dict[str, Any]]:
    """The kept flaws, those of the kinds that were found anew excepted; and the new ones."""
    standing = [flaw for flaw in kept if flaw.get("of", "documents") not in found]
    return standing + [_plain(flaw, kind) for kind, flaws in found.items() for flaw in flaws[:FLAWS_KEPT]]


async def find(session: AsyncSession, collection: str, name: str, *, locked: bool = False) -> QuerySet | None:
    """The set's row; locked, nobody else changes it until the transaction ends."""
    wanted = select(QuerySet).where(QuerySet.collection == collection, QuerySet.name == name)
    return await session.scalar(wanted.with_for_update() if locked else wanted)


async def write_parts(connection: AsyncConnection, key: int, before: LabelledQueries, after: LabelledQueries) -> None:
    """Make the stored rows those of `after`. Only what differs is written: a corrected label is one row of many."""
    leaving, coming = rows_only_in(before, after), rows_only_in(after, before)
    for part, (table, columns, row_of) in STORED.items():
        rows = table.__table__
        of_set = delete(rows).where(rows.c.set_key == key)
        if gone := [row_of(row) for row in leaving[part]]:
            if len(gone) == len(getattr(before, part)):
                await connection.execute(of_set)
            else:
                same = (rows.c[column] == bindparam(f"old_{column}") for column in columns)
                values = [{f"old_{column}": row[column] for column in columns} for row in gone]
                await connection.execute(of_set.where(*same), values)
        if new := [{"set_key": key, **row_of(row)} for row in coming[part]]:
            await connection.execute(insert(rows), new)


def _query_row(query: Query) -> dict[str, Any]:
    row = asdict(query)
    return {**row, "tags": list(query.tags), "metadata": dict(query.metadata)}


def _span_row(span: Span) -> dict[str, Any]:
    row = asdict(span)
    return {**row, "start_at": row.pop("start"), "end_at": row.pop("end")}


# By part: its table, the columns that tell its rows apart within a set, and how a value becomes a row.
STORED: Final[Mapping[str, tuple[Any, tuple[str, ...], Callable[[Any], dict[str, Any]]]]] = {
    "queries": (StoredQuery, ("id",), _query_row),
    "labels": (StoredLabel, ("split", "query_id", "item_id"), asdict),
    "spans": (StoredSpan, ("split", "query_id", "item_id", "start_at", "end_at", "text", "grade"), _span_row),
    "exclusions": (StoredExclusion, ("query_id", "item_id"), asdict),
}


def _plain(flaw: Flaw, kind: str) -> dict[str, Any]:
    plain = {"place": str(flaw.place), "message": flaw.message, "outcome": flaw.outcome, "subject": flaw.subject}
    return {"of": kind} | {name: sanitize.cleaned(value) for name, value in plain.items()}


def are_flaws(kept: object) -> bool:
    """Whether that has the form of kept flaws."""
    return isinstance(kept, list) and all(isinstance(each, dict) and _is_flaw(each) for each in kept)


def _is_flaw(kept: Mapping[str, object]) -> bool:
    parts = {"place", "message", "outcome", "subject"}
    return parts <= {*kept} <= parts | {"of"} and all(isinstance(value, str) for value in kept.values())


async def load(store: Store, collection: str, *, name: str = DEFAULT_QUERY_SET) -> LabelledQueries:
    """The query set of that name, empty where there is none."""
    async with store.begin(read_only=True) as connection:
        session = AsyncSession(connection)
        found = await find(session, collection, name)
        return LabelledQueries() if found is None else await parts(session, found)


async def parts(session: AsyncSession, found: QuerySet) -> LabelledQueries:
    """What the set holds."""
    return LabelledQueries.ordered(
        [_query(row) for row in await session.scalars(_of(StoredQuery, found))],
        [Label(*row) for row in await session.execute(_of(StoredLabel, found, *LABEL))],
        [Span(*row) for row in await session.execute(_of(StoredSpan, found, *SPAN))],
        [Exclusion(*row) for row in await session.execute(_of(StoredExclusion, found, *EXCLUSION))],
    )


async def merged_from(store: Store, collection: str, *, name: str) -> MergedFrom | None:
    """Of what a merge of judgements made the set; None where none did, or somebody changed it since."""
    async with store.begin(read_only=True) as connection:
        found = await find(AsyncSession(connection), collection, name)
        if found is None or found.merged_digest != found.digest:
            return None
        return MergedFrom.read(found.merged_from)


async def flaws(store: Store, collection: str, *, name: str = DEFAULT_QUERY_SET) -> list[dict[str, Any]]:
    """What import found wrong, as it was kept."""
    async with store.begin(read_only=True) as connection:
        found = await find(AsyncSession(connection), collection, name)
        return list(found.flaws) if found else []


@dataclass(frozen=True, slots=True)
class Checked:
    """Which queries were held against the texts, and against which version of these."""

    digest: bytes
    version: int | None


async def checked(store: Store, collection: str, *, name: str = DEFAULT_QUERY_SET) -> Checked | None:
    """The last time that leaks and repeats were looked for; None where there is no such set."""
    async with store.begin(read_only=True) as connection:
        found = await find(AsyncSession(connection), collection, name)
        return Checked(bytes(found.digest), found.checked_version) if found else None


@dataclass(frozen=True, slots=True)
class QuerySetSummary:
    """A query set in one line. `labelled` counts the queries that have a label."""

    name: str
    queries: int
    labelled: int
    labels: int
    changed: datetime


async def listed(store: Store, collection: str) -> list[QuerySetSummary]:
    """The query sets of a collection, the usual one first."""
    queries = _each(func.count(), StoredQuery)
    labels = _each(func.count(), StoredLabel)
    labelled = _each(func.count(StoredLabel.query_id.distinct()), StoredLabel)
    asked = (
        select(QuerySet.name, queries, labelled, labels, QuerySet.changed_at)
        .where(QuerySet.collection == collection)
        .order_by(QuerySet.name != DEFAULT_QUERY_SET, QuerySet.name)
    )
    async with store.begin(read_only=True) as connection:
        return [QuerySetSummary(*row) for row in await connection.execute(asked)]


def _each(counted: Any, parts: Any) -> Any:
    return select(counted).where(parts.set_key == QuerySet.key).correlate(QuerySet).scalar_subquery()


async def label_counts(store: Store) -> dict[str, int]:
    """How many labels each collection has, in all its query sets."""
    counted = (
        select(QuerySet.collection, func.count().label("labels"))
        .join(StoredLabel, StoredLabel.set_key == QuerySet.key)
        .group_by(QuerySet.collection)
    )
    async with store.begin(read_only=True) as connection:
        return {row.collection: row.labels for row in await connection.execute(counted)}


async def drop(store: Store, collection: str, name: str, *, by: str = "") -> TrashEntry:
    """One query set with its labels, into the trash. Judgements and kept runs stay."""
    known = {each.name: each for each in await listed(store, collection)}
    if name not in known:
        raise UnknownName(f"query set of {collection!r}", name, known)
    counts = {"queries": known[name].queries, "labels": known[name].labels}
    identity = new_id()
    async with store.begin() as connection:
        of = (QuerySet.collection == collection, QuerySet.name == name)
        moved = update(QuerySet).where(*of).values(collection=trash_mark(identity))
        if not (await connection.execute(moved)).rowcount:
            raise UnknownName(f"query set of {collection!r}", name, known)
        size = await _size(connection, trash_mark(identity))
        return await trash.add_entry(
            connection, "query set", name, collection, identity=identity, size=size, by=by, details=counts
        )


async def restore(connection: AsyncConnection, entry: TrashEntry, collection: str, name: str) -> None:
    """A query set out of the trash, in the transaction that claims its entry."""
    name = names.checked(name, what="The query set's name")
    if await find(AsyncSession(connection), collection, name):
        raise name_taken(entry, f"There is a query set {name!r} of {collection!r} again.")
    row = update(QuerySet).where(QuerySet.collection == trash_mark(entry.id))
    try:
        await connection.execute(row.values(collection=collection, name=name))
    except IntegrityError:  # made at this moment
        raise name_taken(entry, f"There is a query set {name!r} of {collection!r} again.") from None


async def _size(connection: AsyncConnection, collection: str) -> int:
    """Roughly, in bytes: of the rows by themselves, without indexes."""
    total = 0
    for each in (StoredQuery, StoredLabel, StoredSpan, StoredExclusion):
        bytes_of = func.sum(func.pg_column_size(literal_column(each.__tablename__)))
        keys = select(QuerySet.key).where(QuerySet.collection == collection)
        total += int(await connection.scalar(select(bytes_of).select_from(each).where(each.set_key.in_(keys))) or 0)
    return total


async def count(store: Store, collection: str, *, name: str = DEFAULT_QUERY_SET) -> int:
    """How many queries there are."""
    of = (QuerySet.collection == collection, QuerySet.name == name)
    counted = select(func.count()).select_from(StoredQuery).join(QuerySet, StoredQuery.set_key == QuerySet.key)
    async with store.begin(read_only=True) as connection:
        return int(await connection.scalar(counted.where(*of)) or 0)


# Read as columns: to make an object of the mapper's of each of ten thousand labels takes longer than to fetch them.
EXCLUSION: Final = (StoredExclusion.query_id, StoredExclusion.item_id)
LABEL: Final = (StoredLabel.query_id, StoredLabel.item_id, StoredLabel.grade, StoredLabel.split)
SPAN: Final = (
    StoredSpan.query_id,
    StoredSpan.item_id,
    StoredSpan.start_at,
    StoredSpan.end_at,
    StoredSpan.text,
    StoredSpan.split,
    StoredSpan.grade,
)


def _of(table: Any, query_set: QuerySet, *columns: Any) -> Any:
    return select(*columns or (table,)).where(table.set_key == query_set.key)


def _query(row: StoredQuery) -> Query:
    return Query(row.id, row.text, row.kind, tuple(row.tags), row.weight, row.meta)


async def move_within(connection: AsyncConnection, collection: str, other: str) -> None:
    """All query sets of a collection belong to another from now on, or to an entry of the trash."""
    await connection.execute(update(QuerySet).where(QuerySet.collection == collection).values(collection=other))


async def forget(store: Store, collection: str) -> None:
    """All query sets of a collection, for good."""
    async with store.begin() as connection:
        await forget_within(connection, collection)


async def forget_within(connection: AsyncConnection, collection: str) -> None:
    """As `forget`, in the transaction that destroys the collection."""
    await connection.execute(delete(QuerySet).where(QuerySet.collection == collection))
