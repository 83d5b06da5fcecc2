"""Whatever is killed, whenever: the server comes back, nobody waits for ever, and what was committed is there."""

from __future__ import annotations

import pytest

from tests.conftest import TEST_DSN
from tests.drills.faults import kills

pytestmark = pytest.mark.skipif(TEST_DSN is not None, reason="it kills the embedded server")


def test_whatever_is_killed_at_whatever_moment_costs_no_row_and_nobody_waits_for_ever() -> None:
    outcome = kills.drill()
    assert outcome.injected >= kills.KILLS
    assert outcome.clean, outcome
