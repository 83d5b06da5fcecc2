"""A disk that is really full: told in a sentence, and nothing is lost or doubled once there is room again."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.conftest import TEST_DSN
from tests.drills.faults import disk
from tests.drills.faults.outcome import Outcome

pytestmark = [
    pytest.mark.skipif(TEST_DSN is not None, reason="it fills the disk of an embedded server"),
]


@pytest.mark.parametrize("drill", disk.DRILLS)
def test_a_full_disk_is_told_in_a_sentence_and_costs_the_run_alone(drill: Callable[[], Outcome]) -> None:
    try:
        outcome = drill()
    except disk.CannotMount as reason:
        pytest.skip(str(reason))
    assert outcome.injected == 1
    assert outcome.clean, outcome
    assert all("full" in said and "ake room there" in said for said in outcome.said), outcome.said
