"""The indexes: which there are after a build, and that each leg's own statement uses its one."""

# mypy: disable-error-code="no-untyped-call, no-any-return, call-arg, union-attr, type-arg, misc"
# mypy: disable-error-code="arg-type, var-annotated, unused-ignore"

from __future__ import annotations

import re

import numpy as np
import pytest
from sqlalchemy import cast, event, inspect, select, text
from sqlalchemy.dialects.postgresql import JSONB

from core import bridge
from core.errors import ConnectionFailed, StoreError
from core.legs import PreparedQuery, legs
from core.store import collections, indexes
from core.store.engine import Store
from core.store.resolve_target import search_target
from core.store.schema import Base
from core.types import Item
from tests.conftest import TEST_DSN
from tests.fakes import HashingEmbedder
from tests.store.making import documents, explain, fresh, ingest, make, query, some_name, tables, wrong
from tests.store.recalling import Watched


def plan_and_hits(store, view, chunks, leg, asked="common word3", *, embedder=None, depth=10):
    """The plans of the leg's statements, where reading the whole table is the last resort, and what it found."""

    async def embed(model, text):
        return (await embedder.embed([text]))[0]

    async def work():
        async with store.begin(view.namespace, read_only=True) as connection:
            await connection.execute(text("SET LOCAL enable_seqscan = off"))
            await connection.execute(text("SET LOCAL enable_sort = off"))
            watched = Watched(connection)
            found = await leg.recall(watched, search_target(store, view, chunks), PreparedQuery(asked, embed), depth)
            return "\n".join(watched.plans), found

    return bridge.run(work())


@pytest.fixture(scope="module")
def collection(store):
    """Two hundred documents, chunked and embedded."""
    name, embedder = some_name(), HashingEmbedder()
    make(store, name, [embedder], fields=["kind", "number"])
    ingest(store, name, documents(200), [embedder])
    return fresh(store, name)


@pytest.mark.parametrize("chunks", ["items", "small"])
@pytest.mark.parametrize(
    ("leg", "index"),
    [
        ("vector", r"Index Scan using vectors_\d_hnsw"),
        ("fulltext", r"lexemes_\d_tsv_gin"),
        ("trigram", r"(items|chunks_1)_text_gin"),
    ],
)
def test_each_legs_statement_uses_its_index(store, collection, chunks, leg, index):
    plan, found = plan_and_hits(store, collection, chunks, legs[leg](), embedder=HashingEmbedder())
    assert re.search(index, plan), plan
    assert len(found) == 10


def test_exact_search_reads_every_vector_and_not_the_index(store, collection):
    plan, found = plan_and_hits(store, collection, "small", legs["vector"](exact=True), embedder=HashingEmbedder())
    assert "hnsw" not in plan
    assert len(found) == 10


@pytest.mark.parametrize("distance", ["l2", "ip"])
def test_a_distance_that_the_index_does_not_order_by_is_searched_without_it(store, collection, distance):
    leg = legs["vector"](distance=distance)
    plan, found = plan_and_hits(store, collection, "small", leg, embedder=HashingEmbedder())
    assert "hnsw" not in plan
    assert len(found) == 10


@pytest.mark.slow
def test_a_half_precision_index_is_used_and_exact_search_still_reads_full_precision(store, name, embedder):
    make(store, name, [embedder], index="halfvec")
    ingest(store, name, documents(100), [embedder])
    view = fresh(store, name)
    plan, near = plan_and_hits(store, view, "small", legs["vector"](), embedder=embedder, depth=20)
    assert re.search(r"Index Scan using vectors_\d_hnsw", plan), plan
    _, exact = plan_and_hits(store, view, "small", legs["vector"](exact=True), embedder=embedder, depth=20)
    assert np.allclose([each.score for each in near], [each.score for each in exact], atol=2e-3)
    assert [each.score for each in near] != [each.score for each in exact]
    assert wrong(store, name) == {}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dimension", "index", "built"), [(2000, "vector", True), (2001, "vector", False), (2001, "halfvec", True)]
)
def test_more_dimensions_than_an_index_holds_are_searched_exactly(store, name, dimension, index, built):
    embedder = HashingEmbedder(dimension)
    make(store, name, [embedder], {}, index=index)
    ingest(store, name, documents(30), [embedder])
    view = fresh(store, name)
    plan, found = plan_and_hits(store, view, "items", legs["vector"](), "unique7", embedder=embedder)
    assert ("vectors_1_hnsw" in plan) is built, plan
    assert found[0].id == "d00007"
    assert wrong(store, name) == {}


