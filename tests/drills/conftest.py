"""What holds for every drill."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def collected() -> Iterator[None]:
    """What a drill leaves open is found when it ends, and is blamed on it and not on whoever comes next."""
    yield
    gc.collect()
