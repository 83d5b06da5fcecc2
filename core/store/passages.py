"""Stored passages by their ids: parents, neighbours, whole items, and the statements that read them."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from sqlalchemy import ColumnElement, FromClause, Row, Select, Table, and_, func, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from core.store.attached import BETWEEN_ROWS, parts_of
from core.store.collections import CollectionView
from core.store.engine import Store
from core.store.resolve_target import documents
from core.store.sanitize import storable
from core.store.schema import ID_MARK, ITEM_TABLE, ChunkSet, any_id, chunk_table, passage_of
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


Several = dict[str, tuple[StoredChunk, ...]]  # by the id of the chunk they belong to, nearest first


@dataclass(frozen=True, slots=True)
class Around:
    """Chunks and what surrounds them, in one snapshot; each mapping is by the id of the chunk in the middle."""

    chunks: Mapping[str, StoredChunk] = field(default_factory=dict)
    parents: Mapping[str, StoredChunk] = field(default_factory=dict)
    siblings: Mapping[str, tuple[StoredChunk, ...]] = field(default_factory=dict)
    neighbours: Mapping[str, tuple[StoredChunk, ...]] = field(default_factory=dict)


async def parents(
    store: Store, view: CollectionView, chunk_set: ChunkSet | None, ids: Sequence[str]
) -> dict[str, StoredChunk]:
    """The parent of each of these chunks that has one."""
    tables = _tables(store, view, chunk_set, ids)
    if tables is None:
        return {}
    async with store.begin(view.namespace, read_only=True) as connection:
        return _single(await _related(connection, tables, tables.its_parent))


async def around(
    store: Store,
    view: CollectionView,
    chunk_set: ChunkSet | None,
    ids: Sequence[str],
    *,
    siblings_on_page: int,
    on_adjacent_pages: int,
) -> Around:
    """These chunks with their parents, siblings on their page and chunks on adjacent pages, at most so many."""
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


async def whole_items(
    store: Store, view: CollectionView, chunk_set: ChunkSet | None, ids: Sequence[str]
) -> dict[str, WholeItem]:
    """Items in the order of these ids, with their chunks of that set.

    An attached row is an item without chunks. Where rows are parts of documents, they are these documents' chunks, each
    placed where those before it end.
    """
    wanted, tables = list(dict.fromkeys(filter(storable, ids))), _tables(store, view, chunk_set, ())
    parts = defaultdict[str, list[StoredChunk]](list)
    async with store.begin(view.namespace, read_only=True) as connection:
        rows = {row.id: row for row in await connection.execute(documents(store, view).described(wanted))}
        if tables is not None:
            for row in await connection.execute(tables.of_items(wanted)):
                parts[row.item_id].append(_stored(row))
        elif view.row.attached is not None and view.in_parts:
            for row in await connection.execute(parts_of(view, wanted)):
                before = parts[row.item_id]
                start = before[-1].end + len(BETWEEN_ROWS) if before else 0
                place = (len(before), start, start + len(row.text))
                before.append(StoredChunk(row.id, row.item_id, row.title, row.text, *place, metadata=row.metadata))
    return {
        each: WholeItem(each, rows[each].title, rows[each].text, rows[each].metadata, tuple(parts.get(each, ())))
        for each in wanted
        if each in rows
    }


def _tables(store: Store, view: CollectionView, chunk_set: ChunkSet | None, ids: Sequence[str]) -> Tables | None:
    """The tables of the chunk set; None where there are no chunks."""
    if view.row.attached is not None or chunk_set is None or chunk_set.key == 0:
        return None
    return Tables.of(chunk_set, ids, distributed=store.capabilities.distributed)


def _single(found: Several) -> dict[str, StoredChunk]:
    return {id_: one for id_, (one,) in found.items()}


async def _related(
    connection: AsyncConnection,
    tables: Tables,
    relation: ColumnElement[bool],
    nearest: int | None = None,
) -> Several:
    """The chunks that stand in that relation to each of these, nearest first and at most so many."""
    if not tables.ids:
        return {}
    found: dict[str, list[StoredChunk]] = {each: [] for each in tables.ids}
    for row in await connection.execute(related(tables, relation, nearest)):
        found[row.origin_id].append(_stored(row))
    return {id_: tuple(several) for id_, several in found.items() if several}


def _stored(row: Row[Any]) -> StoredChunk:
    return StoredChunk(
        id=row.id,
        item_id=row.item_id,
        title=row.title,
        ordinal=row.ordinal,
        parent_id=row.parent_id,
        **passage_of(row),
    )


IDS_A_STATEMENT = 500


@dataclass(frozen=True, slots=True)
class ItemText:
    """An item as a judge sees it. `version` changes with title and text; metadata are not judged."""

    id: str
    title: str
    text: str

    @property
    def version(self) -> bytes:
        return hashlib.blake2b(f"{self.title}\x00{self.text}".encode(), digest_size=16).digest()


async def read_items(store: Store, view: CollectionView, ids: Iterable[str]) -> dict[str, ItemText]:
    """Those of the items that the collection holds, attached tables included."""
    items, wanted = documents(store, view), sorted(set(ids))
    found: dict[str, ItemText] = {}
    for at in range(0, len(wanted), IDS_A_STATEMENT):
        async with store.begin(items.namespace, read_only=True) as connection:
            rows = await connection.execute(items.described(wanted[at : at + IDS_A_STATEMENT]))
            found |= {row.id: ItemText(row.id, row.title or "", row.text or "") for row in rows}
    return found


async def read_titles(store: Store, view: CollectionView, ids: Iterable[str]) -> dict[str, str]:
    """The titles of those of the items that the collection holds, by id. Reads no texts."""
    items, wanted = documents(store, view), sorted(filter(storable, set(ids)))
    found: dict[str, str] = {}
    for at in range(0, len(wanted), IDS_A_STATEMENT):
        described = items.described(wanted[at : at + IDS_A_STATEMENT]).subquery()
        async with store.begin(items.namespace, read_only=True) as connection:
            rows = await connection.execute(select(described.c.id, described.c.title))
            found |= {row.id: row.title or "" for row in rows}
    return found


@dataclass(frozen=True, slots=True)
class Tables:
    """The chunks of one set in the roles of a statement; conditions relate chunks `near` to the given `origin`."""

    ids: tuple[str, ...]
    origin: FromClause
    near: FromClause
    stored: FromClause
    parent: FromClause

    @classmethod
    def of(cls, chunk_set: ChunkSet, ids: Iterable[str], *, distributed: bool = False) -> Tables:
        table, wanted = chunk_table(chunk_set.key), tuple(dict.fromkeys(filter(storable, ids)))
        origin = _requested_chunks(table, wanted, distributed=distributed)
        return cls(wanted, origin, table.alias("near"), table.alias("shown"), table.alias("parent"))

    @property
    def described(self) -> Select[Any]:
        """The columns of a StoredChunk. Joins are within the item, so that a distributed join stays on its node."""
        stored, parent = self.stored, self.parent
        own = [each for each in stored.c if each.name not in {"item_key", "key", "parent_key"}]
        of_stored = and_(parent.c.item_key == stored.c.item_key, parent.c.key == stored.c.parent_key)
        return (
            select(ITEM_TABLE.c.id.label("item_id"), ITEM_TABLE.c.title, parent.c.id.label("parent_id"), *own)
            .join_from(ITEM_TABLE, stored, stored.c.item_key == ITEM_TABLE.c.key)
            .join(parent, of_stored, isouter=True)
        )

    def of_items(self, ids: Sequence[str]) -> Select[Any]:
        """Every chunk of these items, in the order of the text."""
        return self.described.where(ITEM_TABLE.c.id == any_id(ids)).order_by(self.stored.c.ordinal)

    @property
    def itself(self) -> ColumnElement[bool]:
        return self.near.c.key == self.origin.c.key

    @property
    def its_parent(self) -> ColumnElement[bool]:
        return self.near.c.key == self.origin.c.parent_key

    @property
    def sibling(self) -> ColumnElement[bool]:
        origin, near = self.origin.c, self.near.c
        of_one_parent = near.parent_key.is_not_distinct_from(origin.parent_key)
        under_one_heading = or_(origin.parent_key.is_not(None), near.heading_path == origin.heading_path)
        return and_(self._its_like, of_one_parent, under_one_heading)

    @property
    def on_its_page(self) -> ColumnElement[bool]:
        origin, near = self.origin.c, self.near.c
        both_unpaged = and_(origin.page_first.is_(None), near.page_first.is_(None))
        overlapping = and_(near.page_first <= origin.page_last, near.page_last >= origin.page_first)
        return and_(self._its_like, or_(both_unpaged, overlapping))

    @property
    def on_an_adjacent_page(self) -> ColumnElement[bool]:
        origin, near = self.origin.c, self.near.c
        before, after = near.page_last == origin.page_first - 1, near.page_first == origin.page_last + 1
        return and_(self._its_like, or_(before, after))

    @property
    def _its_like(self) -> ColumnElement[bool]:
        """Another chunk of the same level: a child's neighbours are children, and a parent's are parents."""
        return and_(self.near.c.key != self.origin.c.key, self.near.c.level == self.origin.c.level)


def related(tables: Tables, relation: ColumnElement[bool], nearest: int | None) -> Select[Any]:
    """The chunks in that relation, by place: 1 is the nearest in the text; of two as near, the one that follows.

    Keys are ranked first, and only what is kept is joined to its text.
    """
    origin, near, stored = tables.origin.c, tables.near.c, tables.stored.c
    nearness = (func.abs(near.ordinal - origin.ordinal), near.ordinal.desc())
    place = func.row_number().over(partition_by=(near.item_key, origin.key), order_by=nearness)
    columns = (origin.id.label("origin_id"), near.item_key, near.key, place.label("place"))
    in_relation = and_(near.item_key == origin.item_key, relation)
    placed = select(*columns).join_from(tables.origin, tables.near, in_relation).subquery("placed")
    chosen = and_(placed.c.item_key == stored.item_key, placed.c.key == stored.key)
    statement = tables.described.add_columns(placed.c.origin_id).join(placed, chosen)
    statement = statement.order_by(placed.c.origin_id, placed.c.place)
    return statement if nearest is None else statement.where(placed.c.place <= nearest)


def _requested_chunks(table: Table, ids: Sequence[str], *, distributed: bool) -> FromClause:
    """The chunks of these ids, found by the item's id as well: it has an index, so no table is scanned.

    Materialised, or else an item of many chunks would be paired with itself before the few that are wanted are picked.
    A cluster would gather what is materialised and send it to all workers: there DISTINCT has the same effect, and
    stays on its worker.
    """
    items = dict.fromkeys(each.rpartition(ID_MARK)[0] for each in ids)
    columns = [each for each in table.c if each.name not in {"text", "metadata"}]
    picked = (
        select(*columns)
        .join_from(ITEM_TABLE, table, table.c.item_key == ITEM_TABLE.c.key)
        .where(ITEM_TABLE.c.id == any_id(items), table.c.id == any_id(ids))
    )
    return picked.distinct().subquery("asked") if distributed else picked.cte("asked").prefix_with("MATERIALIZED")
