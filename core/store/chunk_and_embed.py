"""Chunks and vectors of a batch of items, with the cache of embeddings, so that no text is embedded twice."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

import numpy as np
from psycopg.types.json import Jsonb
from sqlalchemy import LargeBinary, any_, delete, func, literal, select, update
from sqlalchemy.dialects.postgresql import ARRAY, insert
from sqlalchemy.ext.asyncio import AsyncConnection

from core.chunking import Chunker, chunker_from
from core.embedding.base import Embedder, Vectors
from core.store import bulk_load
from core.store.collections import CollectionView
from core.store.engine import Store
from core.store.schema import CachedEmbedding, ChunkSet, EmbeddingSet, chunk_id, chunk_table, vector_table
from core.store.schema import ItemRow as StoredItem
from core.tasks import bounded
from core.types import Chunk, Item

Unit = tuple[int, int, str, str]  # item key, key, id, text


@dataclass(slots=True)
class Derived:
    """What is derived from a batch: each chunk set's chunks by item, each embedding set's vectors in that order."""

    items: Sequence[Item]
    chunks: dict[int, list[list[Chunk]]] = field(default_factory=dict)
    vectors: dict[int, Vectors] = field(default_factory=dict)


def embedded_text(item: Item, chunk: Chunk | None = None) -> str:
    """The text that a model embeds for an item, or for one of its chunks; empty for a blank item."""
    if chunk is None:
        return item.full_text if item.full_text.strip() else ""
    return under_title(item.title, chunk.text)


def under_title(title: str, text: str) -> str:
    """A chunk under its item's title, which says what it is about, unless the chunk begins with the title."""
    return text if not title or text.lstrip("# ").startswith(title) else f"{title}\n{text}"


def is_unit(chunk: Chunk) -> bool:
    """Whether a chunk is a unit of search. A parent is not: it only replaces a child that was found."""
    return chunk.level != "parent"


class ChunkEmbedder:
    """Makes and stores what the sets of one collection derive from items."""

    def __init__(self, view: CollectionView, caches: Mapping[str, EmbeddingCache], tokenizer: Embedder) -> None:
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
                    if chunk_set.key:
                        pairs = zip(items, made.chunks[chunk_set.key], strict=True)
                        texts = [embedded_text(item, chunk) for item, own in pairs for chunk in own if is_unit(chunk)]
                    else:
                        texts = [text for item in items if (text := embedded_text(item))]
                    made.vectors[each.key] = await self.caches[each.model].embed(texts)
        return made

    def _chunk(self, chunker: Chunker, items: Sequence[Item]) -> list[list[Chunk]]:
        return [chunker.chunk(item, self.tokenizer.tokenize) for item in items]

    async def store(
        self, connection: AsyncConnection, made: Derived, item_keys: Sequence[int], last_keys: dict[int, int]
    ) -> int:
        """Copy chunks and vectors of items that have their keys. Returns the number of chunks."""
        if made.vectors:
            await bulk_load.prepare_vectors(connection)
        count = 0
        for key, chunks in made.chunks.items():
            rows = list(_chunk_rows(made.items, item_keys, chunks, last_keys[key]))
            await bulk_load.copy(connection, chunk_table(key), (row for row, _ in rows))
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
                await bulk_load.copy(connection, vector_table(each.key, each.dimension), rows)


def _chunk_rows(
    items: Sequence[Item], item_keys: Sequence[int], chunks: Sequence[Sequence[Chunk]], last_key: int
) -> Iterator[tuple[tuple[Any, ...], bool]]:
    """Each chunk's row, in the order of the table's columns, and whether it is a unit of search."""
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
    """The next texts to embed, at most that many."""
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


TEXTS_A_STEP = 256  # a step is kept as soon as it is embedded, so a kill costs no more than those under way


def digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


