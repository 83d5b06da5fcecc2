"""Stored chunks by their ids, and what stands around them: parents, siblings, neighbours by page, whole items.

Reads only; one statement a question, however many ids it is asked about. It ranks nothing and packs nothing. The items
themselves (chunk set 0) and attached collections have no chunks, so nothing comes back for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, cast

from sqlalchemy import ColumnElement, FromClause, Row, Select, Table, Text, and_, any_, func, literal, or_, select
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.ext.asyncio import AsyncConnection

from core.store.collections import View
from core.store.engine import Store
from core.store.gate import storable
from core.store.levels import level
from core.store.names import ITEMS
from core.store.schema import ChunkSet, Item, chunk_table
from core.types import Metadata

ID_MARK: Final = "#"  # parts an item's id from the ordinal in the id of its chunk
_ITEMS = cast("Table", Item.__table__)


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


@dataclass(frozen=True, slots=True)
class _Tables:
    """The chunks of one set, in the parts they play in a statement, and how those `near` relate to those `asked`."""

    ids: tuple[str, ...]
    asked: FromClause
    near: FromClause
    shown: FromClause
    parent: FromClause

    @classmethod
    def of(cls, chunk_set: ChunkSet, ids: Iterable[str]) -> _Tables:
        table, wanted = chunk_table(chunk_set.key), tuple(dict.fromkeys(filter(storable, ids)))
        return cls(wanted, _asked(table, wanted), table.alias("near"), table.alias("shown"), table.alias("parent"))

    @property
    def described(self) -> Select[Any]:
        """What a StoredChunk holds. Joined within the item, so that a distributed join stays in its place."""
        shown, parent = self.shown, self.parent
        own = [each for each in shown.c if each.name not in {"item_key", "key", "parent_key"}]
        of_shown = and_(parent.c.item_key == shown.c.item_key, parent.c.key == shown.c.parent_key)
        return (
            select(_ITEMS.c.id.label("item_id"), _ITEMS.c.title, parent.c.id.label("parent_id"), *own)
            .join_from(_ITEMS, shown, shown.c.item_key == _ITEMS.c.key)
            .join(parent, of_shown, isouter=True)
        )

    @property
    def itself(self) -> ColumnElement[bool]:
        return self.near.c.key == self.asked.c.key

    @property
    def its_parent(self) -> ColumnElement[bool]:
        return self.near.c.key == self.asked.c.parent_key

    @property
    def sibling(self) -> ColumnElement[bool]:
        asked, near = self.asked.c, self.near.c
        of_one_parent = near.parent_key.is_not_distinct_from(asked.parent_key)
        under_one_heading = or_(asked.parent_key.is_not(None), near.heading_path == asked.heading_path)
        return and_(self._its_like, of_one_parent, under_one_heading)

    @property
    def on_its_page(self) -> ColumnElement[bool]:
        asked, near = self.asked.c, self.near.c
        both_unpaged = and_(asked.page_first.is_(None), near.page_first.is_(None))
        overlapping = and_(near.page_first <= asked.page_last, near.page_last >= asked.page_first)
        return and_(self._its_like, or_(both_unpaged, overlapping))

    @property
    def on_an_adjacent_page(self) -> ColumnElement[bool]:
        asked, near = self.asked.c, self.near.c
        before, after = near.page_last == asked.page_first - 1, near.page_first == asked.page_last + 1
        return and_(self._its_like, or_(before, after))

    @property
    def _its_like(self) -> ColumnElement[bool]:
        """Another of its level: a child's neighbours are children, and a parent's are parents."""
        return and_(self.near.c.key != self.asked.c.key, self.near.c.level == self.asked.c.level)


async def chunks(store: Store, view: View, chunk_set: ChunkSet | None, ids: Sequence[str]) -> dict[str, StoredChunk]:
    """The chunks of these ids, in the order of the ids; an id that no chunk has is left out."""
    tables = _tables(view, chunk_set, ids)
    return {} if tables is None else _single(await _ask(store, view, tables, tables.itself))


async def parents(store: Store, view: View, chunk_set: ChunkSet | None, ids: Sequence[str]) -> dict[str, StoredChunk]:
    """The parent of each of these chunks that has one."""
    tables = _tables(view, chunk_set, ids)
    return {} if tables is None else _single(await _ask(store, view, tables, tables.its_parent))


async def siblings(
    store: Store, view: View, chunk_set: ChunkSet | None, ids: Sequence[str], *, nearest: int | None = None
) -> Several:
    """Other chunks of the same parent; of chunks without parents, those under the same headings of the item."""
    tables = _tables(view, chunk_set, ids)
    return {} if tables is None else await _ask(store, view, tables, tables.sibling, nearest)


async def same_page(
    store: Store, view: View, chunk_set: ChunkSet | None, ids: Sequence[str], *, nearest: int | None = None
) -> Several:
    """Other chunks that share a page with it. An item without page breaks is one page."""
    tables = _tables(view, chunk_set, ids)
    return {} if tables is None else await _ask(store, view, tables, tables.on_its_page, nearest)


async def adjacent_pages(
    store: Store, view: View, chunk_set: ChunkSet | None, ids: Sequence[str], *, nearest: int | None = None
) -> Several:
    """Chunks that end on the page before or begin on the page after. There are none where there are no pages."""
    tables = _tables(view, chunk_set, ids)
    return {} if tables is None else await _ask(store, view, tables, tables.on_an_adjacent_page, nearest)


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
    tables = _tables(view, chunk_set, ids)
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
    """Items in the order of these ids, with their chunks of that set. Attached rows are items without chunks."""
    wanted, tables = list(dict.fromkeys(filter(storable, ids))), _tables(view, chunk_set, ())
    async with store.begin(view.namespace, read_only=True) as connection:
        rows = {row.id: row for row in await connection.execute(level(store, view, ITEMS).described(wanted))}
        parts = await _chunks_of_items(connection, tables, wanted) if tables else {}
    return {
        each: WholeItem(each, rows[each].title, rows[each].text, rows[each].metadata, tuple(parts.get(each, ())))
        for each in wanted
        if each in rows
    }


def _tables(view: View, chunk_set: ChunkSet | None, ids: Sequence[str]) -> _Tables | None:
    """None where there cannot be chunks."""
    if view.row.attached is not None or chunk_set is None or chunk_set.key == 0:
        return None
    return _Tables.of(chunk_set, ids)


async def _ask(
    store: Store,
    view: View,
    tables: _Tables,
    relation: ColumnElement[bool],
    nearest: int | None = None,
) -> Several:
    async with store.begin(view.namespace, read_only=True) as connection:
        return await _related(connection, tables, relation, nearest)


def _single(found: Several) -> dict[str, StoredChunk]:
    return {asked: one for asked, (one,) in found.items()}


async def _chunks_of_items(
    connection: AsyncConnection, tables: _Tables, ids: Sequence[str]
) -> dict[str, list[StoredChunk]]:
    statement = tables.described.where(_ITEMS.c.id == _any_of(ids)).order_by(tables.shown.c.ordinal)
    found: dict[str, list[StoredChunk]] = {}
    for row in await connection.execute(statement):
        found.setdefault(row.item_id, []).append(_stored(row))
    return found


async def _related(
    connection: AsyncConnection,
    tables: _Tables,
    relation: ColumnElement[bool],
    nearest: int | None = None,
) -> Several:
    """What stands in that relation to each chunk, nearest first, at most so many; by the order of the ids."""
    if not tables.ids:
        return {}
    found: dict[str, list[StoredChunk]] = {each: [] for each in tables.ids}
    for row in await connection.execute(_statement(tables, relation, nearest)):
        found[row.asked_id].append(_stored(row))
    return {asked: tuple(several) for asked, several in found.items() if several}


def _statement(tables: _Tables, relation: ColumnElement[bool], nearest: int | None) -> Select[Any]:
    """Keys are sorted by nearness first, and only what is kept is joined to its text."""
    placed, shown = _placed(tables, relation).subquery("placed"), tables.shown.c
    chosen = and_(placed.c.item_key == shown.item_key, placed.c.key == shown.key)
    statement = tables.described.add_columns(placed.c.asked_id).join(placed, chosen)
    statement = statement.order_by(placed.c.asked_id, placed.c.place)
    return statement if nearest is None else statement.where(placed.c.place <= nearest)


def _placed(tables: _Tables, relation: ColumnElement[bool]) -> Select[Any]:
    """The related chunks' keys and places: 1 is the nearest in the text; of two as near, the one that reads on."""
    asked, near = tables.asked.c, tables.near.c
    nearness = (func.abs(near.ordinal - asked.ordinal), near.ordinal.desc())
    place = func.row_number().over(partition_by=(asked.item_key, asked.key), order_by=nearness)
    return select(asked.id.label("asked_id"), near.item_key, near.key, place.label("place")).join_from(
        tables.asked, tables.near, and_(near.item_key == asked.item_key, relation)
    )


