"""The legs that read postings and lexemes: how long they take as collections grow, and what they find on cranfield.

Times are of `recall` alone: a hundred units, inside the process. Sizes and legs are asked in turn, question by
question, so that a machine that is busy for a while is so for all.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from core import bridge
from core.legs import Leg, PreparedQuery, legs
from core.legs.fulltext import FulltextLeg
from core.store import collections
from core.store.collections import CollectionView
from core.store.engine import Store
from core.store.ingest import Ingest
from core.store.names import ITEMS
from core.store.resolve_target import search_target
from core.types import Query
from evals.collections import load
from evals.labels import query_sets
from evals.metrics import scoring
from evals.schema import schema_chain
from evals.sources import guess
from tests.bench.bulk import ReadyVectors
from tests.bench.figures import SHARED, Figure, at_least, below, percentile
from tests.bench.synthetic import TEXT_SEED, Texts, kept, loading, questions, without_trigrams

# RANKBOOK_BENCH_CHUNKS=10000,100000,1000000 measures more; what the last of these takes to build is told with it.
SIZES = tuple(map(int, os.environ.get("RANKBOOK_BENCH_CHUNKS", "10000,100000").split(",")))
QUESTIONS, WARM_UP, DEPTH = 100, 10, 100
POOL = 1000
POOLED = f"fulltext any, pool {POOL}"
LONGEST = {"bm25": 50.0, "fulltext any": 95.0}  # ms, at 100,000
MEASURED: dict[str, Leg] = {
    "bm25": legs["bm25"](),
    "fulltext any": legs["fulltext"](),
    "fulltext web": FulltextLeg(mode="web"),
    POOLED: FulltextLeg(pool=POOL),
}
Times = Mapping[str, Mapping[int, Sequence[float]]]


def measure() -> list[Figure]:
    return bridge.run(_measure())


async def _measure() -> list[Figure]:
    async with await Store.open(chains=[schema_chain]) as store:
        figures: list[Figure] = []
        views = {size: await _made(store, size, figures) for size in SIZES}
        times = await _all_times(store, views)
        figures += [*_latencies(times), *_growth(times)]
        figures += [await _kept(store, views[size], size) for size in SIZES[:2]]
        figures += await _on_cranfield(store)
    return figures


# -- growth ---------------------------------------------------------------------------------------------------------


async def _made(store: Store, size: int, figures: list[Figure]) -> CollectionView:
    """A collection of items of one chunk each."""
    name, model = f"synthetic {size}", ReadyVectors()
    begun = time.perf_counter()
    view, report = await kept(
        store,
        name,
        lambda: collections.create(store, name),
        lambda made: Ingest(without_trigrams(store), made, {}, model),
        Texts(TEXT_SEED).items(size),
    )
    if report is not None:
        figures += await loading(store, view, size, report, time.perf_counter() - begun)
    return view


async def _all_times(store: Store, views: Mapping[int, CollectionView]) -> Times:
    """Milliseconds by leg and size, one for each question."""
    times: dict[str, dict[int, list[float]]] = {name: {size: [] for size in views} for name in MEASURED}
    asked = questions(QUESTIONS)
    for number, question in enumerate((*asked[:WARM_UP], *asked)):
        for name, leg in MEASURED.items():
            for size, view in views.items():
                spent = await _timed(store, view, leg, question)
                if number >= WARM_UP:
                    times[name][size].append(spent)
    return times


async def _timed(store: Store, view: CollectionView, leg: Leg, question: str) -> float:
    async with store.begin(view.namespace, read_only=True) as connection:
        begun = time.perf_counter()
        await leg.recall(connection, search_target(store, view, ITEMS), PreparedQuery(question), DEPTH)
        return (time.perf_counter() - begun) * 1000


def _latencies(times: Times) -> Iterator[Figure]:
    for name, sizes in times.items():
        for size, values in sizes.items():
            what, p50 = f"{name} at {size:,} chunks: p50, ms", percentile(list(values), 0.5)
            longest = LONGEST.get(name) if size == 100_000 else None
            yield below(what, p50, longest) if longest else Figure(what, f"{p50:.1f}")
            yield Figure(f"{name} at {size:,} chunks: p95, ms", f"{percentile(list(values), 0.95):.1f}")


def _growth(times: Times) -> Iterator[Figure]:
    """From each size to the next, by the medians."""
    for name, sizes in times.items():
        medians = {size: percentile(list(values), 0.5) for size, values in sizes.items()}
        row = [("p50, ms", name), *((f"{size:,} chunks", f"{median:.1f}") for size, median in medians.items())]
        grown = [(small, large, medians[large] / medians[small]) for small, large in pairwise(SIZES)]
        for small, large, ratio in grown:
            what = f"{name}: growth of p50 from {small:,} to {large:,} chunks"
            figure = below(what, ratio, large / small)
            yield figure if name in LONGEST else Figure(what, figure.measured)
        whole = medians[SIZES[-1]] / medians[SIZES[0]]
        row.append((f"growth for {SIZES[-1] // SIZES[0]:,} x the chunks", f"{whole:.1f} x"))
        yield Figure(f"{name}: growth from first to last", f"{whole:.1f}", section="Growth", row=tuple(row))


async def _kept(store: Store, view: CollectionView, size: int) -> Figure:
    """What ranking only a pool loses: how many of the true first ten it still brings."""
    shares = []
    for question in questions(30):
        true = await _ids(store, view, legs["fulltext"](), question, 10)
        found = await _ids(store, view, FulltextLeg(pool=POOL), question, 10)
        shares.append(len(set(true) & set(found)) / max(len(true), 1))
    return Figure(f"{POOLED}, at {size:,} chunks: share of the first ten kept", f"{statistics.mean(shares):.3f}")


# -- cranfield ------------------------------------------------------------------------------------------------------


async def _on_cranfield(store: Store) -> list[Figure]:
    await load.load_collection(
        store, "cranfield", guess(SHARED / "cranfield"), load.LoadPlan(chunks={}, models=(), check=False)
    )
    view, labelled = await collections.get(store, "cranfield"), await query_sets.load(store, "cranfield")
    grades: dict[str, dict[str, int]] = {}
    for label in labelled.labels:
        grades.setdefault(label.query_id, {})[label.item_id] = label.grade
    asked = [query for query in labelled.queries if query.id in grades]
    found = {name: await _scored(store, view, legs[name](), asked, grades) for name in ("fuzzy", "trigram", "bm25")}
    (fuzzy, quick), (trigram, slow) = found["fuzzy"], found["trigram"]
    return [
        *(Figure(f"cranfield, {name}: nDCG@10", f"{score:.4f}") for name, (score, _) in found.items()),
        *(Figure(f"cranfield, {name}: p50, ms", f"{median:.1f}") for name, (_, median) in found.items()),
        at_least("cranfield: fuzzy's nDCG@10 over trigram's", fuzzy / trigram, 1.0),
        at_least("cranfield: trigram's p50 over fuzzy's", slow / quick, 10.0, "{:.1f}"),
    ]


async def _scored(
    store: Store, view: CollectionView, leg: Leg, asked: Sequence[Query], grades: Mapping[str, Mapping[str, int]]
) -> tuple[float, float]:
    ranked = {query.id: await _ids(store, view, leg, query.text, DEPTH) for query in asked}
    times = [await _timed(store, view, leg, query.text) for query in asked]
    return scoring.score_rankings(grades, ranked, ["ndcg@10"]).means()["ndcg@10"], statistics.median(times)


async def _ids(store: Store, view: CollectionView, leg: Leg, question: str, depth: int) -> list[str]:
    async with store.begin(view.namespace, read_only=True) as connection:
        found = await leg.recall(connection, search_target(store, view, ITEMS), PreparedQuery(question), depth)
        return [each.id for each in found]
