"""Embedding cranfield against plain `SentenceTransformer.encode` in float32 with its default batch size."""

from __future__ import annotations

import json

import numpy as np

from core import bridge
from core.embedding import Vectors, embedder, model_files, sentence_transformers_backend
from evals.metrics import scoring
from tests.bench.figures import SHARED, Figure, at_least, below, seconds, texts

COLLECTION = "cranfield"


def measure() -> list[Figure]:
    from sentence_transformers import SentenceTransformer

    ours = embedder()
    plain = SentenceTransformer(str(model_files.folder()), device="cpu")
    corpus = list(texts(COLLECTION))
    bridge.run(ours.embed(corpus[:64]))
    plain.encode(corpus[:64])
    made: dict[str, Vectors] = {}

    def embed_ours() -> None:
        made["ours"] = bridge.run(ours.embed(corpus))

    def embed_plain() -> None:
        made["plain"] = plain.encode(corpus, show_progress_bar=False)

    # Interleaved, so that a machine that is busy for a while is so for both.
    times = [(seconds(embed_ours), seconds(embed_plain)) for _ in range(2)]
    fast, slow = min(ours for ours, _ in times), min(plain for _, plain in times)
    loss = ndcg(made["plain"], plain_queries(plain)) - ndcg(made["ours"], our_queries())
    target = 2.5 if sentence_transformers_backend.best() == "bf16" else 1.0
    return [
        Figure(f"{COLLECTION}: texts a second, {ours.model}", f"{len(corpus) / fast:.0f}"),
        Figure(f"{COLLECTION}: texts a second, plain float32", f"{len(corpus) / slow:.0f}"),
        at_least(f"{COLLECTION}: rate of embedding against plain float32", slow / fast, target),
        below(f"{COLLECTION}: nDCG@10 lost against float32", abs(loss), 0.003, "{:.4f}"),
    ]


def queries() -> dict[str, str]:
    with (SHARED / COLLECTION / "queries.jsonl").open(encoding="utf-8") as lines:
        return {row["_id"]: row["text"] for row in map(json.loads, lines)}


def plain_queries(model: object) -> Vectors:
    return np.asarray(model.encode(list(queries().values()), show_progress_bar=False))  # type: ignore[attr-defined]


def our_queries() -> Vectors:
    return bridge.run(embedder().embed(list(queries().values()), "query"))


def ndcg(documents: Vectors, asked: Vectors) -> float:
    """Of exact search by cosine."""
    ids = [str(json.loads(line)["_id"]) for line in (SHARED / COLLECTION / "corpus.jsonl").open(encoding="utf-8")]
    documents = documents / np.linalg.norm(documents, axis=1, keepdims=True)
    best = np.argsort(-(asked @ documents.T), axis=1, kind="stable")[:, :10]
    ranked = {query: [ids[index] for index in row] for query, row in zip(queries(), best, strict=True)}
    return scoring.score_rankings(grades(), ranked, ["ndcg@10"]).means()["ndcg@10"]


def grades() -> dict[str, dict[str, int]]:
    made: dict[str, dict[str, int]] = {}
    lines = (SHARED / COLLECTION / "qrels" / "test.tsv").read_text().splitlines()[1:]
    for query, item, grade in (line.split("\t") for line in lines):
        made.setdefault(query, {})[item] = int(grade)
    return made
