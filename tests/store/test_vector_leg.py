"""The vector leg: distances, indexes, exactness, filters, and what is said where fewer or other came back."""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import numpy as np
import pytest
from sqlalchemy import text

from core import bridge
from core.legs import PreparedQuery
from core.legs.vector import VectorLeg
from core.store.resolve_target import search_target
from core.types import Item
from tests.store.making import fresh, ingest, make, some_name
from tests.store.recalling import ids, said

DIMENSION, COUNT = 32, 3000


class Points:
    """Texts are numbers; each has a place of its own, of any length."""

    model, dimension = "points", DIMENSION

    def __init__(self) -> None:
        random = np.random.default_rng(11)
        centres = random.standard_normal((60, DIMENSION))
        spread = random.standard_normal((COUNT, DIMENSION)) * 0.5
        lengths = random.uniform(0.5, 2.0, (COUNT, 1))
        self.places = ((centres[np.arange(COUNT) % 60] + spread) * lengths).astype(np.float32)
        self.queries = (centres + random.standard_normal(centres.shape) * 0.3).astype(np.float32)

    async def embed(self, texts, purpose="document"):
        known = self.queries if purpose == "query" else self.places
        return np.stack([known[int(text)] for text in texts])

    def tokenize(self, text):
        return [(0, len(text))]


POINTS = Points()
BEST = {
    "cosine": lambda q: POINTS.places @ q / np.linalg.norm(POINTS.places, axis=1) / np.linalg.norm(q),
    "l2": lambda q: -np.linalg.norm(POINTS.places - q, axis=1),
    "ip": lambda q: POINTS.places @ q,
}


def collection_of(store, index):
    name = some_name()
    make(store, name, [POINTS], {}, index=index, fields=["hundredth"])
    items = [Item(f"{n}", f"{n}", metadata={"hundredth": n % 100, "parity": n % 2}) for n in range(COUNT)]
    ingest(store, name, items, [POINTS])
    return fresh(store, name)


@pytest.fixture(scope="module", params=["vector", "halfvec", "bit"])
def indexed(store, request):
    return request.param, collection_of(store, request.param)


@pytest.fixture(scope="module")
def collection(store):
    return collection_of(store, "vector")


def true(query: int, distance: str, depth: int = 10) -> list[str]:
    scores = BEST[distance](POINTS.queries[query].astype(np.float64))
    return [str(each) for each in np.argsort(-scores, kind="stable")[:depth]]


async def prepared(model, text):
    return (await POINTS.embed([text], "query"))[0]


def near(store, view, leg, query, depth=10, **options):
    async def work():
        where = options.get("where")
        from core.filters import filter_from

        narrowed = search_target(store, view, "items").filtered(None if where is None else filter_from(where))
        async with store.begin(view.namespace, read_only=True) as connection:
            for each in options.get("settings", ()):
                await connection.exec_driver_sql(f"SET LOCAL {each}")
            return await leg.recall(connection, narrowed, PreparedQuery(str(query), prepared), depth)

    return bridge.run(work())


def plan_of(store, view, leg, *settings, where=None, depth=10):
    from core.filters import filter_from
    from tests.store.recalling import Watched

    async def work():
        narrowed = search_target(store, view, "items").filtered(None if where is None else filter_from(where))
        async with store.begin(view.namespace, read_only=True) as connection:
            for each in settings:
                await connection.exec_driver_sql(f"SET LOCAL {each}")
            watched = Watched(connection)
            await leg.recall(watched, narrowed, PreparedQuery("1", prepared), depth)
            return "\n".join(watched.plans)

    return bridge.run(work())


@pytest.mark.parametrize("distance", ["cosine", "l2", "ip"])
def test_exact_search_is_exact_by_every_distance(store, indexed, distance):
    for query in range(20):
        found = near(store, indexed[1], VectorLeg(exact=True, distance=distance), query)
        assert ids(found) == true(query, distance)
        expected = BEST[distance](POINTS.queries[query].astype(np.float64))
        assert [each.score for each in found] == pytest.approx([expected[int(each)] for each in ids(found)], abs=1e-4)


