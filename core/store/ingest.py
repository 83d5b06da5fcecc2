"""Loading items into a collection: read, compared, chunked, embedded and stored, each step overlapping the next.

A batch is one transaction: an item is stored with all its chunks and vectors or not at all, so a killed load is resumed
by running it again. An unchanged item costs a comparison of digests; a text embedded before is not embedded again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Coroutine, Iterable, Mapping, Sequence
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
from core.store.change_detection import ITEMS_A_BATCH, VANISHED_AT_ONCE, BatchChanges, ChangeDetector
from core.store.chunk_and_embed import TEXTS_A_STEP, ChunkEmbedder, Derived, EmbeddingCache, units_after
from core.store.collections import CollectionView
from core.store.engine import Store
from core.store.schema import ITEM_TABLE, ChunkSet, EmbeddingSet, vector_table
from core.store.schema import ItemRow as StoredItem
from core.tasks import in_order, side_by_side
from core.types import Flaw, Item, Row

FLAWS_KEPT = 10_000  # a file that is wrong in every row must not fill the memory
UNITS_A_BACKFILL = 512
MOST_UNITS_A_BACKFILL = 16_384  # for a cluster that has many workers


@dataclass(slots=True)
class IngestReport:
    """What a load did. `flaws` lists rows left out, cleaned or noted, up to a limit; `flawed` counts them all."""

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
        self._use(view)

    async def run(
        self,
        rows: Iterable[Row[Item] | Flaw],
        *,
        prune: bool = False,
        total: int | None = None,
        gone: Sequence[str] = (),
    ) -> IngestReport:
        """Load the rows, then complete what earlier runs or new sets lack, then texts and indexes.

        `prune` removes the items that were not read; `gone` are ids of items to remove, whatever was read.
        The collection stays marked as being loaded: the caller, who may add labels too, marks it as loaded.
        """
        async with self._locked() as connection:
            async with self.store.begin() as marking:
                await collections.mark_loading(marking, self.view.name)
            async with self._timed("load"):
                await self._load(connection, rows, prune=prune, total=total)
                await self._remove(gone)
            await self._finish()
        return self.report

    async def complete(self) -> IngestReport:
        """Make the chunks and vectors that new chunk sets and embedding sets lack."""
        async with self._locked():
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
        # Where the last load was interrupted, the planner's statistics may be out of date.
        loaded = view.row.version != self.view.row.version or self.view.row.loaded_at is None
        async with self._timed("indexes"):
            await indexes.build(self.store, view, self.listener, loaded=loaded)

    def _use(self, view: CollectionView) -> None:
        """Work on this view: its sets, and the newest keys given in each."""
        if strange := {each.model for each in view.embedding_sets} - set(self.caches):
            raise StoreError(
                f"The collection {view.name!r} is embedded with {', '.join(sorted(strange))} too, which was not given. "
                "Run the same command again."
            )
        self.view = view
        self.deriver = ChunkEmbedder(view, self.caches, self.tokenizer)
        self._last_keys = {each.key: each.last_key for each in view.chunk_sets}

    @asynccontextmanager
    async def _locked(self) -> AsyncIterator[AsyncConnection]:
        async with locks.writer_lock(self.store, self.view.name, namespace=self.view.namespace) as connection:
            self._use(await collections.get(self.store, self.view.name))  # it may have changed meanwhile
            async with embedding_over(self.caches.values()):
                yield connection

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
        detector = ChangeDetector(connection)
        await detector.open()
        changes: asyncio.Queue[BatchChanges | None] = asyncio.Queue(2)
        derived: asyncio.Queue[tuple[BatchChanges, Derived] | None] = asyncio.Queue(2)

        async def read() -> None:
            batches = change_detection.batches(rows, self.view.row.fields)
            while (batch := await asyncio.to_thread(next, batches, None)) is not None:
                await changes.put(await detector.compare(batch))
            await changes.put(None)

        async def arriving() -> AsyncIterator[BatchChanges]:
            while (change := await changes.get()) is not None:
                yield change

        def derive_one(change: BatchChanges) -> Coroutine[Any, Any, Derived]:
            return self.deriver.derive(change.items, self.view.chunk_sets)

        def at_once() -> int:  # as many as embedding steps: a batch need not have more texts than one step
            return max((each.lines for each in self.caches.values()), default=1)

        async def derive() -> None:
            async with aclosing(in_order(at_once, arriving(), derive_one)) as pairs:
                async for pair in pairs:
                    await derived.put(pair)
            await derived.put(None)

        await side_by_side(read(), derive(), self._store_all(derived, total))
        if prune:
            await self._prune(detector)
        else:
            self.report.vanished = await detector.count_vanished()
        await detector.close()

    async def _store_all(self, derived: asyncio.Queue[tuple[BatchChanges, Derived] | None], total: int | None) -> None:
        done = 0
        while (pair := await derived.get()) is not None:
            change, made = pair
            await self._store_batch(change, made)
            done += len(change.items) + change.unchanged
            self.listener(Step("Loading", done, total and max(total, done), "documents"))
        self.listener(Step("Loading", done, done, "documents"))  # the total was an estimate

    async def _store_batch(self, change: BatchChanges, made: Derived) -> None:
        report = self.report
        report.note(change.flaws)
        report.unchanged += change.unchanged
        if not change.items:
            return
        first = self._last_keys[0] + 1
        item_keys = range(first, first + len(change.items))
        last_keys = {**self._last_keys, 0: item_keys[-1]}
        rows = (
            (key, item.id, item.title, item.text, Jsonb(dict(item.metadata)), digest)
            for key, item, digest in zip(item_keys, change.items, change.digests, strict=True)
        )
        async with self.store.begin(self.view.namespace, fresh=True) as connection:
            await self._hold_keys(connection)
            await bulk_load.remove_items(connection, self.view, change.replaced)
            await bulk_load.copy(connection, ITEM_TABLE, rows)
            await connection.execute(update(ChunkSet).where(ChunkSet.key == 0).values(last_key=item_keys[-1]))
            chunks = await self.deriver.store(connection, made, item_keys, last_keys)
            await collections.touch(connection, self.view.name)
        self._last_keys = last_keys
        report.chunks += chunks
        report.changed += len(change.replaced)
        report.added += len(change.items) - len(change.replaced)

    async def _hold_keys(self, connection: AsyncConnection) -> None:
        """Lock the newest keys given, from which this load counts on."""
        newest = select(ChunkSet.key, ChunkSet.last_key).order_by(ChunkSet.key)
        await locks.check_watermark(connection, self.view.name, newest, sorted(self._last_keys.items()))

    async def _prune(self, detector: ChangeDetector) -> None:
        while keys := await detector.vanished():
            await self._remove_keys(keys)
            self.listener(Step("Removing vanished documents", self.report.removed, None, "documents"))

    async def _remove(self, ids: Sequence[str]) -> None:
        for at in range(0, len(ids), VANISHED_AT_ONCE):
            some = any_(literal(list(ids[at : at + VANISHED_AT_ONCE]), ARRAY(Text)))
            async with self.store.begin(self.view.namespace, read_only=True) as connection:
                keys = list(await connection.scalars(select(StoredItem.key).where(StoredItem.id == some)))
            await self._remove_keys(keys)

    async def _remove_keys(self, keys: list[int]) -> None:
        async with self.store.begin(self.view.namespace, fresh=True) as connection:
            await self._hold_keys(connection)  # else what another load stored would seem to have vanished
            await bulk_load.remove_items(connection, self.view, keys)
            await collections.touch(connection, self.view.name)
        self.report.removed += len(keys)

    # -- backfilling -------------------------------------------------------------------------------------------------

    async def _backfill_chunks(self, chunk_set: ChunkSet) -> None:
        """Chunks, and their vectors, of items that are older than the chunk set."""
        query = select(StoredItem).where(StoredItem.key <= chunk_set.backfill_to).order_by(StoredItem.key)
        while chunk_set.derived_to < chunk_set.backfill_to:
            async with self.store.begin(self.view.namespace, read_only=True) as connection:
                after = query.where(StoredItem.key > chunk_set.derived_to).limit(ITEMS_A_BATCH)
                rows = (await connection.execute(after)).all()
            items = [Item(row.id, row.text, row.title, row.metadata) for row in rows]
            made = await self.deriver.derive(items, [chunk_set])
            last_keys = dict(self._last_keys)
            reached = rows[-1].key if len(rows) == ITEMS_A_BATCH else chunk_set.backfill_to
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
        """Vectors of items or chunks that are older than the embedding set."""
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
