"""Hybrids over 100,000 synthetic chunks against their slowest leg alone: what asking legs at once is worth."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence

from core import bridge
from core.embedding import Embedder, Vectors, embedder
from core.embedding.base import Purpose
from core.resources import Resources
from core.retriever import RequestContext, search
from core.store import collections
from core.store.collections import View
from core.store.engine import Store
from core.store.ingest import Ingest
from core.variant import Variant
from evals.store import chain
from tests.bench.bulk import CHUNKS, CHUNKS_AN_ITEM, DIMENSION, ReadyVectors, Uncached
from tests.bench.figures import Figure, below, percentile
from tests.bench.synthetic import TEXT_SEED, Texts, kept, questions, without_trigrams

NAME = "hybrid"
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
    async with await Store.open(chains=[chain]) as store:
        model = RealTime(embedder())
        context = RequestContext(store, await _loaded(store, model), Resources(embedder=lambda _: model))
        single = {kind: _variant([kind]) for kinds in HYBRIDS.values() for kind in kinds}
        return list(_figures(await _times(context, single | {name: _variant(each) for name, each in HYBRIDS.items()})))


async def _loaded(store: Store, model: RealTime) -> View:
    """Documents of ten chunks each, with vectors and an HNSW index."""

    async def make() -> View:
        view = await collections.create(store, NAME)
        view = await collections.add_chunk_set(store, view, "pages", {"kind": "pages", "max_tokens": 1000})
        return await collections.add_embedding_set(store, view, view.chunk_set("pages"), model.model, DIMENSION)

    def fill(made: View) -> Ingest:
        ingest = Ingest(without_trigrams(store), made, {model.model: model}, model)
        ingest.caches = {model.model: Uncached(store, model)}
        return ingest

    view, _ = await kept(store, NAME, make, fill, Texts(TEXT_SEED).items(CHUNKS, CHUNKS_AN_ITEM))
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


def _figures(times: Mapping[str, list[float]]) -> Iterator[Figure]:
    for name, kinds in HYBRIDS.items():
        alone = {kind: percentile(times[kind], 0.5) for kind in kinds}
        slowest = max(alone, key=lambda kind: alone[kind])
        p50, p95 = percentile(times[name], 0.5), percentile(times[name], 0.95)
        yield Figure(f"{name}: its slowest leg, {slowest}, alone: p50, ms", f"{alone[slowest]:.1f}")
        yield Figure(f"{name}: p50, ms", f"{p50:.1f}")
        yield below(f"{name}: p50 against its slowest leg", p50 / alone[slowest], 1.3, "{:.2f}")
        yield below(f"{name}: p95, ms", p95, 200 if "fulltext" in kinds else 80)
