"""Statements about stored chunks: those asked about, and what stands in some relation to them, nearest first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast

from sqlalchemy import ColumnElement, FromClause, Select, Table, and_, func, or_, select

from core.store.gate import storable
from core.store.schema import ID_MARK, ChunkSet, Item, any_id, chunk_table

_ITEMS = cast("Table", Item.__table__)


@dataclass(frozen=True, slots=True)
class Tables:
    """The chunks of one set, in the parts they play in a statement, and how those `near` relate to those `asked`."""

    ids: tuple[str, ...]
    asked: FromClause
    near: FromClause
    shown: FromClause
    parent: FromClause

    @classmethod
    def of(cls, chunk_set: ChunkSet, ids: Iterable[str], *, distributed: bool = False) -> Tables:
        table, wanted = chunk_table(chunk_set.key), tuple(dict.fromkeys(filter(storable, ids)))
        asked = _requested_chunks(table, wanted, distributed=distributed)
        return cls(wanted, asked, table.alias("near"), table.alias("shown"), table.alias("parent"))

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

    def of_items(self, ids: Sequence[str]) -> Select[Any]:
        """Every chunk of these items, in the order of the text."""
        return self.described.where(_ITEMS.c.id == any_id(ids)).order_by(self.shown.c.ordinal)

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


def related(tables: Tables, relation: ColumnElement[bool], nearest: int | None) -> Select[Any]:
    """Keys are sorted by nearness first, and only what is kept is joined to its text."""
    placed, shown = _placed(tables, relation).subquery("placed"), tables.shown.c
    chosen = and_(placed.c.item_key == shown.item_key, placed.c.key == shown.key)
    statement = tables.described.add_columns(placed.c.asked_id).join(placed, chosen)
    statement = statement.order_by(placed.c.asked_id, placed.c.place)
    return statement if nearest is None else statement.where(placed.c.place <= nearest)


def _placed(tables: Tables, relation: ColumnElement[bool]) -> Select[Any]:
    """The related chunks' keys and places: 1 is the nearest in the text; of two as near, the one that reads on."""
    asked, near = tables.asked.c, tables.near.c
    nearness = (func.abs(near.ordinal - asked.ordinal), near.ordinal.desc())
    place = func.row_number().over(partition_by=(near.item_key, asked.key), order_by=nearness)
    return select(asked.id.label("asked_id"), near.item_key, near.key, place.label("place")).join_from(
        tables.asked, tables.near, and_(near.item_key == asked.item_key, relation)
    )


def _requested_chunks(table: Table, ids: Sequence[str], *, distributed: bool) -> FromClause:
    """The chunks asked about. By the item's id as well: its key is unique, and no table needs to be scanned.

    Materialised: else an item of many chunks is paired with itself before the few that were asked about are picked.
    A cluster would gather what is materialised and send it to all workers. What is DISTINCT is picked first as well,
    and stays on its worker.
    """
    items = dict.fromkeys(each.rpartition(ID_MARK)[0] for each in ids)
    columns = [each for each in table.c if each.name not in {"text", "metadata"}]
    picked = (
        select(*columns)
        .join_from(_ITEMS, table, table.c.item_key == _ITEMS.c.key)
        .where(_ITEMS.c.id == any_id(items), table.c.id == any_id(ids))
    )
    return picked.distinct().subquery("asked") if distributed else picked.cte("asked").prefix_with("MATERIALIZED")
