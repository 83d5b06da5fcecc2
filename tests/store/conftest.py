"""What only tests of the store are given by name."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from core import bridge
from core.store.engine import Store
from evals.store import chain as evals_chain
from tests.store import making, standin


@pytest.fixture(scope="session")
def coordinator(store: Store) -> Iterator[standin.StandIn]:
    """A database that looks like a Citus coordinator."""
    yield from _stand_in(store)


@pytest.fixture
def other(store: Store) -> Iterator[standin.StandIn]:
    """Such a database of one test alone, which it may change."""
    yield from _stand_in(store)


def _stand_in(store: Store) -> Iterator[standin.StandIn]:
    if not making.is_superuser(store):
        pytest.skip("makes a database with a catalogue that looks like Citus, which takes a superuser")
    with standin.made(store) as made:
        yield made


@pytest.fixture(scope="session")
def cluster(coordinator: standin.StandIn) -> Iterator[Store]:
    """Rankbook on that database."""
    opened = bridge.run(Store.open(coordinator.dsn, chains=[evals_chain]))
    yield opened
    bridge.run(opened.close())
