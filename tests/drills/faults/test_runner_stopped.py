"""A suite stopped at any moment is finished by running it again, and no leg is asked the same query twice."""

# mypy: disable-error-code="no-untyped-call, no-any-return, call-arg, union-attr, type-arg, misc"
# mypy: disable-error-code="arg-type, var-annotated, unused-ignore"

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import event, func, select, text

from core import bridge
from core.context import RequestContext, Resources
from core.errors import Cancelled, ConnectionFailed, StoreError
from core.fusion.score_based import LinearFusion
from core.legs.bm25 import Bm25Leg
from core.legs.fulltext import FulltextLeg
from core.legs.vector import VectorLeg
from core.rerank import OverlapReranker
from core.types import Query
from core.variant import Variant
from evals.runs import runner
from evals.runs.plan import EvalOptions
from evals.runs.query_runs import LEG_BATCH
from evals.schema import RankingBatch
from evals.types import QuerySplit
from tests.conftest import TEST_DSN
from tests.fakes import HashingEmbedder
from tests.store.making import FIXED, documents, fresh, ingest, make

EMBEDDER = HashingEmbedder(64)
QUERIES = 2 * LEG_BATCH + 6
OPTIONS = EvalOptions((), as_shipped=False, least_depth=20)
REPOSITORY = Path(__file__).parents[3]
LEGS = (FulltextLeg(label="words", weight=0.5), VectorLeg(exact=True), Bm25Leg())
VARIANTS = [
    Variant(name="rrf", legs=LEGS, chunks="small"),
    Variant(name="linear", legs=LEGS, chunks="small", fusion=LinearFusion()),
    Variant(name="reranked", legs=LEGS[2:], chunks="small", rerank=OverlapReranker()),
]


@pytest.fixture
def context(store, name):
    make(store, name, [EMBEDDER], {"small": FIXED})
    ingest(store, name, documents(30), [EMBEDDER])
    return RequestContext(store, fresh(store, name), Resources(embedder=lambda _: EMBEDDER, environment={}))


def of_queries(count: int = QUERIES) -> QuerySplit:
    return QuerySplit("test", {f"q{at:03d}": Query(f"q{at:03d}", f"word{at} unique{at} common") for at in range(count)})


SPLIT = of_queries()


def run(context, variants=VARIANTS, split=SPLIT, **given):
    return bridge.run(runner.run(context, variants, split, options=OPTIONS, **given))


@contextmanager
def statements(store, telling: str):
    """Every statement of the server's side that holds these words, as it is sent, with its values."""
    seen: list[str] = []

    def note(connection, cursor, statement, values, *_):
        if telling in statement:
            seen.append(str(values))

    event.listen(store.engine.sync_engine, "before_cursor_execute", note)
    try:
        yield seen
    finally:
        event.remove(store.engine.sync_engine, "before_cursor_execute", note)


def rankings(runs):
    return [(each.name, each.rankings) for each in runs]


@pytest.mark.parametrize(("stop", "after"), [("token", 1), ("task", LEG_BATCH + 3), ("token", QUERIES - 1)])
def test_a_suite_that_was_stopped_goes_on_where_it_was_and_asks_no_query_twice(store, context, stop, after):
    """Stopped from within: after so many answers of the first leg, which alone uses ts_rank."""

    async def stopped():
        token, seen = asyncio.Event(), []
        given = RequestContext(store, context.view, context.resources, token)
        work = asyncio.ensure_future(runner.run(given, VARIANTS, SPLIT, options=OPTIONS))

        def note(connection, cursor, statement, *_):
            if "ts_rank" in statement:
                seen.append(statement)
                if len(seen) == after:
                    token.set() if stop == "token" else work.cancel()

        event.listen(store.engine.sync_engine, "after_cursor_execute", note)
        (ended,) = await asyncio.gather(work, return_exceptions=True)
        event.remove(store.engine.sync_engine, "after_cursor_execute", note)
        return ended

    with statements(store, "ts_rank") as first:
        assert isinstance(bridge.run(stopped()), Cancelled if stop == "token" else asyncio.CancelledError)
    kept = bridge.run(kept_queries(store, context))
    assert kept >= after - OPTIONS.connections
    with statements(store, "ts_rank") as second:
        finished = run(context)
    assert len(second) == QUERIES - kept
    under_way = len(first) + len(second) - QUERIES
    assert under_way <= OPTIONS.connections, "but for the queries that the stop broke off"
    with statements(store, "ts_rank") as third:
        assert rankings(run(context)) == rankings(finished)
    assert third == []
    assert rankings(bridge.run(undisturbed(context))) == rankings(finished)


async def undisturbed(context):
    return await runner.run(
        context, VARIANTS, SPLIT, options=EvalOptions((), as_shipped=False, least_depth=20, again=True)
    )


async def kept_queries(store, context) -> int:
    asked = select(func.coalesce(func.sum(RankingBatch.queries), 0)).where(RankingBatch.collection == context.view.name)
    async with store.begin() as connection:
        return await connection.scalar(asked)