def test_fields_named_at_import_have_an_index_that_serves_equality_ranges_and_containment(store, collection):
    async def plans():
        async with store.begin(collection.namespace) as connection:
            await connection.execute(text("SET LOCAL enable_seqscan = off"))
            items = tables(collection)["items"]
            number = items.c.metadata.op("->")("number")
            return [
                await explain(connection, select(items.c.id).where(condition))
                for condition in (
                    items.c.metadata.op("->")("kind") == cast("odd", JSONB),
                    number > cast(195, JSONB),
                    indexes.field_value(items, "number") == cast(3, JSONB),
                    items.c.metadata.contains({"kind": "odd"}),
                )
            ]

    found = bridge.run(plans())
    for plan, index in zip(
        found, ("items_field_0", "items_field_1", "items_field_1", "items_metadata_gin"), strict=True
    ):
        assert index in plan, plan


@pytest.mark.usefixtures("trigrams")
def test_all_wanted_indexes_are_there_after_an_ingest_and_building_again_does_nothing(store, collection):
    async def there():
        async with store.begin(collection.namespace) as connection:
            return await connection.run_sync(indexes.present, collection)

    wanted = {index.name for index in indexes.wanted(collection)}
    assert len(wanted) > 15
    assert wanted <= bridge.run(there())
    steps = []
    bridge.run(indexes.build(store, collection, steps.append))
    assert steps == []


class Watching:
    """Keeps the statements that the store sends, and how many index builds were at work together at most."""

    def __init__(self, store) -> None:
        self.engines = [store.engine.sync_engine]
        if store.cluster:
            self.engines.append(store.cluster.unpooled.sync_engine)
        self.building, self.most, self.shares, self.analyzed = 0, 0, [], 0

    def __enter__(self):
        for each in self.engines:
            event.listen(each, "before_cursor_execute", self.before)
            event.listen(each, "after_cursor_execute", self.after)
        return self

    def __exit__(self, *_):
        for each in self.engines:
            event.remove(each, "before_cursor_execute", self.before)
            event.remove(each, "after_cursor_execute", self.after)

    def before(self, connection, cursor, statement, parameters, *_):
        self.analyzed += statement.startswith("ANALYZE")
        if statement.startswith("CREATE INDEX"):
            self.building += 1
            self.most = max(self.most, self.building)

    def after(self, connection, cursor, statement, parameters, *_):
        if statement.startswith("CREATE INDEX"):
            self.building -= 1
            wanted = "SELECT name, setting FROM pg_settings WHERE name LIKE 'max%maintenance_workers' OR name = 'maintenance_work_mem'"  # noqa: E501
            self.shares.append(
                {name: int(value) for name, value in connection.exec_driver_sql(wanted.replace("%", "%%"))}
            )


@pytest.mark.slow
def test_a_few_indexes_are_built_at_once_and_share_what_the_server_allows_one(store, name, embedder, monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 64)
    make(store, name, [embedder])
    allowed = dict(query(store, fresh(store, name), "SELECT name, setting FROM pg_settings"))
    with Watching(store) as watched:
        ingest(store, name, documents(30), [embedder])
    most = 1 if store.capabilities.distributed else indexes.MOST_AT_ONCE  # a cluster builds in all shards at once
    assert min(most, 2) <= watched.most <= most
    assert len(watched.shares) > 10
    for share in watched.shares:
        assert share["maintenance_work_mem"] == int(allowed["maintenance_work_mem"]) // most
        assert share["max_parallel_maintenance_workers"] == int(allowed["max_parallel_maintenance_workers"]) // most


@pytest.fixture
def graph(store, name):
    """A collection of many vectors whose graph is still to be built."""
    if store.capabilities.distributed:
        pytest.skip("a cluster's workers build it, which do not tell")
    view = make(store, name, [Many()], {})
    ingest(store, name, [Item(f"{number}", f"{number}") for number in range(3000)], [Many()])
    query(store, view, "DROP INDEX {vectors}_hnsw")
    (index,) = [each for each in indexes.wanted(fresh(store, name)) if each.name.endswith("_hnsw")]
    return index