@pytest.mark.slow
def test_exact_search_touches_no_vector_index_whatever_the_planner_prefers(store, indexed):
    plan = plan_of(store, indexed[1], VectorLeg(exact=True), "enable_seqscan = off", "enable_sort = off")
    assert "hnsw" not in plan


def test_the_index_of_each_kind_is_used(store, indexed):
    kind, view = indexed
    plan = plan_of(store, view, VectorLeg(), "enable_seqscan = off")
    assert "vectors_1_hnsw" in plan
    assert ("halfvec" in plan) == (kind == "halfvec")
    assert ("<~>" in plan) == (kind == "bit")


@pytest.mark.slow
def test_measured_recall_at_the_defaults_is_high(store, indexed):
    async def work():
        where = search_target(store, indexed[1], "items")
        async with store.begin(indexed[1].namespace, read_only=True) as connection:
            await connection.exec_driver_sql("SET LOCAL enable_seqscan = off")
            return [
                await VectorLeg().measured_recall(connection, where, PreparedQuery(str(query), prepared))
                for query in range(60)
            ]

    assert np.mean(bridge.run(work())) >= 0.98


@pytest.mark.slow
def test_few_bits_to_choose_from_cost_recall(store):
    view = collection_of(store, "bit")
    found = {
        oversample: np.mean(
            [
                len({*ids(near(store, view, VectorLeg(oversample=oversample), q, 200))} & {*true(q, "cosine", 200)})
                / 200
                for q in range(10)
            ]
        )
        for oversample in (1, 40)
    }
    assert found[1] < found[40]


@pytest.mark.parametrize("distance", ["l2", "ip"])
def test_a_distance_that_no_index_serves_is_exact_and_says_so(store, indexed, distance):
    found = near(store, indexed[1], VectorLeg(distance=distance), 3, settings=("enable_seqscan = off",))
    assert ids(found) == true(3, distance)
    assert f"No index is ordered by {distance}" in said(found)


@pytest.mark.slow
def test_an_index_of_that_distance_is_used_where_there_is_one(store):
    view = collection_of(store, "vector")

    async def work():
        from core.store.names import written

        async with store.begin(view.namespace) as connection:
            made = "CREATE INDEX ON {vectors} USING hnsw (embedding vector_l2_ops)"
            await connection.execute(written(made, view.namespace, vectors="vectors_1"))

    bridge.run(work())
    found = near(store, view, VectorLeg(distance="l2"), 3, settings=("enable_seqscan = off",))
    assert said(found) == ""
    assert "vectors_1_embedding_idx" in plan_of(store, view, VectorLeg(distance="l2"), "enable_seqscan = off")


@pytest.mark.slow
@pytest.mark.parametrize("ef_search", [1, 200])
def test_ef_search_reaches_the_server(store, collection, ef_search):
    """The setting itself: what it does to recall depends on how the index happened to grow."""

    async def work():
        async with store.begin(collection.namespace, read_only=True) as connection:
            leg = VectorLeg(ef_search=ef_search)
            await leg.recall(connection, search_target(store, collection, "items"), PreparedQuery("1", prepared), 10)
            return await connection.scalar(text("SELECT current_setting('hnsw.ef_search')"))

    assert bridge.run(work()) == str(ef_search)


def test_with_a_filter_that_leaves_few_the_search_is_exact_and_says_so(store, indexed):
    where = {"field": "hundredth", "eq": 7}
    for query in range(10):
        found = near(store, indexed[1], VectorLeg(), query, where=where)
        assert ids(found) == [each for each in true(query, "cosine", COUNT) if int(each) % 100 == 7][:10]
        assert "leaves few" in said(found)
    assert "items_field_0" in plan_of(store, indexed[1], VectorLeg(), "enable_seqscan = off", where=where)