class EmbeddingCache:
    """An embedder behind the table of cached vectors. `computed` counts the texts that it had to embed."""

    def __init__(self, store: Store, embedder: Embedder, progress: Callable[[int], None] = lambda _: None) -> None:
        self.store, self.embedder, self.progress = store, embedder, progress
        self.computed = 0
        self._under_way: dict[bytes, asyncio.Future[dict[bytes, Vectors]]] = {}

    @property
    def lines(self) -> int:
        """How many steps are under way at once: a model here uses all cores for one, a cluster takes several."""
        return int(getattr(self.embedder, "lines", 1))

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """A vector for each text, in order; equal texts get the same one."""
        wanted = {digest(text): text for text in texts}
        elsewhere = {key: self._under_way[key] for key in wanted if key in self._under_way}
        known = await self._embed_new({key: text for key, text in wanted.items() if key not in elsewhere})
        for key, made in elsewhere.items():
            known[key] = (await made)[key]
            self.progress(1)
        if not texts:
            return np.empty((0, self.embedder.dimension), dtype=np.float32)
        return np.stack([known[digest(text)] for text in texts])

    async def missing(self, texts: Sequence[str]) -> int:
        """How many of the texts would have to be embedded."""
        wanted = list({digest(text) for text in texts})
        known = 0
        for at in range(0, len(wanted), TEXTS_A_STEP):
            known += len(await self._known(wanted[at : at + TEXTS_A_STEP]))
        return len(wanted) - known

    async def _embed_new(self, wanted: Mapping[bytes, str]) -> dict[bytes, Vectors]:
        """By digest. A call that wants one of them meanwhile waits for it, so that it is not embedded twice."""
        made = asyncio.get_running_loop().create_future()
        self._under_way |= dict.fromkeys(wanted, made)
        try:
            known = await self._look_up_or_embed(wanted)
        except Exception as error:
            made.set_exception(error)
            made.exception()  # retrieved, so that asyncio does not log it where nobody waits
            raise
        except asyncio.CancelledError:
            made.cancel()
            raise
        finally:
            for key in wanted:
                del self._under_way[key]
        made.set_result(known)
        return known

    async def _look_up_or_embed(self, wanted: Mapping[bytes, str]) -> dict[bytes, Vectors]:
        known = await self._known(list(wanted))
        self.progress(len(known))
        missing = [key for key in wanted if key not in known]
        # The same steps wherever they are embedded: the last digits of a vector depend on the other texts of its batch.
        steps = [missing[at : at + TEXTS_A_STEP] for at in range(0, len(missing), TEXTS_A_STEP)]

        async def make(step: Sequence[bytes]) -> None:
            vectors = await self.embedder.embed([wanted[key] for key in step])
            rows = [
                {"model": self.embedder.model, "digest": key, "vector": vector.astype("<f4").tobytes()}
                for key, vector in sorted(zip(step, vectors, strict=True), key=itemgetter(0))  # else two could deadlock
            ]
            async with self.store.begin() as connection:
                await connection.execute(insert(CachedEmbedding).on_conflict_do_nothing(), rows)
            known.update(zip(step, vectors, strict=True))
            self.computed += len(step)
            self.progress(len(step))

        await bounded(lambda: self.lines, steps, make)
        return known

    async def _known(self, digests: list[bytes]) -> dict[bytes, Vectors]:
        query = select(CachedEmbedding.digest, CachedEmbedding.vector).where(
            CachedEmbedding.model == self.embedder.model,
            CachedEmbedding.digest == any_(literal(digests, ARRAY(LargeBinary))),
        )
        async with self.store.begin() as connection:
            rows = await connection.execute(query)
            return {bytes(key): np.frombuffer(vector, dtype="<f4") for key, vector in rows}


async def forget(store: Store, model: str | None = None) -> int:
    """Empty the cache, of one model or of all; the collections keep their vectors."""
    statement = delete(CachedEmbedding)
    if model is not None:
        statement = statement.where(CachedEmbedding.model == model)
    async with store.begin() as connection:
        return (await connection.execute(statement)).rowcount


@dataclass(frozen=True, slots=True)
class CacheUsage:
    """How many texts a model's embeddings are cached for, and their size."""

    model: str
    texts: int
    bytes: int


async def cache_usage(store: Store) -> list[CacheUsage]:
    """The cache of embeddings, by model."""
    size = func.sum(func.length(CachedEmbedding.vector))
    wanted = select(CachedEmbedding.model, func.count(), size).group_by(CachedEmbedding.model)
    async with store.begin(read_only=True) as connection:
        rows = await connection.execute(wanted.order_by(CachedEmbedding.model))
        return [CacheUsage(model, texts, int(size)) for model, texts, size in rows]