class Many:
    """A vector for any text, as fast as numbers are drawn."""

    model, dimension = "many", 64

    async def embed(self, texts, purpose="document"):
        return np.random.default_rng(len(texts)).standard_normal((len(texts), self.dimension)).astype(np.float32)

    def tokenize(self, text):
        return [(0, len(text))]


@pytest.mark.slow
def test_how_far_a_graph_is_is_told_while_it_is_built(store, name, graph):
    steps, view = [], fresh(store, name)

    async def work():
        async with store.begin(view.namespace) as connection:
            await indexes.create(connection, store, view, graph, steps.append, every=0.01)

    bridge.run(work())
    assert {(step.name, step.unit) for step in steps} == {(f"Building {graph.name}", "blocks")}
    done = [step.done for step in steps]
    assert done == sorted(done)
    assert 0 < done[-1] <= steps[-1].total


@pytest.mark.slow
def test_a_look_for_which_no_connection_was_free_is_followed_by_others(store, name, graph, monkeypatch):
    steps, refused, view, begin = [], [], fresh(store, name), Store.begin

    def busy(self, *arguments, **options):
        if options.get("read_only") and not refused:
            refused.append(True)
            raise ConnectionFailed("All connections are in use.")
        return begin(self, *arguments, **options)

    async def work():
        async with store.begin(view.namespace) as connection:
            monkeypatch.setattr(Store, "begin", busy)
            await indexes.create(connection, store, view, graph, steps.append, every=0.01)

    bridge.run(work())
    assert refused
    assert steps


@pytest.mark.slow
def test_a_build_that_nobody_watches_takes_no_connection_to_tell_of_itself(store, name, graph, monkeypatch):
    looks, view, begin = [], fresh(store, name), Store.begin

    def counted(self, *arguments, **options):
        looks.append(options)
        return begin(self, *arguments, **options)

    async def work():
        async with store.begin(view.namespace) as connection:
            monkeypatch.setattr(Store, "begin", counted)
            await indexes.create(connection, store, view, graph, every=0.01)

    bridge.run(work())
    assert looks == []


@pytest.mark.slow
@pytest.mark.skipif(TEST_DSN is not None, reason="a server of one's own has the memory that it was given")
def test_a_graph_is_given_the_memory_that_it_takes_on_our_own_server(store, name, graph):
    view = fresh(store, name)

    async def work():
        async with store.begin(view.namespace) as connection:
            await connection.execute(text("SET LOCAL maintenance_work_mem = '64kB'"))
            await indexes.create(connection, store, view, graph)
            given = "SELECT CAST(setting AS integer) * 1024 FROM pg_settings WHERE name = 'maintenance_work_mem'"
            return await connection.scalar(text(given))

    ((size,),) = query(store, view, "SELECT pg_table_size('{vectors}')")
    assert bridge.run(work()) == pytest.approx(2 * size, abs=1024)
    assert size > 500_000


@pytest.mark.slow
def test_the_planner_is_told_whenever_something_was_loaded(store, name, embedder):
    make(store, name, [embedder])
    ingest(store, name, documents(5), [embedder])
    mark_loaded(store, name)
    with Watching(store) as watched:
        ingest(store, name, documents(9), [embedder])
    assert watched.shares == []
    assert watched.analyzed > 5
    mark_loaded(store, name)
    with Watching(store) as watched:
        ingest(store, name, documents(9), [embedder])
    assert watched.analyzed == 0
    with Watching(store) as watched:  # the one before is not marked as ended
        ingest(store, name, documents(9), [embedder])
    assert watched.analyzed > 5


def mark_loaded(store, name):
    async def work():
        async with store.begin() as connection:
            await collections.mark_loaded(connection, name)

    bridge.run(work())


@pytest.mark.slow
def test_a_field_that_comes_later_is_indexed_unless_values_there_are_too_long(store, name):
    make(store, name, [], fields=["kind"])
    long = "".join(chr(code) for code in np.random.default_rng(7).integers(0x4E00, 0x9FFF, 3000))
    ingest(store, name, [*documents(5), Item("long", "text", metadata={"tag": long})])
    with pytest.raises(StoreError, match=r"'tag' of .* cannot be indexed: 1 documents, 'long' for one.*2,600"):
        bridge.run(collections.add_fields(store, fresh(store, name), ["number", "tag"]))
    assert fresh(store, name).row.fields == ["kind"]
    view = bridge.run(collections.add_fields(store, fresh(store, name), ["number", "kind"]))
    assert view.row.fields == ["kind", "number"]
    ingest(store, name, [])
    assert wrong(store, name) == {}