def test_a_searched_variant_that_was_stopped_goes_on_where_it_was(store, context):
    async def stopped():
        token = asyncio.Event()

        def listener(step):
            if step.name.startswith("searching") and step.done >= QUERIES // 2:
                token.set()

        given = RequestContext(store, context.view, context.resources, token)
        await runner.run(given, VARIANTS[2:], SPLIT, options=OPTIONS, progress=listener)

    with pytest.raises(Cancelled):
        bridge.run(stopped())
    kept = bridge.run(kept_queries(store, context))
    assert QUERIES > kept >= QUERIES // 2
    steps, left = [], f"searching reranked, {kept} of {QUERIES} kept"
    finished = run(context, VARIANTS[2:], progress=steps.append)
    assert next(step.total for step in steps if step.name == left) == QUERIES - kept
    assert bridge.run(kept_queries(store, context)) == 0, "the run is whole, its parts are not needed"
    assert all(ranked.ids for ranked in finished[0].rankings.values())
    assert len(finished[0].milliseconds) == len(finished[0].stages["rerank"]) == QUERIES


KILLED = """
import os, signal, sys
sys.path.insert(0, {repository!r})
from core import bridge
from core.store.engine import Store
from evals.runs import runner
from evals.schema import schema_chain
from tests.drills.faults.test_runner_stopped import EMBEDDER, OPTIONS, SPLIT, VARIANTS
from core.context import Resources
from core.context import RequestContext
from tests.store.making import fresh

def killed(step):
    if step.name.startswith("vector") and step.done >= {after}:
        os.kill(os.getpid(), signal.SIGKILL)

store = bridge.run(Store.open(chains=[schema_chain]))
context = RequestContext(store, fresh(store, {name!r}), Resources(embedder=lambda _: EMBEDDER, environment={{}}))
bridge.run(runner.run(context, VARIANTS, SPLIT, options=OPTIONS, progress=killed))
"""


@pytest.mark.skipif(TEST_DSN is not None, reason="its process opens the embedded server of the test run")
def test_a_suite_whose_process_was_killed_goes_on_where_it_was(store, context, name):
    code = KILLED.format(repository=str(REPOSITORY), name=name, after=LEG_BATCH)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert bridge.run(kept_queries(store, context)) == QUERIES + LEG_BATCH
    with statements(store, "ts_rank") as words, statements(store, "<=>") as vectors:
        finished = run(context, VARIANTS[:2])
    assert words == []
    assert len(vectors) == QUERIES - LEG_BATCH
    assert all(ranked.ids for each in finished for ranked in each.rankings.values())


def test_a_query_that_the_server_breaks_off_is_counted_and_the_others_go_on(store, context):
    """A statement that takes too long is the query's failure; the suite is none the worse."""

    def hurry(connection, cursor, statement, values, *_):
        if "ts_rank" in statement and "unique7 " in str(values):
            cursor.execute("SET LOCAL statement_timeout = 1; SELECT pg_sleep(5)")

    event.listen(store.engine.sync_engine, "before_cursor_execute", hurry)
    try:
        made = run(context)
    finally:
        event.remove(store.engine.sync_engine, "before_cursor_execute", hurry)
    for each in made[:2]:
        assert set(each.failures) == {"q007"}
        assert re.search("statement timeout", each.failures["q007"])
        assert each.rankings["q007"].ids == ()
        assert len(each.rankings) == QUERIES
    assert made[2].failures == {}
    mended = run(context)
    assert [each.failures for each in mended] == [{}] * 3
    assert all(each.rankings["q007"].ids for each in mended)


@pytest.mark.skipif(TEST_DSN is not None, reason="it kills a process of the embedded server")
def test_a_server_that_is_lost_ends_the_suite_with_what_was_done_kept(store, context):
    """The process that would answer is gone when it is asked."""
    sent = []

    def killer(connection, cursor, statement, *_):
        if "<=>" in statement:
            sent.append(statement)
            if len(sent) == LEG_BATCH + 3:
                os.kill(connection.connection.driver_connection.info.backend_pid, signal.SIGTERM)

    event.listen(store.engine.sync_engine, "before_cursor_execute", killer)
    try:
        with pytest.raises(ConnectionFailed, match=r"run the same command again\. What was done until then is kept"):
            run(context)
    finally:
        event.remove(store.engine.sync_engine, "before_cursor_execute", killer)
    assert bridge.run(kept_queries(store, context)) >= QUERIES + LEG_BATCH
    with statements(store, "ts_rank") as words:
        finished = run(context, VARIANTS[:2])
    assert words == []
    assert [each.failures for each in finished] == [{}] * 2


def test_a_collection_that_moves_on_under_a_suite_ends_it_in_a_sentence(store, context):
    moving = []

    def changes(step):
        if step.name.startswith("vector") and step.done == LEG_BATCH:
            moving.append(asyncio.ensure_future(move()))

    async def move():
        async with store.begin() as connection:
            moved = text("UPDATE rankbook.collections SET version = version + 1 WHERE name = :name")
            await connection.execute(moved, {"name": context.view.name})

    with pytest.raises(StoreError, match="was changed while it was being evaluated"):
        run(context, progress=changes)
    finished = run(replace(context, view=fresh(store, context.view.name)), VARIANTS[:1])
    assert finished[0].subject.version == context.view.row.version + 1
