"""Query sets in the store: written whole or not at all, read as plain values. Owns their tables' statements."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
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
from core.store.trash_entries import TrashEntry, new_id, restore_conflict
from core.types import Flaw, Query, Row
from evals.labels import revisions
from evals.labels.revisions import NO_CAUSE, Cause, LabelChange, LabelDifference, LabelState, rows_only_in
from evals.schema import QuerySet, StoredExclusion, StoredLabel, StoredQuery, StoredSpan
from evals.types import DEFAULT_QUERY_SET, Exclusion, Label, LabelledQueries, MergedFrom, Span

T = TypeVar("T")
LOCK = text("SELECT pg_advisory_xact_lock(hashtextextended(:of, 8))")
FLAWS_KEPT = 1000  # of each kind
FlawsByKind = Mapping[str, Sequence[Flaw]]  # the kinds are "documents", "labels", "leaks", "repeats" and "spans"


def sanitized(rows: Iterable[Row[T] | Flaw]) -> Iterator[Row[T] | Flaw]:
    """Rows as they can be stored: texts and metadata are cleaned as those of items are, broken ids become flaws."""
    for row in rows:
        yield row if isinstance(row, Flaw) else _sanitized(row)


def _sanitized(row: Row[T]) -> Row[T] | Flaw:
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
async def change_lock(store: Store, collection: str, name: str) -> AsyncIterator[None]:
    """Read a query set and store it anew as one step; others that do so meanwhile wait."""
    async with store.begin() as connection:
        await connection.execute(LOCK, {"of": f"{collection}\n{name}"})
        yield


async def keep(
    store: Store,
    collection: str,
    labelled: LabelledQueries,
    flaws_by_kind: FlawsByKind | None = None,
    *,
    checked_version: int | None = None,
    merged: MergedFrom | None = None,
    name: str = DEFAULT_QUERY_SET,
    cause: Cause = NO_CAUSE,
) -> bool:
    """Store a query set in place of the one of that name; False if its queries and labels were the same already.

    A change of a stored set is recorded as a revision. `flaws_by_kind` replaces the stored flaws of its kinds, and
    flaws of other kinds stay. `checked_version` is the version of the collection whose texts were searched for these
    queries, and `merged` the set and the judgements that this one was made of.
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
            before, was = await read_parts(connection, row.key), LabelState.of(row)
        if changed:
            row.digest, row.changed_at, row.checked_version = digest, func.now(), None
        if checked_version is not None:
            row.checked_version = checked_version
        if merged:
            row.merged_digest, row.merged_from = digest, merged.model_dump()
        new = flaws_by_kind or {}
        others = [flaw for flaw in row.flaws if flaw.get("of", "documents") not in new]
        row.flaws = others + [_plain_flaw(flaw, kind) for kind, flaws in new.items() for flaw in flaws[:FLAWS_KEPT]]
        await session.flush()
        if changed:
            await write_parts(connection, row.key, before, labelled)
        if was is not None:
            difference = LabelDifference.between(before, was, labelled, LabelState.of(row))
            change = LabelChange.between(before, labelled)
            await revisions.record(connection, row.key, change, difference, cause)
    return changed


async def find(session: AsyncSession, collection: str, name: str, *, locked: bool = False) -> QuerySet | None:
    """The set's row; `locked`, until the transaction ends."""
    wanted = select(QuerySet).where(QuerySet.collection == collection, QuerySet.name == name)
    return await session.scalar(wanted.with_for_update() if locked else wanted)


async def write_parts(connection: AsyncConnection, key: int, before: LabelledQueries, after: LabelledQueries) -> None:
    """Make the stored rows those of `after`, by writing only the rows that differ."""
    leaving, coming = rows_only_in(before, after), rows_only_in(after, before)
    for part, (table, columns) in STORED.items():
        rows = table.__table__
        of_set = delete(rows).where(rows.c.set_key == key)
        if gone := [_row_of(row) for row in leaving[part]]:
            if len(gone) == len(getattr(before, part)):
                await connection.execute(of_set)
            else:
                same = (rows.c[column] == bindparam(f"old_{column}") for column in columns)
                values = [{f"old_{column}": row[column] for column in columns} for row in gone]
                await connection.execute(of_set.where(*same), values)
        if new := [{"set_key": key, **_row_of(row)} for row in coming[part]]:
            await connection.execute(insert(rows), new)


