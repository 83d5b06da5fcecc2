"""Two processes that load one collection at once; and one that lost its lock while another went on."""

from __future__ import annotations

from pathlib import Path

import psycopg

from core import bridge
from core.errors import RankbookError
from core.progress import Step
from core.store import collections
from core.store.engine import Store
from tests.drills.faults.nursery import Nursery
from tests.drills.faults.outcome import Outcome, account
from tests.fakes import HashingEmbedder, rows
from tests.store.making import FAMILY, documents, fresh, ids, ingest, loader, make, some_name

DOCUMENTS, FEW, ROUNDS = 300, 60, 1
LOAD = "tests.drills.faults.chores:load"
HOLDER = """
SELECT pg_terminate_backend(pid) FROM pg_locks
WHERE locktype = 'advisory' AND granted AND objsubid = 1 AND pid <> pg_backend_pid()
  AND (CAST(classid AS bigint) << 32) | CAST(objid AS bigint) = hashtextextended(%(name)s, 7)
"""
WRITING = """
SELECT count(*) FROM pg_stat_activity
WHERE backend_type = 'client backend' AND backend_xid IS NOT NULL AND pid <> pg_backend_pid()
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
    lost, doubled, said = 0, 0, list[str]()
    with Nursery() as other:
        for beginning in STEPS:
            found = _overtaken_at(store, folder, other, beginning)
            lost, doubled, said = lost + found.lost, doubled + found.doubled, [*said, *found.said]
    works = len(said) == len(STEPS)
    return Outcome("ingest overtaken after its lock was lost", len(STEPS), lost, doubled, works, tuple(said))


def _overtaken_at(store: Store, folder: Path, other: Nursery, beginning: str) -> Outcome:
    name, struck, said = some_name(), list[str](), list[str]()
    embedder, diary = HashingEmbedder(name=name), str(folder / some_name())
    _made(store, name, embedder, backfilling=beginning in BACKFILLS)
    first = loader(store, name, [embedder])

    def listener(step: Step) -> None:
        """Holds the first one up until the second is done: a listener is called where it stands.

        Not while another of its batches is being written: the second one would wait for that for ever.
        """
        if not struck and step.name.startswith(beginning) and not _is_writing(store):
            struck.append(step.name)
            _take_lock_away(store, name)
            ended = other.run(LOAD, name, name, DOCUMENTS, diary, 0.0)
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


def _is_writing(store: Store) -> bool:
    assert store.server is not None
    with psycopg.connect(store.server.conninfo(), autocommit=True) as connection:
        row = connection.execute(WRITING).fetchone()
    return bool(row and row[0])


def _take_lock_away(store: Store, name: str) -> None:
    assert store.server is not None
    with psycopg.connect(store.server.conninfo(), autocommit=True) as connection:
        connection.execute(HOLDER, {"name": name})


DRILLS = (at_once, overtaken)
