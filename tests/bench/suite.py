"""36 fusion variants over 5 distinct legs on cranfield, against asking the 5 legs alone; then all of it once more."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from core import bridge
from core.context import RequestContext
from core.legs import PreparedQuery
from core.pipeline.recall import recall_legs
from core.store import collections
from core.store.engine import Store
from core.store.resolve_target import search_target
from core.tasks import bounded
from core.variant import Variant
from evals.collections import load
from evals.labels import query_sets
from evals.runs import runner
from evals.runs.plan import CONNECTIONS, EvalOptions, deepened
from evals.schema import schema_chain
from evals.sources import guess
from evals.types import QuerySplit
from tests.bench.figures import SHARED, Figure, below

LEGS: tuple[dict[str, Any], ...] = (
    {"kind": "vector"},
    {"kind": "fulltext"},
    {"kind": "trigram"},
    {"kind": "fuzzy"},
    {"kind": "bm25"},
)
FUSIONS = (
    {"method": "rrf"},
    {"method": "rrf", "k": 10},
    {"method": "linear"},
    {"method": "linear", "normalize": "zscore"},
)
SHARES: tuple[tuple[int, ...], ...] = (
    (1, 1, 1, 1, 1),
    (4, 1, 1, 1, 2),
    (1, 4, 1, 1, 2),
    (2, 2, 0, 1, 3),
    (3, 1, 1, 0, 3),
    (1, 0, 0, 0, 1),
    (5, 0, 1, 1, 5),
    (2, 1, 2, 1, 2),
    (1, 2, 3, 4, 5),
)
OPTIONS = EvalOptions((), as_shipped=False, least_depth=100)


def variants(scale: float = 1.0) -> list[Variant]:
    return [
        Variant.from_data(
            {
                "name": f"{at} {shares}",
                "chunks": "items",
                "fusion": fusion,
                "leg": [{**leg, "weight": share * scale} for leg, share in zip(LEGS, shares, strict=True)],
            }
        )
        for at, fusion in enumerate(FUSIONS)
        for shares in SHARES
    ]


def measure() -> list[Figure]:
    return bridge.run(_measure())


async def _measure() -> list[Figure]:
    async with await Store.open(chains=[schema_chain]) as store:
        source = guess(SHARED / "cranfield")
        await load.load_collection(store, "cranfield", source, load.LoadPlan(chunks={}, check=False))
        view = await collections.get(store, "cranfield")
        split = QuerySplit.of(await query_sets.load(store, "cranfield"), "all")
        context, many = RequestContext(store, view), variants()
        await _legs_alone(context, many[0], split.only(set(list(split.queries)[:20])))  # a warm-up
        alone = await _legs_alone(context, many[0], split)
        plan = await runner.plan_runs(context, many, split, options=OPTIONS)
        suite = await _suite(context, many, split)
        again = await _suite(context, many, split)
        others = await _suite(context, variants(2.0), split)
    return [
        Figure("cranfield: the plan", plan.describe()),
        Figure("the 5 legs alone, s", f"{alone:.2f}"),
        Figure("the suite, first time, s", f"{suite:.2f}"),
        below("the suite against the 5 legs alone", suite / alone, 1.3, "{:.2f}"),
        Figure("the suite once more, all kept, s", f"{again:.2f}"),
        Figure("36 other variants of the same legs, s", f"{others:.2f}"),
    ]


async def _legs_alone(context: RequestContext, variant: Variant, split: QuerySplit) -> float:
    """Each leg over every query, as many at once as the suite has under way; what they find is let go."""
    deep = deepened(variant, OPTIONS.depth)
    at = search_target(context.store, context.view, deep.chunks, deep.model)
    begun = time.perf_counter()
    prepared = {query.id: _prepared(context, query.text) for query in split.queries.values()}
    for name, leg in zip(deep.leg_names, deep.legs, strict=True):

        async def ask(query: str, name: str = name, leg: Any = leg) -> None:
            await recall_legs(context.store, at, prepared[query], {name: leg}, {name: deep.depth_of(leg)})

        await bounded(CONNECTIONS, split.queries, ask)
    return time.perf_counter() - begun


def _prepared(context: RequestContext, text: str) -> PreparedQuery:
    async def embed(model: str, asked: str) -> Any:
        return (await context.embedder(model).embed([asked], "query"))[0]

    return PreparedQuery(text, embed)


async def _suite(context: RequestContext, many: Sequence[Variant], split: QuerySplit) -> float:
    begun = time.perf_counter()
    await runner.run(context, many, split, options=OPTIONS)
    return time.perf_counter() - begun
