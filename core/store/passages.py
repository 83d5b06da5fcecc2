"""Stored chunks by their ids, and what stands around them: parents, siblings, neighbours by page, whole items.

Reads only; one statement a question, however many ids it is asked about. It ranks nothing and packs nothing. The items
themselves (chunk set 0) and attached collections have no stored chunks, so nothing comes back for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from sqlalchemy import ColumnElement, Row, and_
from sqlalchemy.ext.asyncio import AsyncConnection

from core.store import passages_sql
from core.store.attached import BETWEEN_ROWS, parts_of
from core.store.collections import View
from core.store.engine import Store
from core.store.gate import storable
from core.store.levels import documents
from core.store.passages_sql import Tables
from core.store.schema import ChunkSet, passage_of
from core.types import Metadata


@dataclass(frozen=True, slots=True)
class StoredChunk:
    """A chunk as it is stored. `start` and `end` are offsets into the item's text.

    `title` is the item's; `metadata` is the chunk's own: the `rows` of a table or `items` of a list that it holds.
    """

    id: str
    item_id: str
    title: str
    text: str
    ordinal: int
    start: int
    end: int
    level: str = "passage"
    parent_id: str | None = None
    heading_path: tuple[str, ...] = ()
    page_first: int | None = None
    page_last: int | None = None
    metadata: Metadata = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WholeItem:
    """An item with its chunks in the order of the text, parents before their children."""

    id: str
    title: str
    text: str
    metadata: Metadata = field(default_factory=dict)
    chunks: tuple[StoredChunk, ...] = ()


Several = dict[str, tuple[StoredChunk, ...]]  # by the id that was asked about, nearest first


@dataclass(frozen=True, slots=True)
class Around:
    """Chunks and what stands around them, as one snapshot saw it. Each maps the id that was asked about."""

    chunks: Mapping[str, StoredChunk] = field(default_factory=dict)
    parents: Mapping[str, StoredChunk] = field(default_factory=dict)
    siblings: Mapping[str, tuple[StoredChunk, ...]] = field(default_factory=dict)
    neighbours: Mapping[str, tuple[StoredChunk, ...]] = field(default_factory=dict)


async def parents(store: Store, view: View, chunk_set: ChunkSet | None, ids: Sequence[str]) -> dict[str, StoredChunk]:
    """The parent of each of these chunks that has one."""
    tables = _tables(store, view, chunk_set, ids)
    if tables is None:
        return {}
    async with store.begin(view.namespace, read_only=True) as connection:
        return _single(await _related(connection, tables, tables.its_parent))


async def around(
    store: Store,
    view: View,
    chunk_set: ChunkSet | None,
    ids: Sequence[str],
    *,
    siblings_on_page: int,
    on_adjacent_pages: int,
) -> Around:
    """These chunks, their parents, and of each so many siblings on its page and so many chunks on adjacent pages."""
    tables = _tables(store, view, chunk_set, ids)
    if tables is None:
        return Around()
    beside = and_(tables.sibling, tables.on_its_page)
    async with store.begin(view.namespace, read_only=True) as connection:
        related = partial(_related, connection, tables)
        return Around(
            _single(await related(tables.itself)),
            _single(await related(tables.its_parent)),
            await related(beside, siblings_on_page) if siblings_on_page else {},
            await related(tables.on_an_adjacent_page, on_adjacent_pages) if on_adjacent_pages else {},
        )


async def whole_items(store: Store, view: View, chunk_set: ChunkSet | None, ids: Sequence[str]) -> dict[str, WholeItem]:
    """Items in the order of these ids, with their chunks of that set.

    An attached row is an item without chunks; where rows are parts of documents, they are these documents' chunks.
    """
    wanted, tables = list(dict.fromkeys(filter(storable, ids))), _tables(store, view, chunk_set, ())
    async with store.begin(view.namespace, read_only=True) as connection:
        rows = {row.id: row for row in await connection.execute(documents(store, view).described(wanted))}
        parts = await _chunks_of_items(connection, tables, wanted) if tables else {}
        if view.row.attached is not None:
            parts = _rows_of_documents(await connection.execute(parts_of(view, wanted))) if view.in_parts else {}
    return {
        each: WholeItem(each, rows[each].title, rows[each].text, rows[each].metadata, tuple(parts.get(each, ())))
        for each in wanted
        if each in rows
    }


def _tables(store: Store, view: View, chunk_set: ChunkSet | None, ids: Sequence[str]) -> Tables | None:
    """None where there cannot be chunks."""
    if view.row.attached is not None or chunk_set is None or chunk_set.key == 0:
        return None
    return Tables.of(chunk_set, ids, distributed=store.capabilities.distributed)


def _single(found: Several) -> dict[str, StoredChunk]:
    return {asked: one for asked, (one,) in found.items()}


async def _chunks_of_items(
    connection: AsyncConnection, tables: Tables, ids: Sequence[str]
) -> dict[str, list[StoredChunk]]:
    found: dict[str, list[StoredChunk]] = {}
    for row in await connection.execute(tables.of_items(ids)):
        found.setdefault(row.item_id, []).append(_stored(row))
    return found


def _rows_of_documents(rows: Iterable[Row[Any]]) -> dict[str, list[StoredChunk]]:
    """Their rows as chunks: each stands in its document's text where those before it end."""
    found: dict[str, list[StoredChunk]] = {}
    for row in rows:
        before = found.setdefault(row.item_id, [])
        start = before[-1].end + len(BETWEEN_ROWS) if before else 0
        end, metadata = start + len(row.text), row.metadata
        before.append(StoredChunk(row.id, row.item_id, row.title, row.text, len(before), start, end, metadata=metadata))
    return found


async def _related(
    connection: AsyncConnection,
    tables: Tables,
    relation: ColumnElement[bool],
    nearest: int | None = None,
) -> Several:
    """What stands in that relation to each chunk, nearest first, at most so many; by the order of the ids."""
    if not tables.ids:
        return {}
    found: dict[str, list[StoredChunk]] = {each: [] for each in tables.ids}
    for row in await connection.execute(passages_sql.related(tables, relation, nearest)):
        found[row.asked_id].append(_stored(row))
    return {asked: tuple(several) for asked, several in found.items() if several}


def _stored(row: Row[Any]) -> StoredChunk:
    return StoredChunk(
        id=row.id,
        item_id=row.item_id,
        title=row.title,
        ordinal=row.ordinal,
        parent_id=row.parent_id,
        **passage_of(row),
    )
