"""The way to the server is cut, halved, slowed or silent: nothing is lost or doubled, and the next command works."""

from __future__ import annotations

import pytest

from core.store.engine import Store
from tests.conftest import TEST_DSN
from tests.drills.faults import cut

pytestmark = [
    pytest.mark.skipif(TEST_DSN is not None, reason="its proxy stands before the embedded server's socket"),
]


def test_an_ingest_whose_connections_are_cut_or_truncated_says_so_and_goes_on_when_run_again(store: Store) -> None:
    outcome = cut.drops(store)
    assert outcome.injected >= 4
    assert outcome.clean, outcome
    assert outcome.said


def test_a_commit_whose_answer_is_lost_is_not_stored_twice(store: Store) -> None:
    outcome = cut.lost_answers(store)
    assert outcome.injected >= 8
    assert outcome.said
    assert outcome.clean, outcome


def test_delays_cost_an_ingest_time_and_nothing_else(store: Store) -> None:
    outcome = cut.delays(store)
    assert outcome.injected > 10
    assert outcome.said == ()
    assert outcome.clean, outcome


def test_a_search_whose_connection_is_cut_says_so_and_the_next_one_finds_the_same(store: Store) -> None:
    outcome = cut.under_search(store)
    assert outcome.injected > cut.CUTS
    assert outcome.said
    assert outcome.clean, outcome


def test_a_server_that_falls_silent_is_given_up_at_the_deadline(store: Store) -> None:
    outcome = cut.under_silence(store)
    assert outcome.injected == 1
    assert outcome.clean, outcome
    assert outcome.said == ("The search did not end within 0.5 s.",)


def test_a_suite_whose_connections_are_cut_is_finished_by_running_it_again(store: Store) -> None:
    outcome = cut.under_suite(store)
    assert outcome.injected == cut.CUTS
    assert outcome.said
    assert outcome.clean, outcome
