"""Hybrids over synthetic chunks against their slowest leg: what asking legs at once is worth, and how it grows."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from core import bridge
from core.context import RequestContext, Resources
from core.embedding import Embedder, Vectors, embedder
from core.embedding.base import Purpose
from core.pipeline.retriever import search
from core.store import collections
from core.store.collections import CollectionView
from core.store.engine import Store
from core.store.ingest import Ingest
from core.variant import Variant
from evals.schema import schema_chain
from tests.bench.bulk import CHUNKS, CHUNKS_AN_ITEM, DIMENSION, ReadyVectors, Uncached
from tests.bench.figures import Figure, below, peak_memory, percentile
from tests.bench.server_memory import ServerMemory
from tests.bench.synthetic import TEXT_SEED, Texts, kept, loading, questions, without_trigrams

# RANKBOOK_BENCH_HYBRID=10000,100000,1000000 measures more; what each takes to load is told where it is made.
SIZES = tuple(map(int, os.environ.get("RANKBOOK_BENCH_HYBRID", str(CHUNKS)).split(",")))
QUESTIONS, WARM_UP = 100, 10
HYBRIDS = {"vector + fulltext + bm25": ("vector", "fulltext", "bm25"), "vector + bm25": ("vector", "bm25")}


class RealTime(ReadyVectors):
    """Ready-made vectors, but a question costs what the default model takes to embed it."""

    def __init__(self, real: Embedder) -> None:
        super().__init__()
        self.real = real

    async def embed(self, texts: Sequence[str], purpose: Purpose = "document") -> Vectors:
        if purpose == "query":
            await self.real.embed(texts, purpose)
        return await super().embed(texts, purpose)


def measure() -> list[Figure]:
    return bridge.run(_measure())


async def _measure() -> list[Figure]:
    single = {kind: _variant([kind]) for kinds in HYBRIDS.values() for kind in kinds}
    variants = single | {name: _variant(each) for name, each in HYBRIDS.items()}
    figures: list[Figure] = []
    async with await Store.open(chains=[schema_chain]) as store:
        model = RealTime(embedder())
        for size in SIZES:
            with ServerMemory(store.server.data if store.server else Path()) as held:
                view = await _loaded(store, model, size, figures)
                context = RequestContext(store, view, Resources(embedder=lambda _: model))
                times = await _times(context, variants)
            figures += [*_figures(size, times), _memory(size, times, held)]
    return figures


async def _loaded(store: Store, model: RealTime, size: int, figures: list[Figure]) -> CollectionView:
    """Documents of ten chunks each, with vectors and an HNSW index."""
    name = f"hybrid {size}"

    async def make() -> CollectionView:
        view = await collections.create(store, name)
        view = await collections.add_chunk_set(store, view, "pages", {"kind": "pages", "max_tokens": 1000})
        return await collections.add_embedding_set(store, view, view.chunk_set("pages"), model.model, DIMENSION)

    def fill(made: CollectionView) -> Ingest:
        ingest = Ingest(without_trigrams(store), made, {model.model: model}, model)
        ingest.caches = {model.model: Uncached(store, model)}
        return ingest

    begun = time.perf_counter()
    view, report = await kept(store, name, make, fill, Texts(TEXT_SEED).items(size, CHUNKS_AN_ITEM))
    if report is not None:
        figures += await loading(store, view, size, report, time.perf_counter() - begun)
    return view


async def _times(context: RequestContext, variants: Mapping[str, Variant]) -> dict[str, list[float]]:
    """Milliseconds a search, the query's embedding included, after a few to warm up.

    The variants take turns, question by question: a machine that is busy for a while is so for all of them.
    """
    times: dict[str, list[float]] = {name: [] for name in variants}
    for number, question in enumerate(questions(WARM_UP + QUESTIONS)):
        for name, variant in variants.items():
            begun = time.perf_counter()
            await search(context, question, variant)
            if number >= WARM_UP:
                times[name].append((time.perf_counter() - begun) * 1000)
    return times


def _variant(kinds: Sequence[str]) -> Variant:
    return Variant.from_data({"chunks": "pages", "leg": [{"kind": kind} for kind in kinds]})


def _figures(size: int, times: Mapping[str, list[float]]) -> Iterator[Figure]:
    """Targets are for the size that everybody measures."""
    for name, kinds in HYBRIDS.items():
        alone = {kind: percentile(times[kind], 0.5) for kind in kinds}
        slowest = max(alone, key=lambda kind: alone[kind])
        p50, p95 = percentile(times[name], 0.5), percentile(times[name], 0.95)
        what = f"{size:,} chunks, {name}"
        yield Figure(f"{what}: its slowest leg, {slowest}, alone: p50, ms", f"{alone[slowest]:.1f}")
        yield Figure(f"{what}: p50, ms", f"{p50:.1f}")
        ratio, most = p50 / alone[slowest], 200 if "fulltext" in kinds else 80
        compared = below(f"{what}: p50 against its slowest leg", ratio, 1.3, "{:.2f}")
        last = below(f"{what}: p95, ms", p95, most)
        yield from (compared, last) if size == CHUNKS else (untold(compared), untold(last))


def untold(figure: Figure) -> Figure:
    """The same without a target."""
    return Figure(figure.what, figure.measured)


def _memory(size: int, times: Mapping[str, list[float]], held: ServerMemory) -> Figure:
    """What was held at most while it was loaded, if it was, and asked; with its row of a table."""
    server, ours = held.most / 2**20, peak_memory() / 2**20
    p95 = {f"{name}, p95": f"{percentile(times[name], 0.95):.0f} ms" for name in HYBRIDS}
    most = {"held at most by the server": f"{server:,.0f} MB", "by Rankbook's process": f"{ours:,.0f} MB"}
    row = {"chunks": f"{size:,}", **p95, **most}
    what = f"{size:,} chunks: held at most by the server and by this process, MB"
    return Figure(what, f"{server:,.0f}, {ours:,.0f}", section="Hybrids", row=tuple(row.items()))
