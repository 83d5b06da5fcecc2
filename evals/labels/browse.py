"""Queries and labels of a query set for people who look through them, page by page. Reads only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import and_, func, select

from core.errors import InputError
from core.store.browse import MOST_COUNTED, Page, contains, read_page
from core.store.collections import CollectionView
from core.store.engine import Store
from core.store.passages import read_titles
from core.store.schema import any_id
from core.types import Query
from evals.schema import QuerySet, StoredLabel, StoredQuery
from evals.types import DEFAULT_QUERY_SET


@dataclass(frozen=True, slots=True)
class LabelEntry:
    """A label in a list: id and text of the query, or of the document, on its other side."""

    id: str
    text: str
    kind: str
    grade: int
    split: str


@dataclass(frozen=True, slots=True)
class QueryEntry:
    """A query in a list, with how many documents are judged relevant, and how many are judged at all."""

    query: Query
    relevant: int
    judged: int


async def relevant_counts(
    store: Store, collection: str, item_ids: Sequence[str], *, name: str = DEFAULT_QUERY_SET
) -> dict[str, int]:
    """How many queries call each of these documents relevant, by its id."""
    counted = (
        select(StoredLabel.item_id, func.count(StoredLabel.query_id.distinct()).label("answers"))
        .join(QuerySet, QuerySet.key == StoredLabel.set_key)
        .where(*_set(collection, name), StoredLabel.item_id == any_id(item_ids), StoredLabel.grade > 0)
        .group_by(StoredLabel.item_id)
    )
    async with store.begin(read_only=True) as connection:
        return {row.item_id: row.answers for row in await connection.execute(counted)}


async def labels_of_document(
    store: Store, collection: str, item_id: str, *, name: str = DEFAULT_QUERY_SET
) -> tuple[LabelEntry, ...]:
    """The queries that a document was judged for, the highest grades first."""
    wanted = (
        select(StoredQuery.id, StoredQuery.text, StoredQuery.kind, StoredLabel.grade, StoredLabel.split)
        .join_from(StoredLabel, QuerySet, QuerySet.key == StoredLabel.set_key)
        .join(StoredQuery, and_(StoredQuery.set_key == StoredLabel.set_key, StoredQuery.id == StoredLabel.query_id))
        .where(*_set(collection, name), StoredLabel.item_id == item_id)
        .order_by(StoredLabel.grade.desc(), StoredQuery.id)
        .limit(MOST_COUNTED)
    )
    async with store.begin(read_only=True) as connection:
        return tuple(LabelEntry(*row) for row in await connection.execute(wanted))


async def list_queries(
    store: Store, collection: str, find: str, number: int, *, name: str = DEFAULT_QUERY_SET
) -> Page[QueryEntry]:
    """The queries whose id, text or kind contains the text, in the order of their ids."""
    wanted = select(StoredQuery).join(QuerySet, QuerySet.key == StoredQuery.set_key).where(*_set(collection, name))
    if find.strip():
        wanted = wanted.where(contains(find.strip(), StoredQuery.id, StoredQuery.text, StoredQuery.kind))
    async with store.begin(read_only=True) as connection:
        rows, number, total = await read_page(connection, wanted, StoredQuery.id, number)
        judged = StoredLabel.item_id.distinct()
        counted = (
            select(StoredLabel.query_id, func.count(judged).filter(StoredLabel.grade > 0), func.count(judged))
            .join(QuerySet, QuerySet.key == StoredLabel.set_key)
            .where(*_set(collection, name), StoredLabel.query_id == any_id([row.id for row in rows]))
            .group_by(StoredLabel.query_id)
        )
        counts = {query_id: (relevant, count) for query_id, relevant, count in await connection.execute(counted)}
    return Page(tuple(QueryEntry(_query(row), *counts.get(row.id, (0, 0))) for row in rows), number, total)


async def read_query(
    store: Store, view: CollectionView, query_id: str, *, name: str = DEFAULT_QUERY_SET
) -> tuple[Query, tuple[LabelEntry, ...]]:
    """A query with the documents that were judged for it, the highest grades first, under their titles."""
    wanted = select(StoredQuery).join(QuerySet, QuerySet.key == StoredQuery.set_key)
    labels = (
        select(StoredLabel.item_id, StoredLabel.grade, StoredLabel.split)
        .join(QuerySet, QuerySet.key == StoredLabel.set_key)
        .where(*_set(view.name, name), StoredLabel.query_id == query_id)
        .order_by(StoredLabel.grade.desc(), StoredLabel.item_id)
        .limit(MOST_COUNTED)
    )
    async with store.begin(read_only=True) as connection:
        row = (await connection.execute(wanted.where(*_set(view.name, name), StoredQuery.id == query_id))).first()
        if row is None:
            raise InputError(f"{view.name!r} has no query {query_id!r} any more. Choose another one from the list.")
        judged = (await connection.execute(labels)).all()
    titles = await read_titles(store, view, [each.item_id for each in judged])
    entries = (LabelEntry(each.item_id, titles.get(each.item_id, ""), "", each.grade, each.split) for each in judged)
    return _query(row), tuple(entries)


def _query(row: Any) -> Query:
    return Query(row.id, row.text, row.kind, tuple(row.tags), row.weight)


def _set(collection: str, name: str) -> tuple[Any, ...]:
    return QuerySet.collection == collection, QuerySet.name == name