@pytest.mark.slow
def test_with_a_filter_that_leaves_many_the_index_goes_on_until_it_has_enough(store, collection, monkeypatch):
    monkeypatch.setattr("core.legs.vector.FEW", 100)
    where, settings = {"field": "parity", "eq": 1}, ("enable_seqscan = off",)
    hits = 0
    for query in range(30):
        found = near(store, collection, VectorLeg(), query, where=where, settings=settings)
        best = [each for each in true(query, "cosine", COUNT) if int(each) % 2][:10]
        assert len(found) == 10
        hits += len({*ids(found)} & {*best})
    assert hits / 300 >= 0.98
    assert "hnsw" in plan_of(store, collection, VectorLeg(), *settings, "enable_sort = off", where=where)


def test_a_shortfall_is_told(store, collection):
    found = near(store, collection, VectorLeg(), 1, 50, where={"field": "hundredth", "eq": 7})
    assert len(found) == 30
    assert "30 of the 50 asked for came back: there are no more." in said(found)


def test_a_shortfall_of_the_index_is_made_good_where_that_is_quick(store, collection):
    settings = ("enable_seqscan = off", "hnsw.max_scan_tuples = 1")
    found = near(store, collection, VectorLeg(ef_search=1), 1, 500, settings=settings)
    assert ids(found) == true(1, "cosine", 500)
    assert "The index brought up too few" in said(found)


def test_a_shortfall_of_the_index_is_told_where_comparing_all_would_take_long(store, collection, monkeypatch):
    monkeypatch.setattr("core.legs.vector.FEW", 100)
    settings = ("enable_seqscan = off", "hnsw.max_scan_tuples = 1")
    found = near(store, collection, VectorLeg(ef_search=1), 1, 500, settings=settings)
    assert len(found) < 500
    assert "the index brought up no more" in said(found)


def test_min_score_drops_and_tells(store, collection):
    found = near(store, collection, VectorLeg(exact=True), 1)
    cut = near(store, collection, VectorLeg(exact=True, min_score=found[3].score), 1)
    assert ids(cut) == ids(found)[:4]
    assert "6 scored less than" in said(cut)


def test_half_precision_says_so_in_its_own_expression_only(store, indexed):
    kind, view = indexed
    exact = near(store, view, VectorLeg(exact=True), 5)
    found = near(store, view, VectorLeg(), 5, settings=("enable_seqscan = off",))
    tolerance = {"vector": 1e-9, "halfvec": 1e-2, "bit": 1e-9}[kind]
    for each in found:
        (same,) = [one for one in exact if one.id == each.id] or [each]
        assert each.score == pytest.approx(same.score, abs=tolerance)


class Alike:
    """Every text is in one and the same place."""

    model, dimension = "alike", DIMENSION

    async def embed(self, texts, purpose="document"):
        return np.tile(POINTS.places[0], (len(texts), 1))

    def tokenize(self, text):
        return [(0, len(text))]


@pytest.fixture(scope="module", params=["vector", "halfvec", "bit"])
def alike(store, request):
    name = some_name()
    make(store, name, [Alike()], {}, index=request.param)
    shuffled = np.random.default_rng(5).permutation(4000)
    ingest(store, name, [Item(f"{n:04d}", f"{n}") for n in shuffled], [Alike()])
    return fresh(store, name)


@pytest.mark.slow
@pytest.mark.parametrize("depth", [10, 1000])
def test_of_thousands_of_equal_vectors_the_index_gives_the_first_by_id(store, alike, depth):
    found = near(store, alike, VectorLeg(), 1, depth, settings=("enable_seqscan = off",))
    assert ids(found) == [f"{n:04d}" for n in range(depth)]
    assert "compared with every vector" in said(found)


@pytest.mark.parametrize("depth", [10, 3900])
def test_of_more_equal_vectors_than_are_compared_some_come_by_id_and_what_is_missing_is_told(
    store, alike, depth, monkeypatch
):
    monkeypatch.setattr("core.legs.vector.FEW", 100)
    settings = ("enable_seqscan = off",)
    found = near(store, alike, VectorLeg(), 1, depth, settings=settings)
    assert ids(found) == sorted(ids(found))
    assert near(store, alike, VectorLeg(), 1, depth, settings=settings) == found
    if len(found) < depth:
        assert f"{len(found)} of the {depth} asked for came back: the index brought up no more" in said(found)
    else:
        assert "the index may not have met the first of them by id" in said(found)
