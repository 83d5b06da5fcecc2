"""The server killed under a suite costs the queries under way, and running it again finishes."""

from __future__ import annotations

import pytest

from core.store.engine import Store
from tests.conftest import TEST_DSN, without_disk
from tests.drills.faults import server_killed

pytestmark = pytest.mark.skipif(TEST_DSN is not None, reason="it kills the embedded server")


def test_a_suite_whose_server_is_killed_three_times_says_so_and_is_finished_by_running_it_again(store: Store) -> None:
    without_disk(store, commits="on")
    outcome = server_killed.drill(store)
    assert outcome.injected == server_killed.KILLS
    assert outcome.clean, outcome
    assert all("run the same command again" in said for said in outcome.said)
