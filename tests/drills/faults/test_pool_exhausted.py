"""More work than connections waits its turn or is told so in time, and gives back what it took."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from core.store.engine import Store
from tests.conftest import TEST_DSN
from tests.drills.faults import crowd
from tests.drills.faults.outcome import Outcome

pytestmark = pytest.mark.skipif(TEST_DSN is not None, reason="it takes all connections of the embedded server")


@pytest.mark.parametrize("drill", crowd.DRILLS)
def test_connections_that_are_all_taken_are_waited_for_or_told_of(
    store: Store, drill: Callable[[Store], Outcome]
) -> None:
    outcome = drill(store)
    assert outcome.clean, outcome
    assert all("All connections to" in said for said in outcome.said)