@pytest.mark.slow
def test_an_index_that_is_missing_is_built_by_the_next_ingest(store, name, embedder):
    view = make(store, name, [embedder])
    ingest(store, name, documents(5), [embedder])
    query(store, view, f'DROP INDEX "{view.namespace}".vectors_1_hnsw')
    ingest(store, name, documents(5), [embedder])
    assert wrong(store, name) == {}


def test_wanting_indexes_again_and_again_leaves_the_mapped_tables_as_they_are(collection):
    before = {table.name: len(table.indexes) for table in Base.metadata.sorted_tables}
    for _ in range(3):
        list(indexes.wanted(collection))
    assert {table.name: len(table.indexes) for table in Base.metadata.sorted_tables} == before
    assert all(not table.indexes for table in tables(collection, 1).values())


def test_the_planner_knows_the_tables_after_an_ingest(store, collection):
    statement = "SELECT relname FROM pg_class WHERE relnamespace = CAST(:namespace AS regnamespace) AND relkind = 'r' AND reltuples < 0"  # noqa: E501
    assert query(store, collection, statement, namespace=f'"{collection.namespace}"') == []


@pytest.mark.slow
def test_collections_of_different_dimensions_live_side_by_side(store):
    """The table of vectors number 1 has another width in each of them."""
    views = {}
    for dimension in (8, 16, 4):
        embedder = HashingEmbedder(dimension)
        views[dimension] = make(store, some_name(), [embedder], {})
    for dimension in (16, 4, 8, 16):
        embedder, view = HashingEmbedder(dimension), views[dimension]
        ingest(store, view.name, documents(10), [embedder])
        _, found = plan_and_hits(store, fresh(store, view.name), "items", legs["vector"](), embedder=embedder)
        assert len(found) == 10
        assert wrong(store, view.name) == {}


def test_without_trigrams_on_the_server_no_trigram_index_is_wanted(collection):
    names = {index.name for index in indexes.wanted(collection, trigrams=False)}
    assert "chunks_1_text_gin" not in names
    assert "lexemes_1_tsv_gin" in names


@pytest.mark.slow
def test_a_long_value_in_an_indexed_field_costs_its_row_alone(store, name):
    make(store, name, [], fields=["tag"])
    rng = np.random.default_rng(7)
    long = "".join(chr(code) for code in rng.integers(0x4E00, 0x9FFF, 3000))
    many = [float(number) for number in rng.random(400)]
    items = [
        Item("short", "a", metadata={"tag": "t"}),
        Item("long", "b", metadata={"tag": long}),
        Item("many", "c", metadata={"tag": many}),
    ]
    report = ingest(store, name, [*items, Item("elsewhere", "d", metadata={"other": long})])
    assert report.added == 2
    assert [(flaw.subject, flaw.outcome) for flaw in report.flaws] == [("long", "quarantined"), ("many", "quarantined")]
    assert "indexed" in report.flaws[0].message
    assert wrong(store, name) == {}


def test_the_largest_value_that_is_let_in_fits_its_index(store, name):
    from core.store import sanitize

    make(store, name, [], fields=["tag"])
    rng = np.random.default_rng(11)

    def letters(count):
        return "".join(chr(code) for code in rng.integers(0x4E00, 0x9FFF, count))

    values = [
        letters(864),
        [letters(1)] * 230,
        list(map(float, rng.random(77))),
        {letters(2): int(n) for n in rng.integers(0, 10**18, 50)},
    ]
    assert all(
        sanitize.LARGEST_INDEXED_VALUE * 0.6 < sanitize._bytes_as_jsonb(value) <= sanitize.LARGEST_INDEXED_VALUE
        for value in values
    )
    items = [Item(f"i{number}", "text", metadata={"tag": value}) for number, value in enumerate(values)]
    assert ingest(store, name, items).added == len(values)

    async def there():
        async with store.begin() as connection:
            return await connection.run_sync(lambda sync: inspect(sync).get_indexes("items", schema=fresh_namespace))

    fresh_namespace = f"c_{name}"
    assert "items_field_0" in {index["name"] for index in bridge.run(there())}
