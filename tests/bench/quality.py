"""Exact vector search on scifact lands on the figure published for this model."""

from __future__ import annotations

from core import bridge
from core.legs.vector import VectorLeg
from core.retriever import RequestContext, search
from core.store import collections
from core.store.engine import Store
from core.variant import Variant
from evals import library, metrics, query_sets
from evals.sources import guess
from evals.store import chain
from tests.bench.figures import SHARED, Figure, near

PUBLISHED = 0.645  # nDCG@10 of all-MiniLM-L6-v2 on BEIR's SciFact test split


def measure() -> list[Figure]:
    return bridge.run(_measure())


async def _measure() -> list[Figure]:
    async with await Store.open(chains=[chain]) as store:
        source = guess(SHARED / "scifact")
        await library.add(store, "scifact", source, library.Plan(chunks={}, check=False))
        view = await collections.get(store, "scifact")
        labelled = await query_sets.load(store, "scifact")
        grades: dict[str, dict[str, int]] = {}
        for label in labelled.labels:
            if label.split == "test":
                grades.setdefault(label.query_id, {})[label.item_id] = label.grade
        variant = Variant.of_leg(VectorLeg(exact=True), chunks="items")
        ranked = {}
        for query in labelled.queries:
            if query.id in grades:
                bundle = await search(RequestContext(store, view), query.text, variant)
                ranked[query.id] = [hit.item_id for hit in bundle.hits]
    found = metrics.mean(metrics.scores(grades, ranked))
    return [near("scifact, exact vector search: nDCG@10", found, PUBLISHED, 0.005)]
