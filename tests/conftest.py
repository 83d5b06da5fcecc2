"""The real server that every test of the store shares, and what tests are given by name."""

from __future__ import annotations

import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from core import bridge
from core.store.engine import Store
from evals.store import chain as evals_chain
from tests.fakes import HashingEmbedder

SHARED = Path(os.environ.get("RANKBOOK_DATA") or Path(__file__).parents[2] / "shared" / "data")
TEST_DSN = os.environ.get("RANKBOOK_TEST_DSN")


def pytest_configure() -> None:
    """Nothing a test does may touch the developer's own store."""
    os.environ.pop("RANKBOOK_DSN", None)
    os.environ["RANKBOOK_HOME"] = str(make_home())


def pytest_unconfigure() -> None:
    shutil.rmtree(os.environ["RANKBOOK_HOME"], ignore_errors=True)


def make_home() -> Path:
    """A home for a server. In the short temporary folder, which the server's own user can pass through."""
    return Path(tempfile.mkdtemp(prefix="rankbook-test-", dir="/tmp"))


@pytest.fixture(scope="session")
def store() -> Iterator[Store]:
    """The embedded server, or the one at RANKBOOK_TEST_DSN."""
    opened = bridge.run(Store.open(TEST_DSN, chains=[evals_chain]))
    yield opened
    bridge.run(opened.close())


@pytest.fixture
def name() -> str:
    """A collection name of this test alone."""
    return f"test {uuid.uuid4().hex[:12]}"


@pytest.fixture
def embedder() -> HashingEmbedder:
    return HashingEmbedder()


@pytest.fixture
def shared() -> Path:
    """The folder of real labelled collections; the test is skipped where it is absent."""
    if not SHARED.is_dir():
        pytest.skip(f"needs the labelled collections in {SHARED} (set RANKBOOK_DATA)")
    return SHARED
