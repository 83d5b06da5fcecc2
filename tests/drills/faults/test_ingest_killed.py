"""An ingest killed at any moment is finished by running it again."""

# mypy: disable-error-code="no-untyped-call, no-any-return, call-arg, union-attr, type-arg, misc"

from __future__ import annotations

import os
import signal

import pytest

from core import bridge
from core.errors import StoreError
from core.store import collections
from core.store.chunk_and_embed import TEXTS_A_STEP
from tests.conftest import TEST_DSN
from tests.drills.faults import ingest_killed
from tests.drills.faults.ingest_killed import CHUNKS, DOCUMENTS, LOAD
from tests.drills.faults.nursery import Nursery
from tests.drills.faults.outcome import is_sentence
from tests.effort import random_for
from tests.fakes import HashingEmbedder
from tests.store.making import FAMILY, FIXED, complete, contents, documents, fresh, ingest, make, query, wrong

pytestmark = pytest.mark.skipif(TEST_DSN is not None, reason="its process opens the embedded server of the test run")


def test_an_ingest_killed_at_twenty_random_moments_ends_as_if_it_had_been_left_alone(store, tmp_path):
    outcome = ingest_killed.drill(store, tmp_path)
    assert outcome.injected == ingest_killed.KILLS
    assert (outcome.lost, outcome.doubled) == (0, 0)
    assert outcome.works
    assert len(set(outcome.said)) > 5, "the moments were all alike"


def test_a_killed_backfill_goes_on_where_it_was(store, name, tmp_path):
    model, moments = f"{name} plain", random_for("backfill killed")
    plain, diary = HashingEmbedder(name=model), tmp_path / "diary"
    make(store, name, [], {"small": FIXED})
    ingest(store, name, documents(DOCUMENTS))

    async def add():
        view = await collections.get(store, name)
        view = await collections.add_chunk_set(store, view, "family", FAMILY)
        for each in view.chunk_sets:
            view = await collections.add_embedding_set(store, view, each, plain.model, plain.dimension)

    bridge.run(add())
    given = (LOAD, name, model, DOCUMENTS, str(diary))
    with Nursery() as nursery:
        kills = [nursery.killed_after(moments.uniform(0.2, 0.7), *given, action="complete").killed for _ in range(3)]
        assert any(kills)
        assert nursery.run(*given, action="complete").well
    embedded = diary.read_text().splitlines()
    assert len(embedded) - len(set(embedded)) <= len(kills) * TEXTS_A_STEP
    assert wrong(store, name) == {}
    made_at_once = HashingEmbedder(name=model)
    make(store, f"{name} b", [made_at_once], CHUNKS)
    ingest(store, f"{name} b", documents(DOCUMENTS), [made_at_once])
    assert contents(store, name) == contents(store, f"{name} b")


def test_the_server_killed_under_an_ingest_costs_the_run_and_nothing_else(store, name):
    embedder = HashingEmbedder(name=name)
    make(store, name, [embedder])
    ingest(store, name, documents(50), [embedder])

    class Assassin(HashingEmbedder):
        async def embed(self, texts, purpose="document"):
            os.kill(store.server.pid, signal.SIGKILL)
            return await super().embed(texts, purpose)

    with pytest.raises(StoreError) as told:
        ingest(store, name, documents(100), [Assassin(name=name)])
    assert is_sentence(str(told.value))
    assert query(store, fresh(store, name), "SELECT count(*) FROM {items}")[0][0] >= 50
    ingest(store, name, documents(100), [embedder])
    complete(store, name, [embedder])
    assert query(store, fresh(store, name), "SELECT count(*) FROM {items}") == [(100,)]
    assert wrong(store, name) == {}
