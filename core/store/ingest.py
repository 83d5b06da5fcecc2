"""Items into a collection: read, sifted, chunked, embedded and loaded, each step overlapping the next.

A batch is one transaction: an item stands with all its chunks and vectors or not at all, so a killed ingest is resumed
by running it again. What is unchanged costs a comparison of digests; what was embedded before is not embedded again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from psycopg.types.json import Jsonb
from sqlalchemy import Text, any_, literal, select, update
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.ext.asyncio import AsyncConnection

from core.embedding import Embedder
from core.errors import StoreError
from core.progress import Listener, Step, nobody
from core.spread.embedding import embedding_over
from core.store import bulk_load, change_detection, collections, indexes, locks, text_index
from core.store.chunk_and_embed import ITEM_TABLE, TEXTS_A_STEP, ChunkEmbedder, Derived, EmbeddingCache, units_after
from core.store.collections import CollectionView
from core.store.engine import Store
from core.store.schema import ChunkSet, EmbeddingSet, vector_table
from core.store.schema import ItemRow as StoredItem
from core.tasks import in_order, side_by_side
from core.types import Flaw, Item, Row

FLAWS_KEPT = 10_000  # a file that is wrong in every row must not fill the memory
UNITS_A_BACKFILL = 512
MOST_UNITS_A_BACKFILL = 16_384  # for a cluster that has many workers


@dataclass(slots=True)
class IngestReport:
    """What an ingest did. `flaws` lists rows left out, cleaned or noted, up to a limit; `flawed` counts them all."""

    added: int = 0
    changed: int = 0
    unchanged: int = 0
    removed: int = 0
    vanished: int = 0  # documents that stay, although the source no longer has them
    chunks: int = 0
    embedded: int = 0
    flawed: int = 0
    flaws: list[Flaw] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)

    def note(self, flaws: Iterable[Flaw]) -> None:
        for flaw in flaws:
            self.flawed += 1
            if len(self.flaws) < FLAWS_KEPT:
                self.flaws.append(flaw)

    @property
    def touched(self) -> bool:
        return bool(self.added or self.changed or self.removed or self.chunks)


class Ingest:
    """One run over one collection. `embedders` holds a model for every embedding set's id."""

    def __init__(
        self,
        store: Store,
        view: CollectionView,
        embedders: Mapping[str, Embedder],
        tokenizer: Embedder,
        listener: Listener = nobody,
    ) -> None:
        self.store, self.listener = store, listener
        self.report = IngestReport()
        self._embedded = 0
        self._to_embed: int | None = None  # unknown while texts are still being read and chunked
        self.caches = {model: EmbeddingCache(store, each, self._count) for model, each in embedders.items()}
        self.tokenizer = tokenizer
        self._take(view)

    async def run(
        self,
        rows: Iterable[Row[Item] | Flaw],
        *,
        prune: bool = False,
        total: int | None = None,
        gone: Sequence[str] = (),
    ) -> IngestReport:
        """Load the rows, then do what earlier runs or new sets left to do, then texts and indexes.

        `prune` removes the items that were not read; `gone` are ids of items to remove, whatever was read.
        The collection stays marked as being loaded: whoever brings in more, labels for instance, says when all is done.
        """
        async with self._alone() as connection:
            async with self.store.begin() as marking:
                await collections.mark_loading(marking, self.view.name)
            async with self._timed("load"):
                await self._load(connection, rows, prune=prune, total=total)
                await self._remove(gone)
            await self._finish()
        return self.report

    async def complete(self) -> IngestReport:
        """Give new chunk sets and embedding sets what they lack of the items there are."""
        async with self._alone():
            await self._finish()
        return self.report

    async def _finish(self) -> None:
        async with self._timed("backfill"):
            for chunk_set in self.view.chunk_sets:
                await self._backfill_chunks(chunk_set)
            for embedding_set in self.view.embedding_sets:
                await self._backfill_vectors(embedding_set)
            if self._to_embed:
                self._to_embed = self._embedded  # parents and repeats were counted, and are not embedded
                self._count(0)
        self.report.embedded = sum(cache.computed for cache in self.caches.values())
        view = await collections.get(self.store, self.view.name)
        async with self._timed("texts"):
            await text_index.update_texts(self.store, view, self.listener)
        # Where the run before was interrupted, it may have been before the planner was told.
        loaded = view.row.version != self.view.row.version or self.view.row.loaded_at is None
        async with self._timed("indexes"):
            await indexes.build(self.store, view, self.listener, loaded=loaded)

    def _take(self, view: CollectionView) -> None:
        """Work from the collection as it stands: its sets, and the newest keys given in each."""
        if strange := {each.model for each in view.embedding_sets} - set(self.caches):
            raise StoreError(
                f"The collection {view.name!r} is embedded with {', '.join(sorted(strange))} too, which was not given. "
                "Run the same command again."
            )
        self.view = view
        self.deriver = ChunkEmbedder(view, self.caches, self.tokenizer)
        self._last_keys = {each.key: each.last_key for each in view.chunk_sets}

    @asynccontextmanager
    async def _alone(self) -> AsyncIterator[AsyncConnection]:
        async with locks.writer_lock(self.store, self.view.name, namespace=self.view.namespace) as connection:
            self._take(await collections.get(self.store, self.view.name))  # somebody may have written meanwhile
            async with embedding_over(self.caches.values()):
                yield connection

    @property
    def _lines(self) -> int:
        """How many steps of texts are to be under way at once."""
        return max((each.lines for each in self.caches.values()), default=1)

    @asynccontextmanager
    async def _timed(self, name: str) -> AsyncIterator[None]:
        begun = time.monotonic()
        yield
        self.report.seconds[name] = time.monotonic() - begun

    def _count(self, texts: int) -> None:
        self._embedded += texts
        self.listener(Step("Embedding", self._embedded, self._to_embed, "texts"))

    # -- loading -----------------------------------------------------------------------------------------------------

    async def _load(
        self, connection: AsyncConnection, rows: Iterable[Row[Item] | Flaw], *, prune: bool, total: int | None
    ) -> None:
        """Reading, deriving and storing run side by side; the queues between them hold two batches."""
        sieve = change_detection.ChangeDetector(connection)
        await sieve.open()
        derived: asyncio.Queue[tuple[change_detection.BatchChanges, Derived] | None] = asyncio.Queue(2)
        changes: asyncio.Queue[change_detection.BatchChanges | None] = asyncio.Queue(2)
        await side_by_side(
            self._read(sieve, change_detection.batches(rows, self.view.row.fields), changes),
            self._derive(changes, derived),
            self._store(derived, total),
        )
        if prune:
            await self._prune(sieve)
        else:
            self.report.vanished = await sieve.count_vanished()
        await sieve.close()

    async def _read(
        self,
        sieve: change_detection.ChangeDetector,
        batches: Iterator[change_detection.ItemBatch],
        into: asyncio.Queue[change_detection.BatchChanges | None],
    ) -> None:
        while (batch := await asyncio.to_thread(next, batches, None)) is not None:
            await into.put(await sieve.sift(batch))
        await into.put(None)

    async def _derive(
        self,
        changes: asyncio.Queue[change_detection.BatchChanges | None],
        into: asyncio.Queue[tuple[change_detection.BatchChanges, Derived] | None],
    ) -> None:
        """As many changes at once as steps, as one need not have more texts than a step has; on they go in order."""

        async def arriving() -> AsyncIterator[change_detection.BatchChanges]:
            while (change := await changes.get()) is not None:
                yield change

        def derive(change: change_detection.BatchChanges) -> Coroutine[Any, Any, Derived]:
            return self.deriver.derive(change.items, self.view.chunk_sets)

        async with aclosing(in_order(lambda: self._lines, arriving(), derive)) as pairs:
            async for pair in pairs:
                await into.put(pair)
        await into.put(None)

    async def _store(
        self, derived: asyncio.Queue[tuple[change_detection.BatchChanges, Derived] | None], total: int | None
    ) -> None:
        done = 0
        while (pair := await derived.get()) is not None:
            change, made = pair
            await self._store_batch(change, made)
            done += len(change.items) + change.unchanged
            self.listener(Step("Loading", done, total and max(total, done), "documents"))
        self.listener(Step("Loading", done, done, "documents"))  # the total was an estimate

    async def _store_batch(self, change: change_detection.BatchChanges, made: Derived) -> None:
        report = self.report
        report.note(change.flaws)
        report.unchanged += change.unchanged
        if not change.items:
            return
        first = self._last_keys[0] + 1
        item_keys = range(first, first + len(change.items))
        last_keys = {**self._last_keys, 0: item_keys[-1]}
        async with self.store.begin(self.view.namespace, fresh=True) as connection:
            await self._hold_keys(connection)
            await bulk_load.remove_items(connection, self.view, change.replaced)
            await bulk_load.copy(connection, ITEM_TABLE, _item_rows(change, item_keys))
            await connection.execute(update(ChunkSet).where(ChunkSet.key == 0).values(last_key=item_keys[-1]))
            chunks = await self.deriver.store(connection, made, item_keys, last_keys)
            await collections.touch(connection, self.view.name)
        self._last_keys = last_keys
        report.chunks += chunks
        report.changed += len(change.replaced)
        report.added += len(change.items) - len(change.replaced)

    async def _hold_keys(self, connection: AsyncConnection) -> None:
        """The newest keys given, which this load counts on from."""
        newest = select(ChunkSet.key, ChunkSet.last_key).order_by(ChunkSet.key)
        await locks.check_watermark(connection, self.view.name, newest, sorted(self._last_keys.items()))

    async def _prune(self, sieve: change_detection.ChangeDetector) -> None:
        while keys := await sieve.vanished():
            async with self.store.begin(self.view.namespace, fresh=True) as connection:
                await self._hold_keys(connection)  # else what the other one stored would seem to have vanished
                await bulk_load.remove_items(connection, self.view, keys)
                await collections.touch(connection, self.view.name)
            self.report.removed += len(keys)
            self.listener(Step("Removing vanished documents", self.report.removed, None, "documents"))

    async def _remove(self, ids: Sequence[str]) -> None:
        for at in range(0, len(ids), change_detection.VANISHED_AT_ONCE):
            some = any_(literal(list(ids[at : at + change_detection.VANISHED_AT_ONCE]), ARRAY(Text)))
            async with self.store.begin(self.view.namespace, fresh=True) as connection:
                await self._hold_keys(connection)
                keys = list(await connection.scalars(select(StoredItem.key).where(StoredItem.id == some)))
                await bulk_load.remove_items(connection, self.view, keys)
                await collections.touch(connection, self.view.name)
            self.report.removed += len(keys)

    # -- backfilling -------------------------------------------------------------------------------------------------

    async def _backfill_chunks(self, chunk_set: ChunkSet) -> None:
        """Chunks, and their vectors, of items that were there before the chunk set."""
        query = select(StoredItem).where(StoredItem.key <= chunk_set.backfill_to).order_by(StoredItem.key)
        while chunk_set.derived_to < chunk_set.backfill_to:
            async with self.store.begin(self.view.namespace, read_only=True) as connection:
                after = query.where(StoredItem.key > chunk_set.derived_to).limit(change_detection.ITEMS_A_BATCH)
                rows = (await connection.execute(after)).all()
            items = [Item(row.id, row.text, row.title, row.metadata) for row in rows]
            made = await self.deriver.derive(items, [chunk_set])
            last_keys = dict(self._last_keys)
            reached = rows[-1].key if len(rows) == change_detection.ITEMS_A_BATCH else chunk_set.backfill_to
            async with self.store.begin(self.view.namespace, fresh=True) as connection:
                await self._hold_keys(connection)
                self.report.chunks += await self.deriver.store(connection, made, [row.key for row in rows], last_keys)
                await connection.execute(
                    update(ChunkSet).where(ChunkSet.key == chunk_set.key).values(derived_to=reached)
                )
                await collections.touch(connection, self.view.name)
            self._last_keys, chunk_set.derived_to = last_keys, reached
            self.listener(Step(f"Chunking {chunk_set.name}", reached, chunk_set.backfill_to, "documents"))

    async def _backfill_vectors(self, embedding_set: EmbeddingSet) -> None:
        """Vectors of items or chunks that were there before the embedding set."""
        cache = self.caches[embedding_set.model]
        while embedding_set.embedded_to < embedding_set.backfill_to:
            most = min(max(UNITS_A_BACKFILL, 2 * cache.lines * TEXTS_A_STEP), MOST_UNITS_A_BACKFILL)
            lacking = sum(each.backfill_to - each.embedded_to for each in self.view.embedding_sets)
            self._to_embed = self._embedded + lacking
            async with self.store.begin(self.view.namespace, read_only=True) as connection:
                units = await units_after(connection, embedding_set, most)
            reached = units[-1][1] if len(units) == most else embedding_set.backfill_to
            units = [unit for unit in units if unit[3]]
            vectors = await cache.embed([text for *_, text in units])
            async with self.store.begin(self.view.namespace, fresh=True) as connection:
                reached_now = select(EmbeddingSet.embedded_to).where(EmbeddingSet.key == embedding_set.key)
                await locks.check_watermark(connection, self.view.name, reached_now, [(embedding_set.embedded_to,)])
                await bulk_load.prepare_vectors(connection)
                rows = ((*unit[:3], vector) for unit, vector in zip(units, vectors, strict=True))
                await bulk_load.copy(connection, vector_table(embedding_set.key, embedding_set.dimension), rows)
                await connection.execute(
                    update(EmbeddingSet).where(EmbeddingSet.key == embedding_set.key).values(embedded_to=reached)
                )
                await collections.touch(connection, self.view.name)
            embedding_set.embedded_to = reached


def _item_rows(change: change_detection.BatchChanges, keys: Sequence[int]) -> Iterator[tuple[Any, ...]]:
    for key, item, digest in zip(keys, change.items, change.digests, strict=True):
        yield key, item.id, item.title, item.text, Jsonb(dict(item.metadata)), digest
