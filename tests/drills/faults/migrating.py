"""A migration killed at any statement: of the catalogue, of the harness's tables, of a collection. The next start goes
on, and what stood there stands."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from uuid import uuid4

import psycopg
from psycopg import sql

from core import bridge
from core.store import collections
from core.store.engine import Store
from core.store.migrations import catalog
from core.store.migrations import collection as collection_chain
from evals.schema import schema_chain
from tests.drills.faults.nursery import Nursery
from tests.drills.faults.outcome import Outcome, account
from tests.fakes import HashingEmbedder
from tests.store.making import documents, ids, ingest, make

KILLED = "tests.drills.faults.chores:killed_at"
MOMENTS = (1, 2, 4, 6, 9, 12, 16)  # statements that change something, counted from 1
OLD = {"catalog": "c0001", "evals": "e0002", "collection": "k0001"}


@contextmanager
def database(store: Store) -> Iterator[str]:
    """A new database on the same server, and how to connect to it."""
    assert store.server is not None
    name = f"drill_{uuid4().hex[:12]}"
    with psycopg.connect(store.server.conninfo(), autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        try:
            yield store.server.conninfo(name)
        finally:
            connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def of_a_new_store(store: Store) -> Outcome:
    """From nothing: killed at one statement after the other, then left alone."""
    with Nursery() as nursery, database(store) as dsn:
        struck = [nursery.run(KILLED, number, "open_store", dsn).killed for number in MOMENTS]
        lost, doubled = bridge.run(_usable(dsn))
    return Outcome("migration killed, new store", sum(struck), lost, doubled, all(struck))


def of_an_old_store(store: Store) -> Outcome:
    """From a store of an older version that holds something."""
    with Nursery() as nursery, database(store) as dsn:
        bridge.run(_old(dsn))
        struck = [nursery.run(KILLED, number, "open_store", dsn).killed for number in (1, 2, 3, 5, 7)]
        bridge.run(_opened_and_closed(dsn))
        with psycopg.connect(dsn) as connection:
            kept = connection.execute("SELECT count(*) FROM rankbook.collections WHERE loaded_at IS NOT NULL")
            lost = 1 - kept.fetchone()[0]  # type: ignore[index]
        more, doubled = bridge.run(_usable(dsn))
    return Outcome("migration killed, old store", sum(struck), lost + more, doubled, all(struck))


def of_a_collection(store: Store) -> Outcome:
    """While one is made, and while an old one is looked at for the first time."""
    name = f"test {uuid4().hex[:12]}"
    embedder = HashingEmbedder(name=name)
    with Nursery() as nursery:
        struck = [nursery.run(KILLED, number, "make", name).killed for number in (1, 3, 5, 8)]
        make(store, name, [embedder])
        ingest(store, name, documents(50), [embedder])
        bridge.run(_made_old(store, name))
        struck += [nursery.run(KILLED, number, "look", name).killed for number in (1, 2)]
    lost, doubled = account(store, name, ids(documents(50)))
    return Outcome("migration killed, collection", sum(struck), lost, doubled, all(struck))


async def _opened_and_closed(dsn: str) -> None:
    async with await Store.open(dsn, chains=[schema_chain]):
        return


async def _old(dsn: str) -> None:
    """The catalogue and the harness's tables as older versions had them, with a collection that was loaded."""
    async with await Store.open(dsn) as opened, opened.begin() as connection:
        await connection.exec_driver_sql("DROP SCHEMA rankbook CASCADE")
        for each in (catalog, schema_chain):
            await connection.run_sync(partial(each.upgrade, target=OLD[each.name]))
        await connection.exec_driver_sql(
            "INSERT INTO rankbook.collections (name, namespace, language, card, origin, fields, version) "
            "VALUES ('old', 'c_old', 'english', '', '{}', '[]', 3)"
        )


async def _made_old(store: Store, name: str) -> None:
    view = await collections.get(store, name)
    async with store.begin(view.namespace) as connection:
        await connection.exec_driver_sql(f'DROP TABLE "{view.namespace}".chunk_cache')
        version = f'"{view.namespace}".{collection_chain.version_table}'
        await connection.exec_driver_sql(f"UPDATE {version} SET version_num = '{OLD['collection']}'")


async def _usable(dsn: str) -> tuple[int, int]:
    """Opened as usual it takes a collection, and every chain has come to its end."""
    store = await Store.open(dsn, chains=[schema_chain])
    try:
        async with store.begin() as connection:
            behind = [each.name for each in (catalog, schema_chain) if not await connection.run_sync(each.is_current)]
    finally:
        await store.close()
    return len(behind), 0


DRILLS = (of_a_new_store, of_an_old_store, of_a_collection)
