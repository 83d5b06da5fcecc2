"""Workers of a Citus cluster killed, frozen and restarted at random moments of loads, refreshes and evaluations.

RANKBOOK_TEST_CITUS_DSN names the cluster, and RANKBOOK_TEST_CITUS_STOP, _START, _FREEZE and _THAW are commands that do
so to one of its workers; without them this is skipped. RANKBOOK_TEST_CITUS_FAULTS says how many faults.
"""

# mypy: disable-error-code="no-untyped-call, no-any-return, call-arg, union-attr, type-arg, misc"

from __future__ import annotations

import os
import shlex
import subprocess
import threading
import time
from itertools import count

import pytest

from core import bridge
from core.context import RequestContext
from core.errors import RankbookError
from core.legs import legs
from core.store import collections
from core.store.engine import Store
from core.types import Query
from core.variant import Variant
from evals.runs import runner
from evals.runs.plan import EvalOptions
from evals.schema import schema_chain as evals_chain
from evals.types import QuerySplit
from tests.drills.faults.outcome import account, is_sentence
from tests.effort import TIMES, random_for
from tests.fakes import HashingEmbedder
from tests.store import journey
from tests.store.making import documents, fresh, ingest, make, some_name

DSN = os.environ.get("RANKBOOK_TEST_CITUS_DSN")
COMMANDS = {what: os.environ.get(f"RANKBOOK_TEST_CITUS_{what}", "") for what in ("STOP", "START", "FREEZE", "THAW")}
FAULTS = int(os.environ.get("RANKBOOK_TEST_CITUS_FAULTS", 20 * TIMES))
ENDS_WITHIN = 60.0  # seconds
DOCUMENTS = 60
EMBEDDER = HashingEmbedder()

pytestmark = pytest.mark.skipif(
    not (DSN and all(COMMANDS.values())), reason="takes a Citus cluster, and commands that stop and freeze a worker"
)


def ordered(*what):
    for each in what:
        subprocess.run(shlex.split(COMMANDS[each]), check=True)


@pytest.fixture
def citus():
    opened = bridge.run(Store.open(DSN, chains=[evals_chain]))
    yield opened
    bridge.run(opened.close())


class Works:
    """What is done while nodes fail, each over and over and a little different every time."""

    def __init__(self, store, name):
        self.store, self.name, self.turn = store, name, count(20)
        self.variants = [Variant.of_leg(legs[kind](), chunks="small") for kind in journey.HYBRID]

    def refresh(self):
        words = next(self.turn)
        return lambda: ingest(self.store, self.name, documents(DOCUMENTS, words=words), [EMBEDDER], prune=True)

    def load(self):
        name = some_name()
        make(self.store, name, [EMBEDDER])

        def work():
            if bridge.run(collections.find(self.store, name)) is None:  # done already, and dropped
                make(self.store, name, [EMBEDDER])
            ingest(self.store, name, documents(DOCUMENTS), [EMBEDDER])
            assert account(self.store, name, [each.id for each in documents(DOCUMENTS)]) == (0, 0)
            bridge.run(collections.drop(self.store, name))

        return work

    def evaluate(self):
        queries = {f"q{at}": Query(f"q{at}", f"word{at} unique{at} common") for at in range(60)}
        split = QuerySplit("test", queries, digest=str(next(self.turn)).encode())

        def work():
            context = RequestContext(self.store, fresh(self.store, self.name), journey.RESOURCES)
            runs = bridge.run(runner.run(context, self.variants, split, options=EvalOptions(again=True)))
            assert [dict(run.failures) for run in runs] == [{}] * len(runs)

        return work


FAULT = {"killed": ("STOP", "START"), "restarted": ("STOP",), "frozen": ("FREEZE", "THAW")}


def disturbed(work, fault, moment):
    """What the work says, and how long it takes, where a worker fails at that moment of it. In the end it is back."""
    begin, *end = FAULT[fault]

    def strike():
        ordered(begin)
        if not end:
            ordered("START")

    striking = threading.Timer(moment, strike)
    striking.start()
    begun = time.monotonic()
    try:
        work()
        said = ""
    except RankbookError as error:
        said = str(error)
    finally:
        took = time.monotonic() - begun
        striking.join()
        ordered(*end)
    return said, took


@pytest.mark.timeout(600 + FAULTS * ENDS_WITHIN)
def test_whatever_a_worker_does_commands_end_with_its_name_and_go_on_and_nothing_is_lost(citus):
    random, name = random_for("nodes of a cluster"), some_name()
    make(citus, name, [EMBEDDER])
    ingest(citus, name, documents(DOCUMENTS), [EMBEDDER])
    works, wanted = Works(citus, name), [each.id for each in documents(DOCUMENTS)]
    noticed = 0
    for number in range(FAULTS):
        fault = random.choice([*["killed"] * 4, *["restarted"] * 4, "frozen"])
        kind = random.choice(["refresh", "load", "evaluate"])
        work = getattr(works, kind)()
        said, took = disturbed(work, fault, random.uniform(0.0, 1.2))
        print(f"{number}: {kind}, {fault}, {took:.1f} s: {said or 'completed'}", flush=True)
        assert took < ENDS_WITHIN, (kind, fault, said)
        assert not said or (is_sentence(said) and "node" in said.lower()), (kind, fault, said)
        noticed += bool(said)
        journey.patiently(work)
        assert account(citus, name, wanted) == (0, 0), (kind, fault)
    assert noticed or FAULTS < 5, "the moments were all alike"
    bridge.run(collections.drop(citus, name))
