"""Many mixed operations leave memory and connections as they were, and everything in its place."""

from __future__ import annotations

import pytest

from core.store.engine import Store
from tests.conftest import TEST_DSN
from tests.drills.faults import soak
from tests.effort import TIMES

OPERATIONS = 1_500 * TIMES


@pytest.mark.skipif(TEST_DSN is not None, reason="it counts the connections of a server that nobody else uses")
def test_many_mixed_operations_leave_memory_and_connections_flat(store: Store) -> None:
    outcome = soak.drill(store, OPERATIONS)
    assert outcome.injected == OPERATIONS
    assert outcome.clean, outcome
