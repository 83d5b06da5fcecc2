"""Documents, chunks, queries and labels of a collection, a page at a time, filtered by the server. Draws nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, Generic, TypeVar

from sqlalchemy import Select, and_, func, or_, select

from core.errors import InputError
from core.store.collections import CollectionView
from core.store.engine import Store
from core.store.names import ITEMS
from core.store.resolve_target import documents as documents_of
from core.store.schema import ItemRow, any_id, chunk_table
from core.types import Metadata, Query
from evals.schema import QuerySet, StoredLabel, StoredQuery
from evals.types import DEFAULT_QUERY_SET

T = TypeVar("T")
Of = tuple[str, str]  # a collection, and one of its query sets
ROWS: Final = 25  # on a page
COUNTED: Final = 10_000  # further on, counting and paging would cost more than a narrower filter
LONGEST_TEXT: Final = 500_000  # characters of a document that a page shows


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Some of what was found. `total` stops at COUNTED."""

    rows: tuple[T, ...]
    number: int
    total: int

    @property
    def pages(self) -> int:
        return max(1, -(-self.total // ROWS))

    @property
    def told(self) -> str:
        """`26-50 of 215`."""
        if not self.total:
            return ""
        first = (self.number - 1) * ROWS + 1
        many = f"more than {COUNTED:,}" if self.total > COUNTED else f"{self.total:,}"
        return f"{first:,}\u2013{first + len(self.rows) - 1:,} of {many}"


@dataclass(frozen=True, slots=True)
class Listed:
    """A document in the list. `answers` counts the labels that call it relevant."""

    id: str
    title: str
    answers: int = 0


@dataclass(frozen=True, slots=True)
class Band:
    """A chunk's place in its document's text."""

    ordinal: int
    start: int
    end: int
    level: str = "passage"
    heading_path: tuple[str, ...] = ()
    page: int | None = None


@dataclass(frozen=True, slots=True)
class Piece:
    """Text between two boundaries: the chunks that it is part of, and those that begin with it."""

    text: str
    within: tuple[int, ...] = ()
    begins: tuple[Band, ...] = ()


@dataclass(frozen=True, slots=True)
class Judgement:
    """A label, from either side: what it is about, and how relevant that is."""

    id: str
    text: str
    kind: str
    grade: int
    split: str


@dataclass(frozen=True, slots=True)
class Read:
    """A document with its chunks and labels. `cut` says that the text goes on."""

    id: str
    title: str
    metadata: Metadata
    pieces: tuple[Piece, ...]
    chunks: int
    cut: bool
    judged: tuple[Judgement, ...]


@dataclass(frozen=True, slots=True)
class Asking:
    """A query in the list, with how many documents are judged relevant, and how many at all."""

    query: Query
    relevant: int
    judged: int


# -- documents ---------------------------------------------------------------------------------------------------------


async def documents(
    store: Store, view: CollectionView, find: str, number: int, query_set: str = DEFAULT_QUERY_SET
) -> Page[Listed]:
    """Those whose id or title holds the text, in the order of ids."""
    items = documents_of(store, view)
    listed = items.details.subquery()
    wanted = select(listed.c.id, listed.c.title)
    if find.strip():
        wanted = wanted.where(_holds(find.strip(), listed.c.id, listed.c.title))
    async with store.begin(items.namespace, read_only=True) as connection:
        total, number = await _counted(connection, wanted, number)
        rows = (await connection.execute(_cut(wanted.order_by(listed.c.id), number))).all()
    answers = await _answers(store, (view.name, query_set), [row.id for row in rows])
    return Page(tuple(Listed(row.id, row.title, answers.get(row.id, 0)) for row in rows), number, total)


def _holds(find: str, *columns: Any) -> Any:
    return or_(*(column.icontains(find, autoescape=True) for column in columns))


async def _counted(connection: Any, wanted: Select[Any], number: int) -> tuple[int, int]:
    """How many there are, counted no further than is told; and the page, which must be one that is there."""
    counted = select(func.count()).select_from(wanted.limit(COUNTED + 1).subquery())
    total = int(await connection.scalar(counted) or 0)
    return total, min(number, max(1, -(-total // ROWS)))


def _cut(ordered: Select[Any], number: int) -> Select[Any]:
    return ordered.limit(ROWS).offset((number - 1) * ROWS)


async def _answers(store: Store, of: Of, ids: Sequence[str]) -> dict[str, int]:
    counted = (
        select(StoredLabel.item_id, func.count(StoredLabel.query_id.distinct()).label("answers"))
        .join(QuerySet, QuerySet.key == StoredLabel.set_key)
        .where(*_set(of), StoredLabel.item_id == any_id(ids), StoredLabel.grade > 0)
        .group_by(StoredLabel.item_id)
    )
    async with store.begin(read_only=True) as connection:
        return {row.item_id: row.answers for row in await connection.execute(counted)}


async def document(
    store: Store, view: CollectionView, item_id: str, chunks: str, query_set: str = DEFAULT_QUERY_SET
) -> Read:
    """A document in full, cut where the chunks of that set begin and end; in one piece without a set."""
    items = documents_of(store, view)
    async with store.begin(items.namespace, read_only=True) as connection:
        row = (await connection.execute(items.described([item_id]))).first()
    if row is None:
        raise InputError(f"{view.name!r} has no document {item_id!r} any more. Choose another one from the list.")
    bands = [] if view.row.attached is not None or chunks == ITEMS else await _bands(store, view, item_id, chunks)
    shown = row.text[:LONGEST_TEXT]
    judged = await _judged(store, (view.name, query_set), item_id)
    return Read(
        row.item_id, row.title, row.metadata or {}, pieces(shown, bands), len(bands), len(shown) < len(row.text), judged
    )


async def _bands(store: Store, view: CollectionView, item_id: str, chunks: str) -> list[Band]:
    table = chunk_table(view.chunk_set(chunks).key)
    of_item = select(ItemRow.key).where(ItemRow.id == item_id).scalar_subquery()
    wanted = select(
        table.c.ordinal, table.c.start_at, table.c.end_at, table.c.level, table.c.heading_path, table.c.page_first
    )
    async with store.begin(view.namespace, read_only=True) as connection:
        rows = await connection.execute(wanted.where(table.c.item_key == of_item).order_by(table.c.ordinal))
        return [
            Band(row.ordinal, row.start_at, row.end_at, row.level, tuple(row.heading_path), row.page_first)
            for row in rows
        ]


def pieces(text: str, bands: Iterable[Band]) -> tuple[Piece, ...]:
    """The text cut at every boundary. Parents only begin somewhere: their children are what stands in the text."""
    reaching = [band for band in bands if band.start < len(text)]
    found = sorted(reaching, key=lambda band: (band.start, band.ordinal))
    edges = sorted({0, len(text), *(edge for band in found for edge in (band.start, min(band.end, len(text))))})
    made, at, open_bands = [], 0, list[Band]()
    for start, end in pairwise(edges):
        begins = []
        while at < len(found) and found[at].start == start:
            begins.append(found[at])
            at += 1
        open_bands = [band for band in [*open_bands, *begins] if band.end > start]
        within = tuple(band.ordinal for band in open_bands if band.level != "parent")
        made.append(Piece(text[start:end], within, tuple(begins)))
    return tuple(made) or (Piece(text),)


async def _judged(store: Store, of: Of, item_id: str) -> tuple[Judgement, ...]:
    """The queries that somebody judged it for, the best first."""
    wanted = (
        select(StoredQuery.id, StoredQuery.text, StoredQuery.kind, StoredLabel.grade, StoredLabel.split)
        .join_from(StoredLabel, QuerySet, QuerySet.key == StoredLabel.set_key)
        .join(StoredQuery, and_(StoredQuery.set_key == StoredLabel.set_key, StoredQuery.id == StoredLabel.query_id))
        .where(*_set(of), StoredLabel.item_id == item_id)
        .order_by(StoredLabel.grade.desc(), StoredQuery.id)
        .limit(COUNTED)
    )
    async with store.begin(read_only=True) as connection:
        return tuple(Judgement(*row) for row in await connection.execute(wanted))


# -- queries -----------------------------------------------------------------------------------------------------------


async def queries(
    store: Store, collection: str, find: str, number: int, query_set: str = DEFAULT_QUERY_SET
) -> Page[Asking]:
    """Those whose id, text or kind holds the text, in the order of ids."""
    of = (collection, query_set)
    wanted = select(StoredQuery).join(QuerySet, QuerySet.key == StoredQuery.set_key).where(*_set(of))
    if find.strip():
        wanted = wanted.where(_holds(find.strip(), StoredQuery.id, StoredQuery.text, StoredQuery.kind))
    async with store.begin(read_only=True) as connection:
        total, number = await _counted(connection, wanted, number)
        rows = (await connection.execute(_cut(wanted.order_by(StoredQuery.id), number))).all()
    counts = await _label_counts(store, of, [row.id for row in rows])
    asking = (
        Asking(Query(row.id, row.text, row.kind, tuple(row.tags), row.weight), *counts.get(row.id, (0, 0)))
        for row in rows
    )
    return Page(tuple(asking), number, total)


async def _label_counts(store: Store, of: Of, ids: Sequence[str]) -> dict[str, tuple[int, int]]:
    judged = StoredLabel.item_id.distinct()
    counted = (
        select(StoredLabel.query_id, func.count(judged).filter(StoredLabel.grade > 0), func.count(judged))
        .join(QuerySet, QuerySet.key == StoredLabel.set_key)
        .where(*_set(of), StoredLabel.query_id == any_id(ids))
        .group_by(StoredLabel.query_id)
    )
    async with store.begin(read_only=True) as connection:
        return {query_id: (relevant, count) for query_id, relevant, count in await connection.execute(counted)}


async def query(
    store: Store, view: CollectionView, query_id: str, query_set: str = DEFAULT_QUERY_SET
) -> tuple[Query, tuple[Judgement, ...]]:
    """A query with the documents that were judged for it, the best first, under their titles."""
    of = (view.name, query_set)
    wanted = select(StoredQuery).join(QuerySet, QuerySet.key == StoredQuery.set_key)
    labels = (
        select(StoredLabel.item_id, StoredLabel.grade, StoredLabel.split)
        .join(QuerySet, QuerySet.key == StoredLabel.set_key)
        .where(*_set(of), StoredLabel.query_id == query_id)
        .order_by(StoredLabel.grade.desc(), StoredLabel.item_id)
        .limit(COUNTED)
    )
    async with store.begin(read_only=True) as connection:
        row = (await connection.execute(wanted.where(*_set(of), StoredQuery.id == query_id))).first()
        if row is None:
            raise InputError(f"{view.name!r} has no query {query_id!r} any more. Choose another one from the list.")
        judged = (await connection.execute(labels)).all()
    titles = await _titles(store, view, [each.item_id for each in judged])
    found = Query(row.id, row.text, row.kind, tuple(row.tags), row.weight)
    return found, tuple(Judgement(each.item_id, titles.get(each.item_id, ""), "", *each[1:]) for each in judged)


async def _titles(store: Store, view: CollectionView, ids: Sequence[str]) -> dict[str, str]:
    items = documents_of(store, view)
    listed = items.described(ids).subquery()
    async with store.begin(items.namespace, read_only=True) as connection:
        rows = await connection.execute(select(listed.c.id, listed.c.title))
        return {row.id: row.title for row in rows}


def _set(of: Of) -> tuple[Any, ...]:
    collection, name = of
    return QuerySet.collection == collection, QuerySet.name == name
