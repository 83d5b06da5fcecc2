"""A migration killed at any statement leaves the store as it was, and the next start goes on."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from core.store.engine import Store
from tests.conftest import TEST_DSN
from tests.drills.faults import migrating
from tests.drills.faults.outcome import Outcome

pytestmark = [
    pytest.mark.skipif(TEST_DSN is not None, reason="its processes open the embedded server of the test run"),
]


@pytest.mark.parametrize("drill", migrating.DRILLS)
def test_a_killed_migration_is_as_if_it_had_not_begun_and_the_next_start_finishes_it(
    store: Store, drill: Callable[[Store], Outcome]
) -> None:
    outcome = drill(store)
    assert outcome.injected >= 5
    assert outcome.clean, outcome
