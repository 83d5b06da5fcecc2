"""What the legs find on scifact: vector search as published, BM25 as the package bm25s, and the two fused untuned."""

from __future__ import annotations

import json
from collections.abc import Mapping

from core import bridge
from core.context import RequestContext
from core.fusion import Fusion
from core.fusion.rank_based import RrfFusion
from core.fusion.score_based import LinearFusion
from core.legs.bm25 import Bm25Leg
from core.legs.vector import VectorLeg
from core.pipeline.retriever import search
from core.store import collections
from core.store.engine import Store
from core.store.names import ITEMS
from core.variant import Variant
from evals.collections import load
from evals.labels import query_sets
from evals.metrics import scoring
from evals.schema import schema_chain
from evals.sources import guess
from tests.bench.figures import SHARED, Figure, at_least, near

COLLECTION = "scifact"
PUBLISHED = 0.645  # nDCG@10 of all-MiniLM-L6-v2 on BEIR's SciFact test split
DEPTH = 100
LEGS = (VectorLeg(exact=True, weight=0.5, depth=DEPTH), Bm25Leg(weight=0.5, depth=DEPTH))


def measure() -> list[Figure]:
    return bridge.run(_measure())


async def _measure() -> list[Figure]:
    async with await Store.open(chains=[schema_chain]) as store:
        await load.load_collection(store, COLLECTION, guess(SHARED / COLLECTION), load.LoadPlan(chunks={}, check=False))
        labelled = await query_sets.load(store, COLLECTION)
        grades: dict[str, dict[str, int]] = {}
        for label in labelled.labels:
            if label.split == "test":
                grades.setdefault(label.query_id, {})[label.item_id] = label.grade
        asked = {query.id: query.text for query in labelled.queries if query.id in grades}
        context = RequestContext(store, await collections.get(store, COLLECTION))
        found = {name: await _ranked(context, variant, asked) for name, variant in _variants().items()}
    found["bm25s"] = _by_bm25s(asked)
    return _figures(
        {name: scoring.score_rankings(grades, ranked, ["ndcg@10"]).means()["ndcg@10"] for name, ranked in found.items()}
    )


def _variants() -> dict[str, Variant]:
    vector, bm25 = LEGS
    return {
        "vector": Variant.of_leg(vector, chunks=ITEMS),
        "bm25": Variant.of_leg(bm25, chunks=ITEMS),
        "rrf": _both(RrfFusion()),
        "minmax": _both(LinearFusion(normalize="minmax")),
    }


def _both(fusion: Fusion) -> Variant:
    return Variant(chunks=ITEMS, legs=LEGS, fusion=fusion)


async def _ranked(context: RequestContext, variant: Variant, asked: Mapping[str, str]) -> dict[str, list[str]]:
    return {name: [hit.item_id for hit in (await search(context, text, variant)).hits] for name, text in asked.items()}


def _by_bm25s(asked: Mapping[str, str]) -> dict[str, list[str]]:
    """The peer: Lucene's BM25 with its own stop words, and Snowball's English stemmer, as its documentation does it."""
    import bm25s
    import Stemmer

    with (SHARED / COLLECTION / "corpus.jsonl").open(encoding="utf-8") as lines:
        rows = list(map(json.loads, lines))
    stemmer = Stemmer.Stemmer("english")
    peer = bm25s.BM25(method="lucene", k1=1.2, b=0.75)
    texts = [f"{row['title']} {row['text']}" for row in rows]
    peer.index(bm25s.tokenize(texts, stopwords="en", stemmer=stemmer, show_progress=False), show_progress=False)
    tokens = bm25s.tokenize(list(asked.values()), stopwords="en", stemmer=stemmer, show_progress=False)
    best, _ = peer.retrieve(tokens, k=10, show_progress=False)
    return {name: [str(rows[each]["_id"]) for each in row] for name, row in zip(asked, best, strict=True)}


def _figures(ndcg: Mapping[str, float]) -> list[Figure]:
    return [
        near(f"{COLLECTION}, exact vector search: nDCG@10", ndcg["vector"], PUBLISHED, 0.005),
        Figure(f"{COLLECTION}, bm25s (lucene, k1 1.2, b 0.75, English stemmer): nDCG@10", f"{ndcg['bm25s']:.4f}"),
        at_least(f"{COLLECTION}, our bm25: nDCG@10", ndcg["bm25"], ndcg["bm25s"], "{:.4f}"),
        at_least(f"{COLLECTION}, RRF of the two, untuned: nDCG@10", ndcg["rrf"], 0.70, "{:.4f}"),
        at_least(f"{COLLECTION}, min-max at 0.5 / 0.5: nDCG@10", ndcg["minmax"], 0.725, "{:.4f}"),
    ]
