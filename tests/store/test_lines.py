"""Many queries on one connection: one state of the collection, and a query that fails spoils no other."""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import asyncio
from contextlib import contextmanager

import pytest
from sqlalchemy import event
from sqlalchemy.exc import DBAPIError

from core import bridge
from core.errors import MissingCapability
from core.legs import PreparedQuery
from core.legs.bm25 import Bm25Leg
from core.legs.vector import VectorLeg
from core.pipeline.recall import LegConnection
from core.store.resolve_target import search_target
from core.types import Item
from tests.fakes import HashingEmbedder
from tests.store.making import documents, fresh, ingest, make, some_name

EMBEDDER = HashingEmbedder(64)
BM25, VECTOR = Bm25Leg(), VectorLeg()


@pytest.fixture
def view(store):
    name = some_name()
    make(store, name, [EMBEDDER])
    ingest(store, name, documents(30), [EMBEDDER])
    return fresh(store, name)


def query(text: str = "common word3") -> PreparedQuery:
    async def embed(model, text):
        return (await EMBEDDER.embed([text], "query"))[0]

    return PreparedQuery(text, embed)


@contextmanager
def sent(store):
    """Every statement, as it is sent."""
    seen: list[str] = []

    def note(connection, cursor, statement, *_):
        seen.append(statement)

    event.listen(store.engine.sync_engine, "before_cursor_execute", note)
    try:
        yield seen
    finally:
        event.remove(store.engine.sync_engine, "before_cursor_execute", note)


@pytest.mark.slow
def test_what_is_loaded_meanwhile_is_not_seen_on_a_line_and_is_on_the_next(store, view):
    async def counts():
        where, found = search_target(store, view, "items"), []
        async with LegConnection(store, where) as line:
            found.append(await line.recall(query("common"), "bm25", BM25, 100))
            await asyncio.to_thread(ingest, store, view.name, [Item("new", "common as well")], [EMBEDDER])
            found.append(await line.recall(query("common"), "bm25", BM25, 100))
            await line.release()
            found.append(await line.recall(query("common"), "bm25", BM25, 100))
        return [len(each.found) for each in found]

    assert bridge.run(counts()) == [30, 30, 31]


@pytest.mark.slow
def test_settings_are_sent_once_for_many_queries_and_rankings_are_those_of_a_line_each(store, view):
    asked = [query(f"word{at} common") for at in range(6)]

    async def together():
        async with LegConnection(store, search_target(store, view, "items")) as line:
            return [await line.recall(each, name, leg, 10) for each in asked for name, leg in LEGS]

    async def apart():
        found = []
        for each in asked:
            for name, leg in LEGS:
                async with LegConnection(store, search_target(store, view, "items")) as line:
                    found.append(await line.recall(each, name, leg, 10))
        return found

    with sent(store) as statements:
        found = bridge.run(together())
    setting = "SET LOCAL hnsw.ef_search" if store.capabilities.distributed else "set_config"
    assert sum(setting in each for each in statements) == 1
    assert [each.found for each in found] == [each.found for each in bridge.run(apart())]


LEGS = (("vector", VECTOR), ("bm25", BM25))


def test_a_query_that_the_server_refuses_leaves_the_line_as_good_as_new(store, view):
    def broken(connection, cursor, statement, values, *_):
        if "unlucky" in str(values):
            cursor.execute("SELECT 1 / 0")

    async def asked():
        async with LegConnection(store, search_target(store, view, "items")) as line:
            before = await line.recall(query(), "bm25", BM25, 10)
            with pytest.raises(DBAPIError):
                await line.recall(query("unlucky"), "bm25", BM25, 10)
            return before, await line.recall(query(), "bm25", BM25, 10)

    event.listen(store.engine.sync_engine, "before_cursor_execute", broken)
    try:
        before, after = bridge.run(asked())
    finally:
        event.remove(store.engine.sync_engine, "before_cursor_execute", broken)
    assert before.found == after.found != ()


@pytest.mark.slow
def test_a_query_that_is_cancelled_leaves_it_so_too_and_its_statement_ends(store, view):
    def slow(connection, cursor, statement, values, *_):
        if "endless" in str(values):
            cursor.execute("SELECT pg_sleep(60)")

    async def asked():
        async with LegConnection(store, search_target(store, view, "items")) as line:
            work = asyncio.ensure_future(line.recall(query("endless"), "bm25", BM25, 10))
            await asyncio.wait({work}, timeout=0.3)
            work.cancel()
            with pytest.raises(asyncio.CancelledError):
                await work
            return await line.recall(query(), "bm25", BM25, 10)

    event.listen(store.engine.sync_engine, "before_cursor_execute", slow)
    try:
        assert len(bridge.run(asked()).found) == 10
    finally:
        event.remove(store.engine.sync_engine, "before_cursor_execute", slow)


@pytest.mark.slow
def test_a_leg_that_is_not_there_is_told_and_the_line_serves_another(store):
    name = some_name()
    make(store, name, [])
    ingest(store, name, documents(3), [])
    bare = fresh(store, name)

    async def asked():
        async with LegConnection(store, search_target(store, bare, "items")) as line:
            return await line.recall(query(), "vector", VECTOR, 10), await line.recall(query(), "bm25", BM25, 10)

    vector, words = bridge.run(asked())
    assert isinstance(vector.unavailable, MissingCapability)
    assert len(words.found) == 3
