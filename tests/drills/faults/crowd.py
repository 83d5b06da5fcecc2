"""More searches at once than there are connections, and a server that has none left for anybody."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import psycopg

from core import bridge
from core.context import RequestContext
from core.errors import RankbookError
from core.legs.bm25 import Bm25Leg
from core.legs.fulltext import FulltextLeg
from core.legs.vector import VectorLeg
from core.pipeline.retriever import search
from core.store.engine import Store
from core.variant import Variant
from evals.schema import schema_chain
from tests.drills.faults import server_killed
from tests.drills.faults.outcome import Outcome
from tests.store.making import some_name

SEARCHES, CONNECTIONS = 80, 24
VARIANT = Variant(name="all", legs=(FulltextLeg(), VectorLeg(), Bm25Leg()), chunks="small")


async def _another(store: Store, free_within: float) -> Store:
    assert store.server is not None
    return await Store.open(store.server.conninfo(), chains=[schema_chain], free_within=free_within)


def held(store: Store) -> int:
    """Connections that are not given back."""
    taken: int = store.engine.pool.checkedout()  # type: ignore[attr-defined]
    return taken


def of_searches(store: Store, searches: int = SEARCHES) -> Outcome:
    """Each with three legs: they wait for each other, all succeed, and give back what they took."""
    context = server_killed.searchable(store, some_name())

    async def crowd() -> int:
        asked = (search(context, f"word{number} common", VARIANT) for number in range(searches))
        return sum(bool(found.hits) for found in await asyncio.gather(*asked))

    found = bridge.run(crowd())
    return Outcome("more searches than connections", searches, searches - found, 0, held(store) == 0)


def of_the_pool(store: Store) -> Outcome:
    """Somebody keeps all of them: a sentence within the time, and a result once they are back."""
    context = server_killed.searchable(store, some_name())

    async def work() -> Outcome:
        async with await _another(store, 0.3) as other:
            there = replace(context, store=other)
            kept = [await other.engine.connect() for _ in range(CONNECTIONS)]
            said = await _said(there)
            for each in kept:
                await each.close()
            works = bool((await search(there, "word7 common", VARIANT)).hits) and held(other) == 0
            return Outcome("all connections of the pool held", 1, 0, 0, works and bool(said), tuple(said))

    return bridge.run(work())


def of_the_server(store: Store) -> Outcome:
    """Other programs keep all that the server has: waited for, then told; and waited for with success."""
    context = server_killed.searchable(store, some_name())
    strangers = _strangers(store)

    async def work() -> Outcome:
        async with await _opened_amid(store, strangers) as other:
            there, patient = replace(context, store=other), await _another(store, 30.0)
            for each in (other, patient):
                await each.engine.dispose()  # they hold nothing when all are taken
            strangers.extend(_strangers(store))
            said = await _said(there)
            waiting = asyncio.ensure_future(search(replace(there, store=patient), "word7 common", VARIANT))
            await asyncio.sleep(0.3)
            _leave(strangers)
            works = bool((await waiting).hits) and bool((await search(there, "word7", VARIANT)).hits)
            await patient.close()
            return Outcome("all connections of the server taken", 2, 0, 0, works and bool(said), tuple(said))

    try:
        return bridge.run(work())
    finally:
        _leave(strangers)


async def _opened_amid(store: Store, strangers: list[psycopg.Connection]) -> Store:
    for each in strangers[-4:]:
        each.close()
    return await _another(store, 0.3)


def _strangers(store: Store) -> list[psycopg.Connection]:
    assert store.server is not None
    made: list[psycopg.Connection] = []
    try:
        while True:
            made.append(psycopg.connect(store.server.conninfo(), autocommit=True))
    except psycopg.OperationalError:
        return made


def _leave(strangers: list[psycopg.Connection]) -> None:
    for each in strangers:
        each.close()


async def _said(context: RequestContext) -> list[str]:
    try:
        await search(context, "word7 common", VARIANT)
    except RankbookError as error:
        return [str(error)]
    return []


DRILLS = (of_searches, of_the_pool, of_the_server)
