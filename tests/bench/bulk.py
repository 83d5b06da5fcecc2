"""Loading 100,000 synthetic chunks with ready-made vectors, against a bare binary COPY of the same rows."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from core import bridge
from core.embedding import Purpose, Vectors
from core.progress import Step
from core.store import bulk_load, collections
from core.store.chunk_and_embed import ChunkEmbedder, Derived, EmbeddingCache
from core.store.engine import Store
from core.store.ingest import Ingest
from core.types import Item, Place, Row
from evals.schema import schema_chain
from tests.bench.figures import Figure, at_least, below, peak_memory

CHUNKS, WORDS, DIMENSION = 100_000, 150, 384
VOCABULARY = 50_000
CHUNKS_AN_ITEM = 10


class ReadyVectors:
    """Hands out vectors that were there before; tokens are words."""

    model, dimension = "ready@none", DIMENSION

    def __init__(self) -> None:
        self.random = np.random.default_rng(0)

    async def embed(self, texts: Sequence[str], purpose: Purpose = "document") -> Vectors:
        return self.random.standard_normal((len(texts), DIMENSION), dtype=np.float32)

    def tokenize(self, text: str) -> Sequence[tuple[int, int]]:
        at, found = 0, []
        for word in text.split(" "):
            found.append((at, at + len(word)))
            at += len(word) + 1
        return found


class Uncached(EmbeddingCache):
    """Ready-made vectors need no cache."""

    async def embed(self, texts: Sequence[str]) -> Vectors:
        return await self.embedder.embed(texts)


def items() -> Iterator[Row[Item]]:
    """Words as frequent as in a language (Zipf), ten chunks to a document."""
    random = np.random.default_rng(1)
    words = np.array([f"word{number:x}" for number in range(VOCABULARY)])
    share = 1 / np.arange(1, VOCABULARY + 1)
    share /= share.sum()
    for number in range(CHUNKS // CHUNKS_AN_ITEM):
        drawn = words[random.choice(VOCABULARY, size=(CHUNKS_AN_ITEM, WORDS), p=share)]
        text = "\f".join(" ".join(row) for row in drawn)
        yield Row(Item(f"doc{number:06d}", text), Place("synthetic", number + 1))


def measure() -> list[Figure]:
    return bridge.run(_measure())


async def _measure() -> list[Figure]:
    async with await Store.open(chains=[schema_chain]) as store:
        view = await _collection(store)
        before = peak_memory()
        ready = ReadyVectors()
        steps = Steps()
        ingest = Ingest(store, view, {ready.model: ready}, ready, steps)
        ingest.caches = {ready.model: Uncached(store, ready)}
        with storing() as spent:
            report = await ingest.run(items())
        grown = peak_memory() - before
        bare = await _bare_copy(store, view)
    ours = report.chunks * 2 / spent[0]
    return [
        Figure("bulk: chunks and vectors a second, filled", f"{ours:,.0f}"),
        Figure("bulk: rows a second, bare binary COPY", f"{bare:,.0f}"),
        at_least("bulk: filling against bare binary COPY", ours / bare, 0.5),
        *(Figure(f"bulk: {name}", f"{rate:,.0f} rows/s") for name, rate in steps.rates()),
        *(Figure(f"bulk: {name}, seconds", f"{spent:.1f}") for name, spent in report.seconds.items()),
        below("bulk: memory growth, MB", grown / 2**20, 300, "{:.0f}"),
    ]


async def _collection(store: Store) -> Any:
    if await collections.find(store, "bulk"):
        await collections.drop(store, "bulk")
    view = await collections.create(store, "bulk")
    view = await collections.add_chunk_set(store, view, "pages", {"kind": "pages", "max_tokens": 1000})
    return await collections.add_embedding_set(store, view, view.chunk_set("pages"), ReadyVectors.model, DIMENSION)


@contextmanager
def storing() -> Iterator[list[float]]:
    """Times what the ingest spends filling tables, and nothing else."""
    spent, store = [0.0], ChunkEmbedder.store

    async def timed(self: ChunkEmbedder, connection: Any, made: Derived, item_keys: Any, last_keys: Any) -> int:
        begun = time.perf_counter()
        stored = await store(self, connection, made, item_keys, last_keys)
        spent[0] += time.perf_counter() - begun
        return stored

    ChunkEmbedder.store = timed  # type: ignore[method-assign]
    try:
        yield spent
    finally:
        ChunkEmbedder.store = store  # type: ignore[method-assign]


class Steps:
    """Listens to the build, and tells how fast each step went."""

    def __init__(self) -> None:
        self.first: dict[str, float] = {}
        self.last: dict[str, tuple[float, int]] = {}
        self._previous = time.perf_counter()

    def __call__(self, step: Step) -> None:
        now = time.perf_counter()
        name = step.name if step.unit != "indexes" else "indexes"
        self.first.setdefault(name, self._previous)
        self.last[name] = (now, CHUNKS if step.unit == "indexes" else step.done)
        self._previous = now

    def rates(self) -> Iterator[tuple[str, float]]:
        for name, (end, done) in self.last.items():
            yield name, done / max(end - self.first[name], 1e-9)


async def _bare_copy(store: Store, view: Any) -> float:
    """The same rows into copies of the two tables that have no index."""
    from sqlalchemy import MetaData, select
    from sqlalchemy.schema import CreateTable

    from core.store.schema import chunk_table, vector_table

    spent = 0.0
    count = 0
    for table in (chunk_table(1), vector_table(1, DIMENSION)):
        async with store.begin(view.namespace, read_only=True) as connection:
            await bulk_load.prepare_vectors(connection)
            rows = [tuple(row) for row in await connection.execute(select(table).limit(CHUNKS // 2))]
        bare = table.to_metadata(MetaData(), name=f"bare_{table.name}")
        async with store.begin(view.namespace) as connection:
            await connection.execute(CreateTable(bare))
            await bulk_load.prepare_vectors(connection)
            begun = time.perf_counter()
            await bulk_load.copy(connection, bare, map(_prepared, rows))
        spent += time.perf_counter() - begun
        count += len(rows)
    return count / spent


def _prepared(row: tuple[Any, ...]) -> tuple[Any, ...]:
    from psycopg.types.json import Jsonb

    return tuple(Jsonb(value) if isinstance(value, dict) else value for value in row)
