"""The store that the pages open for themselves, with the collections that their tests look at."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from core import bridge
from core.store.engine import Store
from evals.collections import load
from tests.app.corpus import HOSTILE, KETTLES, MODEL
from tests.conftest import without_disk
from workbench import session

APP = Path(__file__).parents[2] / "workbench" / "app.py"


@pytest.fixture(scope="session")
def store() -> Iterator[Store]:
    """The pages' own store, in the home of this test run."""
    opened = session.store()
    without_disk(opened)
    fields = ("type", "date")
    with_vectors = load.LoadPlan(models=(MODEL,), fields=fields)
    bridge.run(load.load_collection(opened, "kettles", KETTLES, with_vectors))
    bridge.run(load.load_collection(opened, "hostile", HOSTILE, with_vectors))
    bridge.run(load.load_collection(opened, "no vectors", KETTLES, load.LoadPlan(models=())))
    yield opened
    session.close()


@pytest.fixture(scope="session", autouse=True)
def quick(one_scan: None) -> None:
    """All pages here are drawn by AppTest."""


@pytest.fixture
def app(store: Store) -> AppTest:
    """The workbench, not yet run. Set `query_params`, then run it."""
    return AppTest.from_file(str(APP), default_timeout=60)
