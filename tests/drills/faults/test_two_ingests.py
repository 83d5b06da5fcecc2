"""One writer a collection at a time: the second is told so, and one that lost its lock does not write on."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.store.engine import Store
from tests.conftest import TEST_DSN
from tests.drills.faults import beside

pytestmark = [
    pytest.mark.skipif(TEST_DSN is not None, reason="its processes open the embedded server of the test run"),
]


def test_of_two_processes_that_load_one_collection_at_once_one_is_told_to_wait(store: Store, tmp_path: Path) -> None:
    outcome = beside.at_once(store, tmp_path)
    assert outcome.clean, outcome
    assert len(outcome.said) == outcome.injected
    assert all("Another process is loading the collection" in said for said in outcome.said)


def test_an_ingest_that_lost_its_lock_and_was_overtaken_stores_nothing_twice(store: Store, tmp_path: Path) -> None:
    outcome = beside.overtaken(store, tmp_path)
    assert outcome.injected == len(beside.STEPS)
    assert outcome.clean, outcome
