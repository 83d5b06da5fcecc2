"""Hybrids over 100,000 synthetic chunks against their slowest leg alone: what asking legs at once is worth."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

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
from tests.bench.bulk import DIMENSION, VOCABULARY, ReadyVectors, Uncached, items
from tests.bench.figures import Figure, below, percentile

QUESTIONS = 60
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
        view = await _loaded(store, model)
        context = RequestContext(store, view, Resources(embedder=lambda _: model))
        figures = []
        for name, kinds in HYBRIDS.items():
            alone = {kind: percentile(await _times(context, (kind,)), 0.5) for kind in kinds}
            slowest = max(alone, key=lambda kind: alone[kind])
            together = await _times(context, kinds)
            p50, p95 = percentile(together, 0.5), percentile(together, 0.95)
            most = 200 if "fulltext" in kinds else 80
            figures += [
                Figure(f"{name}: its slowest leg, {slowest}, alone: p50, ms", f"{alone[slowest]:.1f}"),
                below(f"{name}: p50 against its slowest leg", p50 / alone[slowest], 1.3, "{:.2f}"),
                below(f"{name}: p95, ms", p95, most),
            ]
        return figures


async def _loaded(store: Store, model: RealTime) -> View:
    view = await collections.create(store, "hybrid")
    view = await collections.add_chunk_set(store, view, "pages", {"kind": "pages", "max_tokens": 1000})
    view = await collections.add_embedding_set(store, view, view.chunk_set("pages"), model.model, DIMENSION)
    ingest = Ingest(store, view, {model.model: model}, model)
    ingest.caches = {model.model: Uncached(store, model)}
    await ingest.run(items())
    return await collections.get(store, "hybrid")


async def _times(context: RequestContext, kinds: Sequence[str]) -> list[float]:
    """Milliseconds a search, the query's embedding included, after a few to warm up."""
    variant = Variant.from_data({"chunks": "pages", "leg": [{"kind": kind} for kind in kinds]})
    times = []
    for question in questions():
        begun = time.perf_counter()
        await search(context, question, variant)
        times.append((time.perf_counter() - begun) * 1000)
    return times[10:]


def questions() -> list[str]:
    """Natural in length, and in how frequent their words are: 8 to 15 of them, drawn as the texts' are."""
    random = np.random.default_rng(2)
    share = 1 / np.arange(1, VOCABULARY + 1)
    share /= share.sum()
    return [
        " ".join(f"word{number:x}" for number in random.choice(VOCABULARY, size=random.integers(8, 16), p=share))
        for _ in range(QUESTIONS)
    ]
