"""Nodes of a cluster that fall silent: who waits for one is freed with its name, and nobody else is disturbed.

The coordinator is a stand-in (`standin.py`) whose nodes answer as a test says.
"""

# mypy: disable-error-code="no-untyped-call, no-any-return, call-arg, union-attr, type-arg, misc, attr-defined"

from __future__ import annotations

import asyncio

import psycopg
import pytest
from sqlalchemy import text

from core import bridge
from core.errors import ConnectionFailed
from core.store.engine import CitusConnections, Store
from core.store.node_watch import NodeWatch

SILENT = """UPDATE standin.answers SET success = false, result = 'could not establish connection after 8000 ms'
WHERE nodename = 'two'"""
SHUT_OUT = SILENT.replace("could not establish connection after 8000 ms", "FATAL: password authentication failed")
LOCK = 4711
NAMED = r"The node two:5433 of the Citus cluster at .* is silent"


class Looks:
    """Counts the connections that the watch makes, each for one look."""

    def __init__(self, dsn):
        self.dsn, self.made = dsn, 0
        self.first, self.enough = asyncio.Event(), asyncio.Event()

    async def __call__(self):
        self.made += 1
        self.first.set()
        if self.made > 8:
            self.enough.set()
        return await psycopg.AsyncConnection.connect(self.dsn)


def opened(other, work):
    """The work with a store that looks again and again, and the count of its looks."""

    async def run():
        async with await Store.open(other.dsn) as store:
            looks = Looks(other.dsn)
            watch = NodeWatch(looks, patience=0.0, answer_within=5.0, between=0.01)
            store.cluster = CitusConnections(watch, store.cluster.unpooled)
            return await work(store, looks)

    return bridge.run(run())


async def wait_for_lock(store):
    """A statement that lasts as long as somebody else holds the lock."""
    async with store.begin() as connection:
        return await connection.scalar(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": LOCK})


@pytest.fixture
def held(other):
    with other.connect() as connection:
        connection.execute("SELECT pg_advisory_lock(%s)", [LOCK])
        yield connection


def test_who_waits_for_a_silent_node_is_freed_with_its_name_and_can_go_on(other, held):
    other.run(SILENT)

    async def work(store, _):
        with pytest.raises(ConnectionFailed, match=NAMED):
            await wait_for_lock(store)
        async with store.begin() as connection:
            return await connection.scalar(text("SELECT 1"))

    assert opened(other, work) == 1


@pytest.mark.parametrize("answers", ["SELECT 1", SHUT_OUT])
def test_a_statement_whose_nodes_answer_is_never_ended_however_long_it_takes(other, held, answers):
    """A node that does not let a role in answers too."""
    other.run(answers)

    async def work(store, looks):
        waiting = asyncio.ensure_future(wait_for_lock(store))
        await looks.enough.wait()
        assert not waiting.done()
        held.execute("SELECT pg_advisory_unlock_all()")
        await waiting
        return True

    assert opened(other, work)


def test_a_connection_that_rests_is_left_alone_while_a_node_is_silent(other):
    other.run(SILENT)

    async def work(store, looks):
        async with store.connect() as resting:
            await resting.scalar(text("SELECT 1"))
            with other.connect() as holding:
                holding.execute("SELECT pg_advisory_lock(%s)", [LOCK])
                with pytest.raises(ConnectionFailed, match=NAMED):
                    await wait_for_lock(store)
            return await resting.scalar(text("SELECT 2"))

    assert opened(other, work) == 2


def test_to_stop_ends_a_statement_though_a_node_is_silent(other, held):
    other.run(SILENT)

    async def work(store, looks):
        waiting = asyncio.ensure_future(wait_for_lock(store))
        await looks.first.wait()
        waiting.cancel()
        with pytest.raises((asyncio.CancelledError, ConnectionFailed)):
            await waiting
        return True

    assert opened(other, work)


def test_what_a_coordinator_reports_without_a_name_is_laid_to_the_node_that_does_not_answer(other):
    other.run(SILENT)
    raised = "DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '57P01', MESSAGE = 'terminating connection'; END $$"

    async def work(store, _):
        with pytest.raises(ConnectionFailed, match=NAMED):
            async with store.begin() as connection:
                await connection.execute(text(raised))
        return True

    assert opened(other, work)


def test_a_fresh_connection_is_one_that_no_pool_keeps(other):
    async def work(store, _):
        async def process(**options):
            async with store.begin(**options) as connection:
                return await connection.scalar(text("SELECT pg_backend_pid()"))

        kept = await process()
        assert await process() == kept
        anew = await process(fresh=True)
        return anew != kept and await process(fresh=True) != anew and await process() == kept

    assert opened(other, work)
