"""An ingest killed at any moment is finished by running it again."""

# mypy: disable-error-code="no-untyped-call, no-any-return, call-arg, union-attr, type-arg, misc"

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from core.embedding.cache import TEXTS_A_STEP
from tests.conftest import TEST_DSN
from tests.fakes import HashingEmbedder
from tests.store.making import FAMILY, FIXED, complete, contents, documents, fresh, ingest, make, query, wrong

REPOSITORY = Path(__file__).parents[2]
KILLS = 10
DOCUMENTS = 600

pytestmark = pytest.mark.skipif(TEST_DSN is not None, reason="its process opens the embedded server of the test run")

# Embeds slowly, and writes down what it embeds before anybody can kill it.
LOADS = """
import sys, time
sys.path.insert(0, {repository!r})
from core import bridge
from core.store.engine import Store
from evals.store import chain
from tests.fakes import HashingEmbedder
from tests.store.making import documents, loader
from tests.fakes import rows

class Slow(HashingEmbedder):
    async def embed(self, texts, purpose="document"):
        with open({diary!r}, "a") as diary:
            diary.write("".join(f"{{text!r}}\\n" for text in texts))
        time.sleep(0.02)
        return await super().embed(texts, purpose)

store = bridge.run(Store.open(chains=[chain]))
slow = Slow(name={model!r})
print("begun", flush=True)
bridge.run(loader(store, {name!r}, [slow]).{action})
bridge.run(store.close())
"""
INGEST = f"run(rows(documents({DOCUMENTS})), prune=True)"


class Loads:
    """Runs that load a collection in processes of their own, and what they embedded altogether."""

    def __init__(self, name: str, model: str, diary: Path) -> None:
        self.name, self.model, self.diary = name, model, diary

    def start(self, action: str) -> subprocess.Popen[str]:
        code = LOADS.format(
            repository=str(REPOSITORY), diary=str(self.diary), model=self.model, name=self.name, action=action
        )
        process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n", process.stderr and process.stderr.read()
        return process

    def kill_after(self, action: str, seconds: float) -> bool:
        """Whether it was still at work."""
        process = self.start(action)
        time.sleep(seconds)  # a moment chosen by a seed, not a wait for something
        was_at_work = process.poll() is None
        process.kill()
        process.communicate()
        return was_at_work

    def finish(self, action: str) -> float:
        begun = time.monotonic()
        process = self.start(action)
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
        return time.monotonic() - begun

    def embedded_again(self) -> int:
        counts = Counter(self.diary.read_text().splitlines())
        return sum(count - 1 for count in counts.values())


@pytest.mark.slow
def test_an_ingest_killed_at_random_moments_ends_as_if_it_had_been_left_alone(store, name, tmp_path, randomly_seeded):
    chunks = {"small": FIXED, "family": FAMILY}
    undisturbed, killed = HashingEmbedder(name=f"{name} a"), HashingEmbedder(name=f"{name} b")
    make(store, f"{name} a", [undisturbed], chunks)
    whole = Loads(f"{name} a", f"{name} a", tmp_path / "whole")
    duration = whole.finish(INGEST)
    make(store, f"{name} b", [killed], chunks)
    torn = Loads(f"{name} b", f"{name} b", tmp_path / "torn")
    interrupted = sum(torn.kill_after(INGEST, randomly_seeded.uniform(0.0, 0.5) * duration) for _ in range(KILLS))
    assert interrupted >= 1
    torn.finish(INGEST)
    assert whole.embedded_again() == 0
    assert torn.embedded_again() <= KILLS * TEXTS_A_STEP
    assert wrong(store, f"{name} b") == {}
    assert contents(store, f"{name} a") == contents(store, f"{name} b")


@pytest.mark.slow
def test_a_killed_backfill_goes_on_where_it_was(store, name, tmp_path, randomly_seeded):
    plain = HashingEmbedder(name=f"{name} plain")
    make(store, name, [], {"small": FIXED})
    ingest(store, name, documents(DOCUMENTS))
    from core import bridge
    from core.store import collections

    async def add():
        view = await collections.get(store, name)
        view = await collections.add_chunk_set(store, view, "family", FAMILY)
        for each in view.chunk_sets:
            view = await collections.add_embedding_set(store, view, each, plain.model, plain.dimension)

    bridge.run(add())
    torn = Loads(name, f"{name} plain", tmp_path / "torn")
    kills = 3
    assert sum(torn.kill_after("complete()", randomly_seeded.uniform(0.2, 0.7)) for _ in range(kills)) >= 1
    torn.finish("complete()")
    assert torn.embedded_again() <= kills * TEXTS_A_STEP
    assert wrong(store, name) == {}
    made_at_once = HashingEmbedder(name=f"{name} plain")
    make(store, f"{name} b", [made_at_once], {"small": FIXED, "family": FAMILY})
    ingest(store, f"{name} b", documents(DOCUMENTS), [made_at_once])
    assert contents(store, name) == contents(store, f"{name} b")


@pytest.fixture
def randomly_seeded() -> random.Random:
    """Ten moments that are the same in every run."""
    return random.Random(20_260)


def test_the_server_killed_under_an_ingest_costs_the_run_and_nothing_else(store, name):
    embedder = HashingEmbedder(name=name)
    make(store, name, [embedder])
    ingest(store, name, documents(50), [embedder])

    class Assassin(HashingEmbedder):
        async def embed(self, texts, purpose="document"):
            os.kill(store.server.pid, signal.SIGKILL)
            return await super().embed(texts, purpose)

    from sqlalchemy.exc import DBAPIError

    with pytest.raises((DBAPIError, OSError)):
        ingest(store, name, documents(100), [Assassin(name=name)])
    assert query(store, fresh(store, name), "SELECT count(*) FROM {items}")[0][0] >= 50
    ingest(store, name, documents(100), [embedder])
    complete(store, name, [embedder])
    assert query(store, fresh(store, name), "SELECT count(*) FROM {items}") == [(100,)]
    assert wrong(store, name) == {}