def _row_of(value: Any) -> dict[str, Any]:
    row = asdict(value)
    if isinstance(value, Query):
        row |= {"tags": list(value.tags), "metadata": dict(value.metadata)}
    if isinstance(value, Span):
        row |= {"start_at": row.pop("start"), "end_at": row.pop("end")}
    return row


# The table of each part, and the columns that identify its rows within a set.
STORED: Final[Mapping[str, tuple[Any, tuple[str, ...]]]] = {
    "queries": (StoredQuery, ("id",)),
    "labels": (StoredLabel, ("split", "query_id", "item_id")),
    "spans": (StoredSpan, ("split", "query_id", "item_id", "start_at", "end_at", "text", "grade")),
    "exclusions": (StoredExclusion, ("query_id", "item_id")),
}


def _plain_flaw(flaw: Flaw, kind: str) -> dict[str, Any]:
    plain = {"place": str(flaw.place), "message": flaw.message, "outcome": flaw.outcome, "subject": flaw.subject}
    return {"of": kind} | {name: sanitize.cleaned(value) for name, value in plain.items()}


def are_flaws(stored: object) -> bool:
    """Whether a value has the form of stored flaws."""
    parts = {"place", "message", "outcome", "subject"}
    return isinstance(stored, list) and all(
        isinstance(each, dict)
        and parts <= {*each} <= parts | {"of"}
        and all(isinstance(value, str) for value in each.values())
        for each in stored
    )


async def load(store: Store, collection: str, *, name: str = DEFAULT_QUERY_SET) -> LabelledQueries:
    """The query set of that name; an empty one if there is none."""
    async with store.begin(read_only=True) as connection:
        row = await find(AsyncSession(connection), collection, name)
        return LabelledQueries() if row is None else await read_parts(connection, row.key)


async def read_parts(connection: AsyncConnection, key: int) -> LabelledQueries:
    """The queries, labels, spans and exclusions of the set with that key."""

    async def rows(table: Any, *columns: Any) -> Sequence[Any]:
        # Columns, because making ORM objects of ten thousand labels takes longer than fetching them.
        wanted = select(*(getattr(table, each) for each in columns)).where(table.set_key == key)
        return (await connection.execute(wanted)).all()

    place = ("start_at", "end_at", "text", "split", "grade")
    queries = await rows(StoredQuery, "id", "text", "kind", "tags", "weight", "meta")
    return LabelledQueries.ordered(
        [Query(name, text, kind, tuple(tags), weight, meta) for name, text, kind, tags, weight, meta in queries],
        [Label(*row) for row in await rows(StoredLabel, "query_id", "item_id", "grade", "split")],
        [Span(*row) for row in await rows(StoredSpan, "query_id", "item_id", *place)],
        [Exclusion(*row) for row in await rows(StoredExclusion, "query_id", "item_id")],
    )


async def merged_from(store: Store, collection: str, *, name: str) -> MergedFrom | None:
    """The origin of a set that a merge of judgements made; None if none did, or if the set was changed since."""
    async with store.begin(read_only=True) as connection:
        row = await find(AsyncSession(connection), collection, name)
        return MergedFrom.read(row.merged_from) if row is not None and row.merged_digest == row.digest else None


async def flaws(store: Store, collection: str, *, name: str = DEFAULT_QUERY_SET) -> list[dict[str, Any]]:
    """The stored flaws of the set's import."""
    async with store.begin(read_only=True) as connection:
        row = await find(AsyncSession(connection), collection, name)
        return list(row.flaws) if row else []


@dataclass(frozen=True, slots=True)
class CorpusCheck:
    """The queries (by digest) that were searched for in the collection's texts, and the version of these texts."""

    digest: bytes
    version: int | None


async def last_check(store: Store, collection: str, *, name: str = DEFAULT_QUERY_SET) -> CorpusCheck | None:
    """The last search for leaks and repeats; None if there is no such set."""
    async with store.begin(read_only=True) as connection:
        row = await find(AsyncSession(connection), collection, name)
        return CorpusCheck(bytes(row.digest), row.checked_version) if row else None


