"""bm25, vector and 11 hybrids scored on scifact, against the notebook that somebody would throw together.

The notebook is bm25s, numpy's dot product over the same embeddings of the documents, min-max fusion in dictionaries,
and ranx's evaluate. Timed on both sides: both retrievals of the 300 test queries 100 deep, 11 fusions, and the mean
nDCG@10 and recall@100 of all 13 rankings; embedding the queries is in, and in a second measurement given on both sides.
Not timed on either: loading the model and the labels, embedding and indexing the documents, compiling ranx. Ours keeps
each run in the store and gives every mean its interval, which the notebook does not; it embeds each query by itself, so
that the scores are those of a search, where the notebook embeds all at once; and it asks the index, where the notebook
compares with every vector.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sqlalchemy import select

from core import bridge
from core.context import RequestContext, Resources
from core.embedding import DEFAULT_MODEL, Purpose, Vectors, embedder
from core.fusion.score_based import LinearFusion
from core.legs.bm25 import Bm25Leg
from core.legs.vector import VectorLeg
from core.store import collections
from core.store.engine import Store
from core.store.names import ITEMS
from core.store.resolve_target import search_target
from core.variant import Variant
from evals.collections import load
from evals.evaluation.board import Board
from evals.labels import query_sets
from evals.metrics.scoring import warm_up
from evals.runs import runner
from evals.runs.plan import EvalOptions
from evals.schema import schema_chain
from evals.sources import guess
from evals.types import QuerySplit
from tests.bench.figures import SHARED, Figure, seconds, texts

COLLECTION = "scifact"
DEPTH = 100
METRICS = ("ndcg@10", "recall@100")
WEIGHTS = tuple(step / 10 for step in range(11))  # of the vectors
ROUNDS = 3
AGREES = 0.01  # nDCG@10: two stemmers and two lists of stop words
Means = dict[str, dict[str, float]]  # by ranking, then metric
Scored = dict[str, dict[str, float]]  # by query, then document


def measure() -> list[Figure]:
    context, split, notebook = bridge.run(_prepared())
    given = _Given(dict(zip(notebook.queries.values(), notebook.embedded(), strict=True)))
    knowing = replace(context, resources=Resources(embedder=lambda _: given))
    try:
        warm_up()
        bridge.run(_ours(context, split.only(set(list(split.queries)[:20]))))
        notebook.scored()
        in_it = _in_turn(lambda: bridge.run(_ours(context, split)), notebook.scored)
        without = _in_turn(lambda: bridge.run(_ours(knowing, split)), lambda: notebook.scored(given.matrix))
    finally:
        bridge.run(context.store.close())
    return [*_times("the queries' embedding in", in_it), *_times("that given", without, asked=False), *_means(in_it)]


@dataclass(frozen=True, slots=True)
class Both:
    """Seconds and means, ours first."""

    ours: float
    theirs: float
    mine: Means
    peers: Means


def _in_turn(ours: Callable[[], Means], theirs: Callable[[], Means]) -> Both:
    """One after the other, so that what else this machine does meets both; the best time of each."""
    mine, peers, times = ours(), theirs(), [(seconds(ours), seconds(theirs)) for _ in range(ROUNDS)]
    return Both(min(each for each, _ in times), min(each for _, each in times), mine, peers)


def _times(what: str, found: Both, *, asked: bool = True) -> list[Figure]:
    ratio = found.ours / found.theirs
    target = ("<= 1.00", ratio <= 1) if asked else ()
    return [
        Figure(f"13 rankings of scifact scored, {what}: ours, s", f"{found.ours:.2f}"),
        Figure(f"13 rankings of scifact scored, {what}: the notebook, s", f"{found.theirs:.2f}"),
        Figure(f"our time / the notebook's, {what}", f"{ratio:.2f}", *target),
    ]


def _means(found: Both) -> list[Figure]:
    pairs = {name: (found.mine[name]["ndcg@10"], found.peers[name]["ndcg@10"]) for name in found.mine}
    largest = max(abs(mine - peers) for mine, peers in pairs.values())
    return [
        *(
            Figure(f"{name}: nDCG@10 ours, theirs, difference", f"{mine:.4f}, {peers:.4f}, {mine - peers:+.4f}")
            for name, (mine, peers) in pairs.items()
        ),
        Figure("largest difference in nDCG@10", f"{largest:.4f}", f"<= {AGREES}", largest <= AGREES),
    ]


def _called(weight: float) -> str:
    return f"vector at {weight:.1f}"


# -- ours --------------------------------------------------------------------------------------------------------------


def _variants() -> list[Variant]:
    bm25, vector = Bm25Leg(depth=DEPTH), VectorLeg(depth=DEPTH)
    return [
        Variant.of_leg(bm25, chunks=ITEMS),
        Variant.of_leg(vector, chunks=ITEMS),
        *(_hybrid(bm25, vector, weight) for weight in WEIGHTS),
    ]


def _hybrid(bm25: Bm25Leg, vector: VectorLeg, weight: float) -> Variant:
    legs = (vector.model_copy(update={"weight": weight}), bm25.model_copy(update={"weight": 1 - weight}))
    return Variant(name=_called(weight), chunks=ITEMS, legs=legs, fusion=LinearFusion(normalize="minmax"))


async def _ours(context: RequestContext, split: QuerySplit) -> Means:
    """Nothing that is kept from before is used."""
    runs = await runner.run(
        context, _variants(), split, options=EvalOptions((), as_shipped=False, least_depth=DEPTH, again=True)
    )
    board = Board(split, runs, METRICS)
    cells = {metric: board.cells(metric) for metric in METRICS}
    return {name: {metric: cells[metric][name].mean for metric in METRICS} for name in board.names}


class _Given:
    """Vectors that were made before, in the embedder's place."""

    def __init__(self, vectors: Mapping[str, Vectors]) -> None:
        self.model, self.vectors, self.matrix = DEFAULT_MODEL, vectors, np.stack(list(vectors.values()))
        self.dimension = self.matrix.shape[1]

    async def embed(self, texts: Sequence[str], purpose: Purpose = "document") -> Vectors:
        return np.stack([self.vectors[text] for text in texts])

    def tokenize(self, text: str) -> Sequence[tuple[int, int]]:
        return embedder(DEFAULT_MODEL).tokenize(text)


