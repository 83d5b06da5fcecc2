"""A Citus cluster beside one server: the same ids and scores for every leg, distance and preset, and how long it takes.

RANKBOOK_TEST_CITUS_DSN names the cluster; without it, nothing is measured. One server is the embedded one. A backup
brings its collections to the cluster, so both hold the same vectors. Each is asked the same queries, the cluster
straight after the server, query by query.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from core import bridge
from core.context import RequestContext
from core.legs.vector import VectorLeg
from core.pipeline.retriever import search
from core.store import collections
from core.store.collections import CollectionView
from core.store.engine import Store
from core.variant import Rollup, Variant
from evals import trash
from evals.backup import restore_backup, save_backup
from evals.collections import load as collections_load
from evals.labels import query_sets
from evals.runs import runner
from evals.runs.plan import EvalOptions
from evals.runs.types import Run
from evals.schema import schema_chain
from evals.types import ALL, QuerySplit
from tests.bench.figures import Figure
from tests.bench.presets import load, variants

DSN = os.environ.get("RANKBOOK_TEST_CITUS_DSN")
COLLECTIONS = ("handbook", "scifact")
SHOWN = 10  # ranks of a list that are compared
TIMED = 20  # queries searched for one at a time
MOST = int(os.environ.get("RANKBOOK_BENCH_QUERIES", "100"))  # of a collection


@dataclass(frozen=True, slots=True)
class Evaluated:
    """A collection on one of the two: the runs of all variants by name, and how long those of `asked` took."""

    context: RequestContext
    texts: list[str]
    runs: dict[str, Run]
    seconds: float


def measure() -> list[Figure]:
    if DSN is None:
        return [Figure("a Citus cluster", "not measured: RANKBOOK_TEST_CITUS_DSN names none")]
    chosen = os.environ.get("RANKBOOK_BENCH_COLLECTIONS", " ".join(COLLECTIONS)).split()
    return [figure for name in chosen for figure in bridge.run(_compared(name))]


async def _compared(name: str) -> list[Figure]:
    async with (
        await Store.open(chains=[schema_chain]) as single,
        await Store.open(DSN, chains=[schema_chain]) as cluster,
    ):
        if await collections.find(single, name) is None:
            await load(single, name)
        await _copy(single, cluster, name)
        asked = _compared_variants(await collections.get(single, name))
        one, many = await _evaluated(single, name, asked), await _evaluated(cluster, name, asked)
        searches = {each.name: await _timed(each, one, many) for each in asked}
        every = (*asked, *map(_exactly, filter(_is_by_graph, asked)))
        figures = [_equality(name, each, one, many, searches.get(each.name)) for each in every]
        return [*figures, *_ratios(name, one, many, searches)]


async def _copy(single: Store, cluster: Store, name: str) -> None:
    if await collections.find(cluster, name) is not None:  # of an earlier run
        await trash.destroy(cluster, await collections_load.drop(cluster, name))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "collection.tar"
        await save_backup(single, path, collection=name)
        await restore_backup(cluster, path, collection=name)


async def _evaluated(store: Store, name: str, asked: list[Variant]) -> Evaluated:
    context = RequestContext(store, await collections.get(store, name))
    split = QuerySplit.of(await query_sets.load(store, name), ALL if name == "handbook" else "test")
    split = replace(split, queries=dict(list(split.queries.items())[:MOST]))
    again, begun = EvalOptions(again=True), time.perf_counter()
    runs = await runner.run(context, asked, split, options=again)
    seconds = time.perf_counter() - begun
    runs += await runner.run(context, [*map(_exactly, filter(_is_by_graph, asked))], split, options=again)
    texts = [query.text for query in split.queries.values()][:TIMED]
    return Evaluated(context, texts, {run.name: run for run in runs}, seconds)


def _compared_variants(view: CollectionView) -> list[Variant]:
    """Each leg, preset and distance, over the chunk sets that a collection from an earlier run has."""
    there = {each.name for each in view.chunk_sets}
    return [each if each.chunks in there else each.but(chunks="default") for each in (*variants(), *_distances())]


def _distances() -> Iterator[Variant]:
    for distance in ("cosine", "l2", "ip"):
        leg = VectorLeg(distance=distance)
        yield Variant.of_leg(leg, rollup=Rollup()).but(name=f"vector by {distance}", overfetch=3)


def _is_by_graph(variant: Variant) -> bool:
    """There are graphs of cosine alone: by another distance, every vector is compared."""
    return any(isinstance(leg, VectorLeg) and not leg.exact and leg.distance == "cosine" for leg in variant.legs)


def _exactly(variant: Variant) -> Variant:
    legs = [leg.model_copy(update={"exact": True}) if isinstance(leg, VectorLeg) else leg for leg in variant.legs]
    return variant.but(name=f"{variant.name}, exact", legs=tuple(legs))


async def _timed(variant: Variant, one: Evaluated, many: Evaluated) -> tuple[float, float]:
    """The median milliseconds of a search on either, query by query in turn, its vector and pages in memory."""
    times: tuple[list[float], list[float]] = ([], [])
    for text in one.texts:
        for each in (one, many):
            await search(each.context, text, variant)
        for each, taken in zip((one, many), times, strict=True):
            begun = time.perf_counter()
            await search(each.context, text, variant)
            taken.append((time.perf_counter() - begun) * 1000)
    here, there = map(statistics.median, times)
    return here, there


def _equality(
    name: str, variant: Variant, one: Evaluated, many: Evaluated, times: tuple[float, float] | None
) -> Figure:
    """By an index of vectors, each shard has a graph of its own: what that finds is told, and held to nothing."""
    here, there = (_best(each.runs[variant.name]) for each in (one, many))
    equal = sum(here[query] == there.get(query) for query in here)
    measured = f"{equal:,} of {len(here):,} queries equal"
    if times:
        measured += f", p50 {times[0]:.1f} ms, {times[1]:.1f} on the cluster, {times[1] / times[0]:.2f} x"
    target = "" if _is_by_graph(variant) else f"{len(here):,} equal"
    return Figure(f"{name}: {variant.name}", measured, target, met=not target or equal == len(here))


def _best(run: Run) -> dict[str, list[tuple[str, float]]]:
    return {query: list(zip(found.ids, found.scores, strict=True))[:SHOWN] for query, found in run.rankings.items()}


def _ratios(
    name: str, one: Evaluated, many: Evaluated, searches: Mapping[str, tuple[float, float]]
) -> Iterator[Figure]:
    ratio = statistics.median(there / here for here, there in searches.values())
    yield Figure(f"{name}: p50 of a search", f"{ratio:.2f} x on the cluster, the median of {len(searches)} variants")
    ratio = many.seconds / one.seconds
    yield Figure(f"{name}: evaluation", f"{one.seconds:.1f} s, {many.seconds:.1f} on the cluster, {ratio:.2f} x")