@dataclass(frozen=True, slots=True)
class QuerySetSummary:
    """A query set in one line. `labelled` counts the queries that have a label."""

    name: str
    queries: int
    labelled: int
    labels: int
    changed: datetime


async def summaries(store: Store, collection: str) -> list[QuerySetSummary]:
    """The query sets of a collection, the default one first."""

    def per_set(counted: Any, table: Any) -> Any:
        return select(counted).where(table.set_key == QuerySet.key).correlate(QuerySet).scalar_subquery()

    queries, labels = per_set(func.count(), StoredQuery), per_set(func.count(), StoredLabel)
    labelled = per_set(func.count(StoredLabel.query_id.distinct()), StoredLabel)
    wanted = (
        select(QuerySet.name, queries, labelled, labels, QuerySet.changed_at)
        .where(QuerySet.collection == collection)
        .order_by(QuerySet.name != DEFAULT_QUERY_SET, QuerySet.name)
    )
    async with store.begin(read_only=True) as connection:
        return [QuerySetSummary(*row) for row in await connection.execute(wanted)]


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
    """Move a query set with its labels into the trash. Judgements and stored runs stay."""
    known = {each.name: each for each in await summaries(store, collection)}
    if name not in known:
        raise UnknownName(f"query set of {collection!r}", name, known)
    counts = {"queries": known[name].queries, "labels": known[name].labels}
    identity, size = new_id(), 0
    async with store.begin() as connection:
        of = (QuerySet.collection == collection, QuerySet.name == name)
        moved = update(QuerySet).where(*of).values(collection=trash_mark(identity))
        if not (await connection.execute(moved)).rowcount:
            raise UnknownName(f"query set of {collection!r}", name, known)
        keys = select(QuerySet.key).where(QuerySet.collection == trash_mark(identity))
        for each in (StoredQuery, StoredLabel, StoredSpan, StoredExclusion):  # rows alone, without indexes
            bytes_of = func.sum(func.pg_column_size(literal_column(each.__tablename__)))
            rows = select(bytes_of).select_from(each).where(each.set_key.in_(keys))
            size += int(await connection.scalar(rows) or 0)
        return await trash.add_entry(
            connection, "query set", name, collection, identity=identity, size=size, by=by, details=counts
        )


async def restore(connection: AsyncConnection, entry: TrashEntry, collection: str, name: str) -> None:
    """Restore a query set from the trash, in the transaction that claims its entry."""
    name = names.checked(name, what="The query set's name")
    if await find(AsyncSession(connection), collection, name):
        raise restore_conflict(entry, f"There is a query set {name!r} of {collection!r} again.")
    row = update(QuerySet).where(QuerySet.collection == trash_mark(entry.id))
    try:
        await connection.execute(row.values(collection=collection, name=name))
    except IntegrityError:  # made at this moment
        raise restore_conflict(entry, f"There is a query set {name!r} of {collection!r} again.") from None


async def count(store: Store, collection: str, *, name: str = DEFAULT_QUERY_SET) -> int:
    """How many queries there are."""
    of = (QuerySet.collection == collection, QuerySet.name == name)
    counted = select(func.count()).select_from(StoredQuery).join(QuerySet, StoredQuery.set_key == QuerySet.key)
    async with store.begin(read_only=True) as connection:
        return int(await connection.scalar(counted.where(*of)) or 0)


async def move_within(connection: AsyncConnection, collection: str, other: str) -> None:
    """Move all query sets of a collection to another one, or to an entry of the trash."""
    await connection.execute(update(QuerySet).where(QuerySet.collection == collection).values(collection=other))


async def forget(store: Store, collection: str) -> None:
    """Delete all query sets of a collection for good."""
    async with store.begin() as connection:
        await forget_within(connection, collection)


async def forget_within(connection: AsyncConnection, collection: str) -> None:
    """`forget` inside the transaction that destroys the collection."""
    await connection.execute(delete(QuerySet).where(QuerySet.collection == collection))
