"""How many of the true nearest the HNSW index brings up at its defaults: on real embeddings, whole and filtered."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from core import bridge
from core.embedding import embedder
from core.filters import filter_from
from core.legs import PreparedQuery
from core.legs.vector import VectorLeg
from core.store import collections
from core.store.collections import CollectionView
from core.store.engine import Store
from core.store.ingest import Ingest
from core.store.resolve_target import search_target
from core.types import Item, Place, Row
from evals.schema import schema_chain
from evals.sources import guess
from tests.bench.figures import SHARED, Figure, at_least
from tests.bench.synthetic import kept

COLLECTIONS = ("scifact", "cranfield", "chroma-chunking", "xquad-de")
LEAST_EMBEDDINGS = 50_000
QUERIES = 200
SHARE_KEPT = 100  # one item in so many passes the filter


def measure() -> list[Figure]:
    return bridge.run(_measure())


def items() -> Iterator[Row[Item]]:
    """All documents at hand, each with a number by which one in a hundred can be asked for."""
    number = 0
    for name in COLLECTIONS:
        for row in guess(SHARED / name).items():
            if isinstance(row, Row):
                item = row.value
                yield Row(Item(f"{name}/{item.id}", item.text, metadata={"part": number % SHARE_KEPT}), Place(name))
                number += 1


async def _measure() -> list[Figure]:
    async with await Store.open(chains=[schema_chain]) as store:
        model = embedder()

        async def make() -> CollectionView:
            view = await collections.create(store, "recall", fields=["part"])
            view = await collections.add_chunk_set(store, view, "fine", {"kind": "sentences", "max_tokens": 32})
            return await collections.add_embedding_set(
                store, view, view.chunk_set("fine"), model.model, model.dimension
            )

        def fill(made: CollectionView) -> Ingest:
            return Ingest(store, made, {model.model: model}, model)

        view, _ = await kept(store, "recall", make, fill, items())
        whole = search_target(store, view, "fine")
        filtered = whole.filtered(filter_from({"field": "part", "eq": 7}))
        figures = [at_least("recall: real embeddings", view.chunk_set("fine").units, LEAST_EMBEDDINGS, "{:,.0f}")]
        for name, where in (("HNSW at defaults", whole), (f"with a filter that keeps 1 in {SHARE_KEPT}", filtered)):
            found = []
            for text in _queries():
                async with store.begin(where.namespace, read_only=True) as connection:
                    found.append(await VectorLeg().measured_recall(connection, where, PreparedQuery(text)))
            figures.append(at_least(f"recall@10 against exact, {name}", statistics.mean(found), 0.98, "{:.3f}"))
        return figures


def _queries() -> list[str]:
    rows = [row.value.text for row in guess(SHARED / "scifact").queries() if isinstance(row, Row)]
    return rows[:QUERIES]
