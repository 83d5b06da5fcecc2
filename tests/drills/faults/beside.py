"""Two processes that load one collection at once; and one that lost its lock while another went on."""

from __future__ import annotations

from pathlib import Path

import psycopg

from core import bridge
from core.errors import RankbookError
from core.store import collections
from core.store.engine import Store
from core.store.progress import Step
from tests.drills.faults.nursery import Nursery
from tests.drills.faults.outcome import Outcome, account
from tests.fakes import HashingEmbedder, rows
from tests.store.making import FAMILY, FIXED, documents, fresh, ids, ingest, loader, make, some_name

DOCUMENTS, FEW, ROUNDS = 300, 60, 1
LOAD = "tests.drills.faults.chores:load"
HOLDER = """
SELECT pg_terminate_backend(pid) FROM pg_locks
WHERE locktype = 'advisory' AND granted AND objsubid = 1 AND pid <> pg_backend_pid()
  AND (CAST(classid AS bigint) << 32) | CAST(objid AS bigint) = hashtextextended(%(name)s, 7)
"""
BACKFILLS = ("Chunking", "Embedding")
STEPS = ("Loading", *BACKFILLS, "Full-text lexemes of small", "BM25 postings and vocabulary of items")


def at_once(store: Store, folder: Path, rounds: int = ROUNDS) -> Outcome:
    """One of them loads, the other one is told that it does."""
    lost, doubled, said, works = 0, 0, list[str](), True
    with Nursery() as first, Nursery() as second:
        for number in range(rounds):
            name = some_name()
            make(store, name, [HashingEmbedder(name=name)])
            given = (LOAD, name, name, FEW, str(folder / f"{number}"), 1.5)
            first.start(*given)
            second.start(*given)
            ends = [first.end(), second.end()]
            said += [each.said.strip() for each in ends if not each.well]
            works &= any(each.well for each in ends) and first.run(*given[:-1], 0.0).well
            found = account(store, name, ids(documents(FEW)))
            lost, doubled = lost + found[0], doubled + found[1]
    return Outcome("two ingests of one collection at once", rounds, lost, doubled, works, tuple(said))


def overtaken(store: Store, folder: Path) -> Outcome:
    """The first one's lock is lost with its connection; the second one does all the work before the first goes on."""
    lost, doubled, said, model = 0, 0, list[str](), some_name()
    _embed_all(store, HashingEmbedder(name=model))
    with Nursery() as other:
        for beginning in STEPS:
            found = _overtaken_at(store, folder, other, model, beginning)
            lost, doubled, said = lost + found.lost, doubled + found.doubled, [*said, *found.said]
    works = len(said) == len(STEPS)
    return Outcome("ingest overtaken after its lock was lost", len(STEPS), lost, doubled, works, tuple(said))


def _embed_all(store: Store, embedder: HashingEmbedder) -> None:
    """Every vector is in the cache: one that is held up while it keeps some there holds up whoever makes the same."""
    name = some_name()
    make(store, name, [embedder], {"small": FIXED, "family": FAMILY})
    ingest(store, name, documents(DOCUMENTS), [embedder])


def _overtaken_at(store: Store, folder: Path, other: Nursery, model: str, beginning: str) -> Outcome:
    name, struck, said = some_name(), list[str](), list[str]()
    embedder, diary = HashingEmbedder(name=model), str(folder / some_name())
    _made(store, name, embedder, backfilling=beginning in BACKFILLS)
    first = loader(store, name, [embedder])

    def listener(step: Step) -> None:
        """Holds the first one up until the second is done: a listener is called where it stands."""
        if not struck and step.name.startswith(beginning):
            struck.append(step.name)
            _take_lock_away(store, name)
            ended = other.run(LOAD, name, model, DOCUMENTS, diary, 0.0)
            assert ended.well, ended.said

    first.listener = listener
    try:
        bridge.run(first.run(rows(documents(DOCUMENTS))))
    except RankbookError as error:
        said.append(str(error))
    lost, doubled = account(store, name, ids(documents(DOCUMENTS)))
    return Outcome(beginning, len(struck), lost, doubled, True, tuple(said))


def _made(store: Store, name: str, embedder: HashingEmbedder, *, backfilling: bool) -> None:
    """Empty; or full, with a chunk set and a model that came later."""
    make(store, name, [] if backfilling else [embedder])
    if backfilling:
        ingest(store, name, documents(DOCUMENTS))
        view = bridge.run(collections.add_chunk_set(store, fresh(store, name), "family", FAMILY))
        for chunk_set in view.chunk_sets:
            bridge.run(collections.add_embedding_set(store, view, chunk_set, embedder.model, embedder.dimension))


def _take_lock_away(store: Store, name: str) -> None:
    assert store.server is not None
    with psycopg.connect(store.server.conninfo(), autocommit=True) as connection:
        connection.execute(HOLDER, {"name": name})


DRILLS = (at_once, overtaken)
