"""Every leg and preset on labelled collections: quality and latency. With --markdown, the README's table of results.

Chunks are rolled up to their items before they are scored. What needs a language model is left out.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

from core import bridge
from core.legs import Leg, legs
from core.presets import names, preset
from core.retriever import RequestContext, search
from core.store import collections
from core.store.collections import View
from core.store.engine import Store
from core.variant import Rollup, Variant
from evals import library, metrics, query_sets
from evals.sources import guess
from evals.store import chain
from tests.bench.figures import SHARED, Figure, percentile

COLLECTIONS = ("handbook", "cranfield", "scifact")
DEPTH, WARM_UP = 100, 3
NEEDS_A_LANGUAGE_MODEL = {"context-pack"}


def measure() -> list[Figure]:
    return bridge.run(_measure(os.environ.get("RANKBOOK_BENCH_COLLECTIONS", " ".join(COLLECTIONS)).split()))


async def _measure(chosen: list[str]) -> list[Figure]:
    figures = []
    async with await Store.open(chains=[chain]) as store:
        for name in chosen:
            view, grades, queries = await _loaded(store, name)
            figures += [await _scored(store, view, each, grades, queries) for each in _variants(view)]
    return figures


async def _loaded(store: Store, name: str) -> tuple[View, dict[str, dict[str, int]], dict[str, str]]:
    source = guess(name if name == "handbook" else SHARED / name)
    chunks = {"default": {"kind": "sentences", "max_tokens": 200}, "parents": {"kind": "parent_child"}}
    plan = library.plan_for(source) if name == "handbook" else library.Plan(chunks=chunks, check=False)
    await library.add(store, name, source, plan)
    labelled = await query_sets.load(store, name)
    grades: dict[str, dict[str, int]] = {}
    for label in labelled.labels:
        if label.split == "test" or name == "handbook":
            grades.setdefault(label.query_id, {})[label.item_id] = label.grade
    asked = {query.id: query.text for query in labelled.queries if query.id in grades}
    return await collections.get(store, name), grades, asked


def _variants(view: View) -> Iterator[Variant]:
    """Each leg over whole documents and over chunks, then the presets, all deep enough for recall@100."""
    for kind in sorted(legs):
        leg: Leg = legs[kind]()
        yield Variant.of_leg(leg, chunks="items", top_k=DEPTH).model_copy(update={"name": f"{kind}, documents"})
        over_chunks = Variant.of_leg(leg, chunks="default", top_k=DEPTH, rollup=Rollup())
        yield over_chunks.model_copy(update={"name": f"{kind}, chunks", "overfetch": 3})
    for name in names():
        if name not in NEEDS_A_LANGUAGE_MODEL:
            yield preset(name)


async def _scored(
    store: Store, view: View, variant: Variant, grades: dict[str, dict[str, int]], queries: dict[str, str]
) -> Figure:
    context = RequestContext(store, view)
    for text in list(queries.values())[:WARM_UP]:
        await search(context, text, variant)
    ranked, times = {}, []
    for query, text in queries.items():
        begun = time.perf_counter()
        bundle = await search(context, text, variant)
        times.append((time.perf_counter() - begun) * 1000)
        ranked[query] = list(dict.fromkeys(hit.item_id for hit in bundle.hits))
    ndcg = metrics.mean(metrics.scores(grades, ranked, "ndcg@10"))
    recall = metrics.mean(metrics.scores(grades, ranked, "recall@100"))
    p50, p95 = percentile(times, 0.5), percentile(times, 0.95)
    cells = {
        "nDCG@10": f"{ndcg:.3f}",
        "recall@100": f"{recall:.3f}",
        "p50": f"{p50:.0f} ms",
        "p95": f"{p95:.0f} ms",
    }
    measured = "  ".join(f"{name} {value}" for name, value in cells.items())
    row = (("leg or preset", variant.name), *cells.items())
    return Figure(f"{view.name}: {variant.name}", measured, section=f"{view.name}, {len(queries):,} queries", row=row)