def _asked(table: Table, ids: Sequence[str]) -> FromClause:
    """The chunks asked about. By the item's id as well: its key is unique, and no table needs to be scanned.

    Materialised: else an item of many chunks is paired with itself before the few that were asked about are picked.
    """
    items = dict.fromkeys(each.rpartition(ID_MARK)[0] for each in ids)
    columns = [each for each in table.c if each.name not in {"text", "metadata"}]
    return (
        select(*columns)
        .join_from(_ITEMS, table, table.c.item_key == _ITEMS.c.key)
        .where(_ITEMS.c.id == _any_of(items), table.c.id == _any_of(ids))
        .cte("asked")
        .prefix_with("MATERIALIZED")
    )


def _any_of(ids: Iterable[str]) -> ColumnElement[Any]:
    return any_(literal(list(ids), ARRAY(Text(collation="C"))))


def _stored(row: Row[Any]) -> StoredChunk:
    return StoredChunk(
        id=row.id,
        item_id=row.item_id,
        title=row.title,
        text=row.text,
        ordinal=row.ordinal,
        start=row.start_at,
        end=row.end_at,
        level=row.level,
        parent_id=row.parent_id,
        heading_path=tuple(row.heading_path),
        page_first=row.page_first,
        page_last=row.page_last,
        metadata=row.metadata,
    )
