"""A load of any length takes as much memory as a short one."""

# mypy: disable-error-code="no-untyped-call, no-any-return, union-attr, arg-type, misc"

from __future__ import annotations

import gc
import os
from pathlib import Path

import numpy as np
import pytest

from core import bridge
from core.types import Item, Place, Row
from tests.fakes import words
from tests.store.making import fresh, loader, make, query


class Enough(Exception):
    """Ends a source early: what would follow is not what is measured."""


class Blind:
    """A model that neither looks at texts nor remembers them."""

    model, dimension = "blind", 2

    async def embed(self, texts, purpose="document"):
        return np.ones((len(texts), 2), dtype=np.float32)

    def tokenize(self, text):
        return words(text)


def test_memory_stays_flat_however_long_the_source_is(store, name):
    """200,000 rows of which the first fill pools and caches: what comes after must not add up."""
    make(store, name, [Blind()], {})
    seen: list[int] = []

    def stream():
        for number in range(200_000):
            if number in {80_000, 199_999}:
                gc.collect()
                seen.append(resident_bytes())
            yield Row(Item(f"i{number}", f"w{number % 50}"), Place("generated", number))
        raise Enough

    with pytest.raises(Enough):
        bridge.run(loader(store, name, [Blind()]).run(stream()))
    assert query(store, fresh(store, name), "SELECT count(*) FROM {items}")[0][0] > 195_000
    assert seen[1] - seen[0] < 6 * 2**20


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
