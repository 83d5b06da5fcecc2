"""A warm vector search, query embedding included, inside the process."""

from __future__ import annotations

import time

from core import bridge
from core.context import RequestContext
from core.legs.vector import VectorLeg
from core.pipeline.retriever import search
from core.store import collections
from core.store.engine import Store
from core.variant import Variant
from evals.collections import load
from evals.labels import query_sets
from evals.schema import schema_chain
from evals.sources import guess
from tests.bench.figures import Figure, below, percentile


def measure() -> list[Figure]:
    return bridge.run(_measure())


async def _measure() -> list[Figure]:
    async with await Store.open(chains=[schema_chain]) as store:
        source = guess("handbook")
        await load.load_collection(store, "handbook", source)
        view = await collections.get(store, "handbook")
        variant = Variant.of_leg(VectorLeg(), chunks="default")
        queries = (await query_sets.load(store, "handbook")).queries
        for query in queries[:10]:
            await search(RequestContext(store, view), query.text, variant)
        times = []
        for query in queries:
            begun = time.perf_counter()
            await search(RequestContext(store, view), query.text, variant)
            times.append((time.perf_counter() - begun) * 1000)
    return [
        below("warm vector search, query embedded: p50, ms", percentile(times, 0.5), 60),
        below("warm vector search, query embedded: p95, ms", percentile(times, 0.95), 60),
    ]
