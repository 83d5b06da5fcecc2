"""The weight surface against fusing and evaluating every point with ranx: three legs over cranfield, if it is there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from core import bridge
from core.context import RequestContext
from core.fusion import LinearFusion
from core.legs import Leg
from core.legs.bm25 import Bm25Leg
from core.legs.fulltext import FulltextLeg
from core.legs.vector import VectorLeg
from core.pipeline.retriever import search
from core.store import collections
from core.store.engine import Store
from core.types import Query
from core.variant import Variant
from evals.collections import load
from evals.labels import query_sets
from evals.metrics import scoring
from evals.runs.batch_fusion import fuse_all
from evals.runs.rankings import LegRankings, Ranking
from evals.schema import schema_chain
from evals.sources import guess
from evals.tuning.surface import Surface
from evals.tuning.sweep import sweep
from evals.types import QuerySplit
from tests.bench.figures import SHARED, Figure, at_least, seconds

DEPTH = 100
LEGS: tuple[Leg, ...] = (VectorLeg(exact=True), FulltextLeg(mode="any"), Bm25Leg())
TOLERANCE = 1e-9


def measure() -> list[Figure]:
    real = (SHARED / "cranfield").is_dir()
    legs, split = bridge.run(_cranfield()) if real else synthetic()
    ours, theirs, agree = _against_ranx(legs, split)
    name = "cranfield" if real else "synthetic"
    return [
        Figure(f"{name}: 231 points of 3 legs, {len(split.queries)} queries, rankings given, s", f"{ours:.3f}"),
        Figure("the same with ranx, wsum and evaluate, warm, s", f"{theirs:.1f}"),
        at_least("times as fast as ranx", theirs / ours, 50, "{:.0f}"),
        Figure("nDCG@10 equal at every point", f"{agree:.0e}", f"<= {TOLERANCE:.0e}", agree <= TOLERANCE),
    ]


def _against_ranx(legs: Sequence[LegRankings], split: QuerySplit) -> tuple[float, float, float]:
    """Our seconds, theirs, and the largest difference to `evals.metrics` of the same fused rankings."""
    from ranx import Qrels, Run, evaluate, fuse

    found: list[Surface] = []

    def surface() -> None:
        found.append(sweep(legs, split, LinearFusion()))

    ours = min(seconds(surface) for _ in range(5))
    grid = found[0].grid / found[0].steps
    runs = [Run({query: _scored(ranked) for query, ranked in leg.rankings.items()}, name=leg.name) for leg in legs]
    qrels = Qrels({query: dict(given) for query, given in split.grades.items()})

    def point(weights: Sequence[float]) -> None:
        combined = fuse(list(runs), norm="min-max", method="wsum", params={"weights": tuple(weights)})
        evaluate(qrels, combined, "ndcg@10", make_comparable=True)

    point([0.5, 0.3, 0.2])
    theirs = sum(seconds(partial(point, weights)) for weights in grid.tolist())
    return ours, theirs, _difference(legs, split, found[0])


def _difference(legs: Sequence[LegRankings], split: QuerySplit, surface: Surface) -> float:
    largest = 0.0
    for point in range(len(surface.grid)):
        weights = list(surface.leg_weights(point).values())
        ranked = {query: each.item_ids for query, each in fuse_all(legs, LinearFusion(), weights).items()}
        scores = scoring.score_rankings(split.grades, ranked, ["ndcg@10"]).of("ndcg@10")
        wanted = np.array([scores[query] for query in surface.queries])
        largest = max(largest, float(np.abs(wanted - surface.values[point]).max()))
    return largest


def _scored(ranked: Ranking) -> dict[str, float]:
    """ranx wants an entry for each query."""
    return dict(zip(ranked.ids, ranked.scores, strict=True)) or {"": 0.0}


async def _cranfield() -> tuple[list[LegRankings], QuerySplit]:
    async with await Store.open(chains=[schema_chain]) as store:
        await load.load_collection(
            store, "cranfield", guess(SHARED / "cranfield"), load.LoadPlan(chunks={}, check=False)
        )
        view = await collections.get(store, "cranfield")
        split = QuerySplit.of(await query_sets.load(store, "cranfield"))
        context = RequestContext(store, view)
        legs = []
        for leg in LEGS:
            variant = Variant.of_leg(leg, chunks="items", top_k=DEPTH)
            legs.append(LegRankings(variant.name, leg, DEPTH, await _rankings(context, variant, split.queries)))
    return legs, split


async def _rankings(context: RequestContext, variant: Variant, queries: Mapping[str, Query]) -> dict[str, Ranking]:
    found = {}
    for query in queries.values():
        hits = (await search(context, query.text, variant)).hits
        found[query.id] = Ranking(tuple(hit.id for hit in hits), tuple(hit.score for hit in hits))
    return found


def synthetic(queries: int = 225, items: int = 1400) -> tuple[list[LegRankings], QuerySplit]:
    """As many queries, items, candidates and labels as cranfield has; each leg sees an item's worth and much noise."""
    random = np.random.default_rng(0)
    ids = [f"q{number:03}" for number in range(queries)]
    grades = {
        query: {f"d{item}": int(random.integers(1, 4)) for item in random.choice(items, 8, replace=False)}
        for query in ids
    }
    rankings: list[dict[str, Ranking]] = [{} for _ in LEGS]
    for query in ids:
        worth = np.zeros(items)
        worth[[int(item[1:]) for item in grades[query]]] = 1.5
        for found in rankings:
            scores = worth + random.normal(size=items)
            best = np.argsort(-scores, kind="stable")[:DEPTH]
            found[query] = Ranking(tuple(f"d{item}" for item in best), tuple(scores[best].tolist()))
    names = ("vector", "fulltext", "bm25")
    legs = [LegRankings(name, leg, DEPTH, found) for name, leg, found in zip(names, LEGS, rankings, strict=True)]
    return legs, QuerySplit("test", {query: Query(query, query) for query in ids}, grades)
