"""From items to chunks and vectors, and both into their tables in one transaction; and what lacks vectors yet."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from psycopg.types.json import Jsonb
from sqlalchemy import Table, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from core.chunking import Chunker, chunker_from
from core.embedding import Embedder, Vectors
from core.embedding.cache import EmbeddingCache
from core.store import loading
from core.store.collections import View
from core.store.schema import ChunkSet, EmbeddingSet, chunk_id, chunk_table, vector_table
from core.store.schema import Item as StoredItem
from core.types import Chunk, Item

ITEM_TABLE = cast("Table", StoredItem.__table__)
Unit = tuple[int, int, str, str]  # item key, key, id, text


@dataclass(slots=True)
class Derived:
    """What was made of a batch: per chunk set the chunks of each item, per embedding set its vectors in that order."""

    items: Sequence[Item]
    chunks: dict[int, list[list[Chunk]]] = field(default_factory=dict)
    vectors: dict[int, Vectors] = field(default_factory=dict)


def embedded_text(item: Item, chunk: Chunk | None = None) -> str:
    """What a model reads of an item, or of one of its chunks; nothing of an item that is blank."""
    if chunk is None:
        return item.full_text if item.full_text.strip() else ""
    return under_title(item.title, chunk.text)


def under_title(title: str, text: str) -> str:
    """A chunk under its item's title, which says what it is about, unless it begins with it."""
    return text if not title or text.lstrip("# ").startswith(title) else f"{title}\n{text}"


def is_unit(chunk: Chunk) -> bool:
    """Whether a chunk is searched for. Parents are not: they are what a child that was found is replaced by."""
    return chunk.level != "parent"


class Deriver:
    """Makes and stores what the sets of one collection want of an item."""

    def __init__(self, view: View, caches: Mapping[str, EmbeddingCache], tokenizer: Embedder) -> None:
        self.view, self.caches, self.tokenizer = view, caches, tokenizer
        self.chunkers: dict[int, Chunker] = {
            each.key: chunker_from(each.chunker) for each in view.chunk_sets if each.key
        }

    async def derive(self, items: Sequence[Item], chunk_sets: Iterable[ChunkSet]) -> Derived:
        made = Derived(items)
        for chunk_set in chunk_sets:
            if chunk_set.key:
                chunks = await asyncio.to_thread(self._chunk, self.chunkers[chunk_set.key], items)
                made.chunks[chunk_set.key] = chunks
            for each in self.view.embedding_sets:
                if each.chunk_set == chunk_set.key:
                    texts = list(_texts(items, made.chunks.get(chunk_set.key)))
                    made.vectors[each.key] = await self.caches[each.model].embed(texts)
        return made

    def _chunk(self, chunker: Chunker, items: Sequence[Item]) -> list[list[Chunk]]:
        return [chunker.chunk(item, self.tokenizer.tokenize) for item in items]

    async def store(
        self, connection: AsyncConnection, made: Derived, item_keys: Sequence[int], last_keys: dict[int, int]
    ) -> int:
        """Copy chunks and vectors of items that have their keys. Returns the number of chunks."""
        if made.vectors:
            await loading.prepare_vectors(connection)
        count = 0
        for key, chunks in made.chunks.items():
            rows = list(_chunk_rows(made.items, item_keys, chunks, last_keys[key]))
            await loading.copy(connection, chunk_table(key), (row for row, _ in rows))
            await self._store_vectors(connection, made, key, [row[:3] for row, unit in rows if unit])
            last_keys[key] += len(rows)
            await connection.execute(update(ChunkSet).where(ChunkSet.key == key).values(last_key=last_keys[key]))
            count += len(rows)
        units = [(key, key, item.id) for key, item in zip(item_keys, made.items, strict=True) if embedded_text(item)]
        await self._store_vectors(connection, made, 0, units)
        return count

    async def _store_vectors(
        self, connection: AsyncConnection, made: Derived, chunk_set: int, units: Sequence[Sequence[Any]]
    ) -> None:
        for each in self.view.embedding_sets:
            if each.chunk_set == chunk_set and each.key in made.vectors:
                rows = ((*unit, vector) for unit, vector in zip(units, made.vectors[each.key], strict=True))
                await loading.copy(connection, vector_table(each.key, each.dimension), rows)


def _texts(items: Sequence[Item], chunks: Sequence[Sequence[Chunk]] | None) -> Iterator[str]:
    if chunks is None:
        yield from (text for item in items if (text := embedded_text(item)))
        return
    for item, own in zip(items, chunks, strict=True):
        yield from (embedded_text(item, chunk) for chunk in own if is_unit(chunk))


def _chunk_rows(
    items: Sequence[Item], item_keys: Sequence[int], chunks: Sequence[Sequence[Chunk]], last_key: int
) -> Iterator[tuple[tuple[Any, ...], bool]]:
    """A row a chunk, in the order of the table's columns, and whether it is a unit of search."""
    for item, item_key, own in zip(items, item_keys, chunks, strict=True):
        for chunk in own:
            yield (
                (
                    item_key,
                    last_key + 1 + chunk.ordinal,
                    chunk_id(item.id, chunk.ordinal),
                    chunk.ordinal,
                    chunk.start,
                    chunk.end,
                    chunk.text,
                    chunk.level,
                    None if chunk.parent is None else last_key + 1 + chunk.parent,
                    list(chunk.heading_path),
                    chunk.page_first,
                    chunk.page_last,
                    Jsonb(dict(chunk.metadata)),
                ),
                is_unit(chunk),
            )
        last_key += len(own)


async def units_after(connection: AsyncConnection, embedding_set: EmbeddingSet, most: int) -> list[Unit]:
    """The next texts to embed, so many at most."""
    after, upto = embedding_set.embedded_to, embedding_set.backfill_to
    if embedding_set.chunk_set == 0:
        items = select(StoredItem).where(StoredItem.key > after, StoredItem.key <= upto).order_by(StoredItem.key)
        rows = await connection.execute(items.limit(most))
        return [(row.key, row.key, row.id, embedded_text(Item(row.id, row.text, row.title))) for row in rows]
    chunks = chunk_table(embedding_set.chunk_set)
    query = (
        select(chunks.c.item_key, chunks.c.key, chunks.c.id, chunks.c.text, StoredItem.title)
        .join(StoredItem, StoredItem.key == chunks.c.item_key)
        .where(chunks.c.key > after, chunks.c.key <= upto, chunks.c.level != "parent")
        .order_by(chunks.c.key)
        .limit(most)
    )
    rows = await connection.execute(query)
    return [(row.item_key, row.key, row.id, under_title(row.title, row.text)) for row in rows]
