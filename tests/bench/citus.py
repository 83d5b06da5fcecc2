"""A Citus cluster beside one server: the same ids and scores for every leg, distance and preset, and how long it takes.

RANKBOOK_TEST_CITUS_DSN names the cluster; without it, nothing is measured. One server is the embedded one. Each is
asked the same queries of the same collections, the cluster straight after the server.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from core import bridge
from core.legs import Leg
from core.legs.vector import VectorLeg
from core.retriever import RequestContext, search
from core.store import collections
from core.store.engine import Store
from core.variant import Rollup, Variant
from evals import library, query_sets
from evals.running import runner
from evals.runs import Run
from evals.splits import ALL, Split
from evals.store import chain
from tests.bench.figures import Figure
from tests.bench.presets import load, variants

DSN = os.environ.get("RANKBOOK_TEST_CITUS_DSN")
COLLECTIONS = ("handbook", "scifact")
SHOWN = 10  # ranks of a list that are compared
TIMED, WARM_UP = 20, 3  # queries searched for one at a time
MOST = int(os.environ.get("RANKBOOK_BENCH_QUERIES", "100"))  # of a collection


@dataclass(frozen=True, slots=True)
class Measured:
    """What one store made of a collection: its runs by variant, how long they took, and milliseconds of searches."""

    variants: dict[str, Variant]
    runs: dict[str, Run]
    seconds: float
    searches: dict[str, list[float]]


def measure() -> list[Figure]:
    if DSN is None:
        return [Figure("a Citus cluster", "not measured: RANKBOOK_TEST_CITUS_DSN names none")]
    chosen = os.environ.get("RANKBOOK_BENCH_COLLECTIONS", " ".join(COLLECTIONS)).split()
    return [figure for name in chosen for figure in bridge.run(_compared(name))]


async def _compared(name: str) -> list[Figure]:
    async with await Store.open(chains=[chain]) as single, await Store.open(DSN, chains=[chain]) as cluster:
        await load(single, name)
        if await collections.find(cluster, name) is not None:  # of an earlier run, whose batches would be kept
            await library.drop(cluster, name)
        await load(cluster, name)
        one, many = await _measured(single, name), await _measured(cluster, name)
        figures = [_equality(name, variant, one, many) for variant in one.runs]
        return [*figures, *_ratios(name, one, many)]


async def _measured(store: Store, name: str) -> Measured:
    context = RequestContext(store, await collections.get(store, name))
    split = Split.of(await query_sets.load(store, name), ALL if name == "handbook" else "test")
    split = replace(split, queries=dict(list(split.queries.items())[:MOST]))
    asked, begun = [*variants(), *_distances()], time.perf_counter()
    runs = await runner.run(context, asked, split, options=runner.Options(again=True))
    seconds = time.perf_counter() - begun
    texts = [query.text for query in split.queries.values()][: WARM_UP + TIMED]
    searches = {each.name: await _timed(context, each, texts) for each in asked}
    return Measured({each.name: each for each in asked}, {run.name: run for run in runs}, seconds, searches)


def _distances() -> Iterator[Variant]:
    for distance in ("cosine", "l2", "ip"):
        for exact in (False, True):
            leg = VectorLeg(distance=distance, exact=exact)
            title = f"vector by {distance}{', exact' if exact else ''}"
            yield Variant.of_leg(leg, rollup=Rollup()).but(name=title, overfetch=3)


async def _timed(context: RequestContext, variant: Variant, texts: Sequence[str]) -> list[float]:
    taken = []
    for text in texts:
        begun = time.perf_counter()
        await search(context, text, variant)
        taken.append((time.perf_counter() - begun) * 1000)
    return taken[WARM_UP:]


def _equality(name: str, variant: str, one: Measured, many: Measured) -> Figure:
    """By an index of vectors, each shard has a graph of its own: what that finds is told, and held to nothing."""
    here, there = (_best(each.runs[variant]) for each in (one, many))
    equal = sum(here[query] == there.get(query) for query in here)
    ratio = statistics.median(many.searches[variant]) / statistics.median(one.searches[variant])
    graphs = any(_is_by_graph(each) for each in one.variants[variant].legs)
    measured = f"{equal:,} of {len(here):,} queries equal, p50 {ratio:.2f} x"
    target = "" if graphs else f"{len(here):,} equal"
    return Figure(f"{name}: {variant}", measured, target, met=graphs or equal == len(here))


def _is_by_graph(leg: Leg) -> bool:
    return isinstance(leg, VectorLeg) and not leg.exact and leg.distance == "cosine"


def _best(run: Run) -> dict[str, list[tuple[str, float]]]:
    return {query: list(zip(found.ids, found.scores, strict=True))[:SHOWN] for query, found in run.rankings.items()}


def _ratios(name: str, one: Measured, many: Measured) -> Iterator[Figure]:
    medians = [[statistics.median(times) for times in each.searches.values()] for each in (one, many)]
    p50 = [statistics.median(each) for each in medians]
    yield Figure(f"{name}: p50 of a search", f"{p50[0]:.1f} ms, {p50[1]:.1f} on the cluster, {p50[1] / p50[0]:.2f} x")
    ratio = many.seconds / one.seconds
    yield Figure(f"{name}: evaluation", f"{one.seconds:.1f} s, {many.seconds:.1f} on the cluster, {ratio:.2f} x")
