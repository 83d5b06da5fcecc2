"""How much the tests try, and from which seed: little and always the same in `make test`, more in `make drills`.

`python -m tests.drills` sets both variables. A drill reads them here and nowhere else.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from hypothesis import settings

TIMES: Final = int(os.environ.get("RANKBOOK_TEST_TIMES", "1"))
SEED: Final = int(os.environ.get("RANKBOOK_TEST_SEED", "20261119"))
STEADY: Final = "RANKBOOK_TEST_SEED" not in os.environ  # the examples of a property are those of the last run


def examples(count: int, **options: Any) -> settings:
    """So many examples of a property, times what this run is worth."""
    return settings(max_examples=count * TIMES, **options)


def random_for(name: str) -> random.Random:
    """Random numbers for one purpose: equal in every run with this seed."""
    return random.Random(f"{SEED} {name}")


@contextmanager
def quickly(seconds: float) -> Iterator[None]:
    """Seconds of this thread on the processor, where a step that is quadratic takes minutes. Other work adds none."""
    begun = time.thread_time()
    yield
    assert time.thread_time() - begun < seconds
