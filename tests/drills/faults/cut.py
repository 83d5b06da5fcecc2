"""The way to the server is cut, halved, slowed and silenced by a proxy: under an ingest, a search and a suite."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from core import bridge
from core.errors import RankbookError
from core.legs.bm25 import Bm25Leg
from core.pipeline.retriever import RetrievalResult, search
from core.store.engine import Store
from core.store.server.embedded import SOCKET
from core.variant import Variant
from evals.schema import schema_chain
from tests.drills.faults import server_killed
from tests.drills.faults.outcome import Outcome, account
from tests.drills.faults.proxy import Delay, Drop, Fault, LostAnswer, Proxy, Silence
from tests.effort import TIMES, random_for
from tests.fakes import HashingEmbedder
from tests.store.making import contents, documents, ids, ingest, make, some_name

DOCUMENTS, CUTS = 300, 6 * TIMES
FEW = documents(40)
WORDS = Variant.of_leg(Bm25Leg(), chunks="small")


@contextmanager
def through(store: Store) -> Iterator[tuple[Store, Proxy]]:
    """The same store, reached through a proxy."""
    assert store.server is not None
    with Proxy(str(store.server.socket_folder / SOCKET)) as proxy:
        other = bridge.run(Store.open(proxy.dsn(), chains=[schema_chain]))
        try:
            yield other, proxy
        finally:
            proxy.fault = Fault()
            bridge.run(other.close())


def under_ingest(store: Store, called: str, faults: list[Fault]) -> Outcome:
    """Each fault in a run of its own, until they are through; then one in peace."""
    name = some_name()
    embedder = HashingEmbedder(name=name)
    make(store, name, [embedder])
    said, struck = list[str](), 0
    with through(store) as (other, proxy):
        for fault in faults:
            proxy.fault = fault
            said += _complaint(lambda: ingest(other, name, documents(DOCUMENTS), [embedder]))
            struck += fault.struck
        proxy.fault = Fault()
        ingest(other, name, documents(DOCUMENTS), [embedder])
    lost, doubled = account(store, name, ids(documents(DOCUMENTS)))
    alone = some_name()
    make(store, alone, [embedder])
    ingest(store, alone, documents(DOCUMENTS), [embedder])
    return Outcome(called, struck, lost, doubled, contents(store, name) == contents(store, alone), tuple(said))


def _complaint(work: Callable[[], object]) -> list[str]:
    """What was said, if anything: any other error than the project's own is one of the drill."""
    try:
        work()
    except RankbookError as error:
        return [str(error)]
    return []


def drops(store: Store, cuts: int = CUTS) -> Outcome:
    moments = random_for("drops")
    faults: list[Fault] = [Drop(moments.randint(10, 250), truncating=number % 2 == 1) for number in range(cuts)]
    return under_ingest(store, "connection cut or truncated under an ingest", faults)


def lost_answers(store: Store) -> Outcome:
    """Every commit of an ingest in turn, made by the server and never heard of by the client."""
    alone, lost, doubled, said, works, commit, struck = _loaded(store), 0, 0, list[str](), True, 0, True
    with through(store) as (other, proxy):
        while struck:
            commit, name = commit + 1, some_name()
            embedder = HashingEmbedder(name=name)
            make(store, name, [embedder])
            proxy.fault = fault = LostAnswer(commit)
            said += _complaint(lambda: ingest(other, name, FEW, [embedder]))  # noqa: B023 - called at once
            struck, proxy.fault = bool(fault.struck), Fault()
            ingest(other, name, FEW, [embedder])
            found = account(store, name, ids(FEW))
            lost, doubled = lost + found[0], doubled + found[1]
            works &= contents(store, name) == contents(store, alone)
    return Outcome("answer to a commit lost under an ingest", commit - 1, lost, doubled, works, tuple(said))


def _loaded(store: Store) -> str:
    """One that nobody disturbed."""
    name = some_name()
    embedder = HashingEmbedder(name=name)
    make(store, name, [embedder])
    ingest(store, name, FEW, [embedder])
    return name


def delays(store: Store) -> Outcome:
    return under_ingest(store, "pieces delayed under an ingest", [Delay(0.02, 0.1)])


def under_search(store: Store, cuts: int = CUTS) -> Outcome:
    """The next search works, and finds the same."""
    name = some_name()
    context, moments = server_killed.searchable(store, name), random_for("cut under search")
    whole = bridge.run(search(context, "word7 common", WORDS))
    said, struck, works = list[str](), 0, True
    with through(store) as (other, proxy):
        there = replace(context, store=other)
        for number in range(cuts):
            proxy.fault = fault = Drop(moments.randint(1, 6), truncating=number % 2 == 1)
            while not fault.struck:
                said += _complaint(lambda: bridge.run(search(there, "word7 common", WORDS)))
            struck += fault.struck
            bridge.run(search(there, "word7 common", WORDS))
            struck += proxy.cut()  # of those that rest, nobody need hear
            works &= _same(bridge.run(search(there, "word7 common", WORDS)), whole)
    return Outcome("connection cut or truncated under a search", struck, 0, 0, works, tuple(said))


def _same(one: RetrievalResult, other: RetrievalResult) -> bool:
    return [(hit.id, hit.score) for hit in one.hits] == [(hit.id, hit.score) for hit in other.hits]


def under_silence(store: Store) -> Outcome:
    """A server that says nothing more is given up at the deadline, and its connection with it."""
    context = server_killed.searchable(store, some_name())
    with through(store) as (other, proxy):
        there = replace(context, store=other, deadline=0.5)
        bridge.run(search(there, "word7", WORDS))
        proxy.fault = fault = Silence()
        said = _complaint(lambda: bridge.run(search(there, "word7", WORDS)))
        proxy.fault = Fault()
        works = bool(bridge.run(search(replace(there, deadline=None), "word7 common", WORDS)).hits)
    return Outcome("server silent under a search", min(fault.struck, 1), 0, 0, works and bool(said), tuple(said))


def under_suite(store: Store, cuts: int = CUTS) -> Outcome:
    context, moments = server_killed.searchable(store, some_name()), random_for("cut under suite")
    said, struck, ended = list[str](), 0, None
    with through(store) as (other, proxy):
        there = replace(context, store=other)
        while struck < cuts or not ended:
            proxy.fault = fault = Drop(moments.randint(20, 150)) if struck < cuts else Fault()
            ended, complaint = server_killed.tried(there, again=bool(ended))
            struck += fault.struck
            said += [complaint] if complaint else []
    counted = server_killed.rows_a_run(store, context.view.name)
    lost, twice = server_killed.compared(ended, server_killed.run(context, again=True))
    doubled = twice + sum(counted.values()) - len(server_killed.VARIANTS)
    return Outcome("connection cut under a suite", struck, lost, doubled, True, tuple(said))


DRILLS = (drops, lost_answers, delays, under_search, under_silence, under_suite)
