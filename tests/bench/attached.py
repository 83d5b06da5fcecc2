"""The vector and full-text legs on an attached table, against the same rows in a collection of our own.

Theirs is a plain table with the indexes that `rankbook data attach` advises. Full text is compared as it is attached,
by their own tsvector column, in the mode that their index serves whole; and in the mode any with what is built aside,
which reads the postings as our own does. What the mode any costs without that is told too.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from sqlalchemy import text

from core import bridge
from core.embedding import Vectors
from core.legs import Leg, PreparedQuery, legs
from core.legs.fulltext import FulltextLeg
from core.legs.vector import VectorLeg
from core.store import attached, collections
from core.store.attached import AttachedTable
from core.store.collections import CollectionView
from core.store.engine import Store
from core.store.ingest import Ingest
from core.store.names import ITEMS, written
from core.store.resolve_target import search_target
from core.store.schema import ItemRow, lexeme_table, vector_table
from core.store.search_target import SearchTarget
from evals.schema import schema_chain
from tests.bench.bulk import DIMENSION, ReadyVectors, Uncached
from tests.bench.figures import Figure, below
from tests.bench.synthetic import TEXT_SEED, Texts, kept, questions, without_trigrams

ROWS, QUESTIONS, WARM_UP, TURNS, DEPTH = 20_000, 100, 10, 4, 30
OURS, THEIRS = "ours to compare", "theirs to compare"
MAKE_THEIRS = (
    "DROP SCHEMA IF EXISTS theirs CASCADE",
    "CREATE SCHEMA theirs",
    f"CREATE TABLE theirs.docs (id text PRIMARY KEY, body text, words tsvector, embedding vector({DIMENSION}))",
    """INSERT INTO theirs.docs
       SELECT item.id, item.text, lexemes.tsv, vectors.embedding
       FROM {items} AS item JOIN {lexemes} AS lexemes USING (key) JOIN {vectors} AS vectors USING (key)
       ORDER BY item.key""",
    "CREATE INDEX ON theirs.docs USING hnsw (embedding vector_cosine_ops) WITH (m = 16, ef_construction = 128)",
    "CREATE INDEX ON theirs.docs USING gin (words)",
    "ANALYZE theirs.docs",
)


@dataclass(frozen=True)
class Compared:
    """One leg at two places; where the two should cost the same, `most` is how much theirs may cost of ours."""

    name: str
    leg: Leg
    ours: str
    theirs: str
    most: float | None = 1.1


def measure() -> list[Figure]:
    return bridge.run(_measure())


async def _measure() -> list[Figure]:
    async with await Store.open(chains=[schema_chain]) as store:
        ours = await _ours(store)
        bare = await _theirs(store, ours)
        figures = await _compare(store, {"ours": ours, "theirs": bare}, _as_attached())
        figures += await _compare(store, {"ours": ours, "theirs": await _with_aside(store, bare)}, _with_postings())
    return figures


def _as_attached() -> list[Compared]:
    return [
        Compared("vector", VectorLeg(), "ours", "theirs"),
        Compared("fulltext web", FulltextLeg(mode="web"), "ours", "theirs"),
        Compared("fulltext any, without anything aside", legs["fulltext"](), "ours", "theirs", most=None),
    ]


def _with_postings() -> list[Compared]:
    return [Compared("fulltext any, built aside", legs["fulltext"](), "ours", "theirs")]


async def _ours(store: Store) -> CollectionView:
    model = ReadyVectors()

    async def make() -> CollectionView:
        view = await collections.create(store, OURS)
        return await collections.add_embedding_set(store, view, view.chunk_set(ITEMS), model.model, DIMENSION)

    def fill(made: CollectionView) -> Ingest:
        ingest = Ingest(without_trigrams(store), made, {model.model: model}, model)
        ingest.caches = {model.model: Uncached(store, model)}
        return ingest

    view, _ = await kept(store, OURS, make, fill, Texts(TEXT_SEED).items(ROWS))
    return view


async def _theirs(store: Store, ours: CollectionView) -> CollectionView:
    """The same rows in somebody's table, attached anew."""
    if await collections.find(store, THEIRS):
        await collections.drop(store, THEIRS)
    tables = {"items": ItemRow.__table__, "lexemes": lexeme_table(0), "vectors": vector_table(1, DIMENSION)}
    async with store.begin() as connection:
        await connection.execute(text("SET LOCAL maintenance_work_mem = '1GB'"))
        for each in MAKE_THEIRS:
            await connection.execute(written(each, ours.namespace, **tables))  # type: ignore[arg-type]
    mapping = AttachedTable(
        namespace="theirs",
        table="docs",
        id="id",
        text="body",
        tsv="words",
        embedding="embedding",
        model=ReadyVectors.model,
    )
    return await attached.attach_table(store, THEIRS, mapping)


async def _with_aside(store: Store, view: CollectionView) -> CollectionView:
    return await attached.build_side_tables(store, view)


async def _compare(store: Store, views: Mapping[str, CollectionView], wanted: list[Compared]) -> list[Figure]:
    figures = []
    for each in wanted:
        times = await _times(store, views, each.leg)
        ratio = statistics.median(times["theirs"]) / statistics.median(times["ours"])
        what = f"{each.name}: p50 attached against our own"
        figures.append(below(what, ratio, each.most, "{:.2f}") if each.most else Figure(what, f"{ratio:.2f}"))
        medians = " and ".join(f"{statistics.median(times[place]):.1f}" for place in ("theirs", "ours"))
        figures.append(Figure(f"{each.name}: p50 attached and our own, ms", medians))
    return figures


async def _times(store: Store, views: Mapping[str, CollectionView], leg: Leg) -> dict[str, list[float]]:
    """Milliseconds of `recall` alone, the best of a few, the two places in turn, each first as often as the other."""
    model, times = ReadyVectors(), {name: [] for name in views}  # type: ignore[var-annotated]
    levels = {name: search_target(store, view, ITEMS) for name, view in views.items()}
    for number, question in enumerate(questions(WARM_UP + QUESTIONS)):
        query = PreparedQuery(question, _ready((await model.embed([question], "query"))[0]))
        spent: dict[str, list[float]] = {name: [] for name in views}
        for turn in range(TURNS):
            for name in list(views)[:: 1 if turn % 2 else -1]:
                spent[name].append(await _timed(store, levels[name], leg, query))
        if number >= WARM_UP:
            for name in views:
                times[name].append(min(spent[name]))
    return times


def _ready(vector: Vectors) -> Callable[[str, str], Awaitable[Vectors]]:
    async def embed(_model: str, _text: str) -> Vectors:
        return vector

    return embed


async def _timed(store: Store, where: SearchTarget, leg: Leg, query: PreparedQuery) -> float:
    async with store.begin(where.namespace, read_only=True) as connection:
        begun = time.perf_counter()
        await leg.recall(connection, where, query, DEPTH)
        return (time.perf_counter() - begun) * 1000
