"""Which items of a stream are new or changed, batch by batch. Memory holds a batch, never the whole stream."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Column, Integer, MetaData, Select, String, Table, any_, func, literal, select, text
from sqlalchemy.dialects.postgresql import ARRAY, insert
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.schema import CreateTable
from sqlalchemy.types import Text

from core.store import sanitize
from core.store.schema import ItemRow as StoredItem
from core.types import Flaw, Item, Place, Row

ITEMS_A_BATCH = 256
CHARACTERS_A_BATCH = 2**20
VANISHED_AT_ONCE = 1000


@dataclass(slots=True)
class ItemBatch:
    """Items that can be stored, in the order read, each with its digest and place; and flaws of this and other rows."""

    items: list[Item] = field(default_factory=list)
    digests: list[bytes] = field(default_factory=list)
    places: list[Place] = field(default_factory=list)
    flaws: list[Flaw] = field(default_factory=list)
    characters: int = 0

    def add(self, item: Item, place: Place) -> None:
        self.items.append(item)
        self.digests.append(sanitize.digest(item))
        self.places.append(place)
        self.characters += len(item.text)

    @property
    def full(self) -> bool:
        return (
            len(self.items) >= ITEMS_A_BATCH
            or self.characters >= CHARACTERS_A_BATCH
            or len(self.flaws) >= ITEMS_A_BATCH
        )


@dataclass(slots=True)
class BatchChanges:
    """What a batch changes: items to store, and keys of stored items that they replace."""

    items: list[Item]
    digests: list[bytes]
    replaced: list[int]
    unchanged: int
    flaws: list[Flaw]


def batches(rows: Iterable[Row[Item] | Flaw], indexed: Sequence[str] = ()) -> Iterator[ItemBatch]:
    batch = ItemBatch()
    for row in rows:
        if isinstance(row, Flaw):
            batch.flaws.append(row)
        else:
            item, flaws = sanitize.sanitize_item(row.value, row.place, indexed)
            batch.flaws += flaws
            if item is not None:
                batch.add(item, row.place)
        if batch.full:
            yield batch
            batch = ItemBatch()
    yield batch


class ChangeDetector:
    """Tells new, changed, unchanged and repeated items apart.

    The ids read so far are kept in a temporary table, so that a million of them cost the client nothing.
    """

    seen = Table(
        "seen",
        MetaData(),
        Column("id", String(collation="C"), primary_key=True),
        Column("file", String, nullable=False),
        Column("line", Integer),
        prefixes=["TEMPORARY"],
    )

    def __init__(self, connection: AsyncConnection) -> None:
        self.connection = connection

    async def open(self) -> None:
        async with self.connection.begin():
            # An ingest that failed leaves its table to the connection, and the connection to the pool.
            await self.connection.execute(text("DROP TABLE IF EXISTS pg_temp.seen"))
            await self.connection.execute(CreateTable(self.seen))

    async def close(self) -> None:
        async with self.connection.begin():
            await self.connection.run_sync(self.seen.drop)

    async def compare(self, batch: ItemBatch) -> BatchChanges:
        """What the batch changes. An id that was read before, in this batch or an earlier one, is a flaw."""
        async with self.connection.begin():
            new = await self._first_seen(batch)
            of_batch = StoredItem.id == any_(literal([item.id for item in batch.items], ARRAY(Text)))
            query = select(StoredItem.id, StoredItem.key, StoredItem.digest).where(of_batch)
            stored = {row.id: (row.key, bytes(row.digest)) for row in await self.connection.execute(query)}
        change = BatchChanges([], [], [], 0, list(batch.flaws))
        for item, digest, place in zip(batch.items, batch.digests, batch.places, strict=True):
            if new.pop(item.id, None) is None:
                async with self.connection.begin():
                    query = select(self.seen.c.file, self.seen.c.line).where(self.seen.c.id == item.id)
                    first = (await self.connection.execute(query)).one()
                there = f"the id stands already in {Place(first.file, first.line)}: the first one is kept"
                change.flaws.append(Flaw(place, there, "quarantined", subject=item.id))
                continue
            key, old = stored.get(item.id, (None, None))
            if old == digest:
                change.unchanged += 1
                continue
            if key is not None:
                change.replaced.append(key)
            change.items.append(item)
            change.digests.append(digest)
        return change

    async def vanished(self) -> list[int]:
        """Keys of stored items that were not read this time, some at a time."""
        async with self.connection.begin():
            return list(await self.connection.scalars(self._not_read(StoredItem.key).limit(VANISHED_AT_ONCE)))

    async def count_vanished(self) -> int:
        async with self.connection.begin():
            return await self.connection.scalar(self._not_read(func.count())) or 0

    def _not_read(self, wanted: Any) -> Select[tuple[int]]:
        read = self.seen.c.id == StoredItem.id
        return select(wanted).select_from(StoredItem).outerjoin(self.seen, read).where(self.seen.c.id.is_(None))

    async def _first_seen(self, batch: ItemBatch) -> dict[str, Place]:
        """The ids that no earlier batch had, each with its first place in this one. They count as read from now on."""
        first: dict[str, Place] = {}
        for item, place in zip(batch.items, batch.places, strict=True):
            first.setdefault(item.id, place)
        if not first:
            return {}
        rows = (
            func.unnest(
                literal(list(first), ARRAY(Text)),
                literal([sanitize.cleaned(place.file) for place in first.values()], ARRAY(Text)),
                literal([place.line for place in first.values()], ARRAY(Integer)),
            )
            .table_valued("id", "file", "line")
            .render_derived()
        )
        statement = insert(self.seen).from_select(["id", "file", "line"], select(rows)).on_conflict_do_nothing()
        fresh = await self.connection.scalars(statement.returning(self.seen.c.id))
        return {identifier: first[identifier] for identifier in fresh}