async def _prepared() -> tuple[RequestContext, QuerySplit, Notebook]:
    store = await Store.open(chains=[schema_chain])
    if await collections.find(store, COLLECTION) is None:
        await load.load_collection(store, COLLECTION, guess(SHARED / COLLECTION), load.LoadPlan(chunks={}, check=False))
    context = RequestContext(store, await collections.get(store, COLLECTION))
    split = QuerySplit.of(await query_sets.load(store, COLLECTION), "test")
    vectors = search_target(store, context.view, ITEMS).column("vectors")
    async with store.begin(context.view.namespace, read_only=True) as connection:
        rows = (await connection.execute(select(vectors.id, vectors.value))).all()
    return context, split, Notebook.of(split, {row[0]: np.asarray(row[1], dtype=np.float32) for row in rows})


# -- theirs ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Notebook:
    """What its first cells have made: the index, the matrix, the queries and the labels."""

    ids: tuple[str, ...]
    matrix: Vectors
    bm25: Any
    queries: Mapping[str, str]
    qrels: Any

    @classmethod
    def of(cls, split: QuerySplit, vectors: Mapping[str, Vectors]) -> Notebook:
        from ranx import Qrels

        ids = tuple(_ids())
        index = _bm25s().BM25(method="lucene", k1=1.2, b=0.75)
        index.index(_tokens(list(texts(COLLECTION))), show_progress=False)
        queries = {query.id: query.text for query in split.queries.values()}
        qrels = Qrels({query: dict(given) for query, given in split.grades.items()})
        return cls(ids, np.stack([vectors[each] for each in ids]), index, queries, qrels)

    def embedded(self) -> Vectors:
        return bridge.run(embedder(DEFAULT_MODEL).embed(list(self.queries.values()), "query"))

    def scored(self, asked: Vectors | None = None) -> Means:
        """The cell that is timed; `asked` are the queries' embeddings where they are given."""
        by_words, by_meaning = self._by_words(), self._by_meaning(self.embedded() if asked is None else asked)
        runs = {"bm25": by_words, "vector": by_meaning}
        words, meaning = _min_max(by_words), _min_max(by_meaning)
        for weight in WEIGHTS:
            runs[_called(weight)] = {query: _fused(meaning[query], words[query], weight) for query in self.queries}
        return {name: self._mean(found) for name, found in runs.items()}

    def _mean(self, found: Scored) -> dict[str, float]:
        from ranx import Run, evaluate

        means: Any = evaluate(self.qrels, Run(found), list(METRICS))
        return {metric: float(means[metric]) for metric in METRICS}

    def _by_words(self) -> Scored:
        found, scores = self.bm25.retrieve(_tokens(list(self.queries.values())), k=DEPTH, show_progress=False)
        return self._named(found, scores)

    def _by_meaning(self, asked: Vectors) -> Scored:
        scores = asked @ self.matrix.T
        best = np.argsort(-scores, axis=1)[:, :DEPTH]
        return self._named(best, np.take_along_axis(scores, best, axis=1))

    def _named(self, found: Any, scores: Any) -> Scored:
        return {
            query: {self.ids[place]: float(score) for place, score in zip(*row, strict=True)}
            for query, row in zip(self.queries, zip(found, scores, strict=True), strict=True)
        }


def _ids() -> Sequence[str]:
    import json

    with (SHARED / COLLECTION / "corpus.jsonl").open(encoding="utf-8") as lines:
        return [str(json.loads(line)["_id"]) for line in lines]


def _bm25s() -> Any:
    """Its types are half there, so none are looked at."""
    import bm25s

    return bm25s


def _tokens(texts: list[str]) -> Any:
    import Stemmer

    return _bm25s().tokenize(texts, stopwords="en", stemmer=Stemmer.Stemmer("english"), show_progress=False)


def _min_max(run: Scored) -> Scored:
    made = {}
    for query, found in run.items():
        low, high = min(found.values()), max(found.values())
        made[query] = {each: (score - low) / (high - low) for each, score in found.items()}
    return made


def _fused(meaning: Mapping[str, float], words: Mapping[str, float], weight: float) -> dict[str, float]:
    return {each: weight * meaning.get(each, 0.0) + (1 - weight) * words.get(each, 0.0) for each in {*meaning, *words}}
