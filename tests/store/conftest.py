"""What only tests of the store are given by name."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from core import bridge
from core.store.engine import Store
from evals.schema import schema_chain as evals_chain
from tests.store import standin


@pytest.fixture
def one_server(store: Store) -> None:
    """What only one server does is not asked of a cluster."""
    if store.capabilities.distributed:
        pytest.skip("is about one server, and RANKBOOK_TEST_DSN names a cluster")


@pytest.fixture(scope="session")
def coordinator(store: Store) -> Iterator[standin.StandIn]:
    """A database that looks like a Citus coordinator."""
    yield from _stand_in(store)


@pytest.fixture
def other(store: Store) -> Iterator[standin.StandIn]:
    """Such a database of one test alone, which it may change."""
    yield from _stand_in(store)


def _stand_in(store: Store) -> Iterator[standin.StandIn]:
    with standin.made(store) as made:
        yield made


@pytest.fixture(scope="session")
def cluster(coordinator: standin.StandIn) -> Iterator[Store]:
    """Rankbook on that database."""
    opened = bridge.run(Store.open(coordinator.dsn, chains=[evals_chain]))
    yield opened
    bridge.run(opened.close())
