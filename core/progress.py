"""How long work tells how far it is, to whoever listens: a terminal, a page, nobody."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Step:
    """A named part of the work. `total` is None while nobody knows it."""

    name: str
    done: int
    total: int | None = None
    unit: str = "rows"


Listener = Callable[[Step], None]
Progress = Callable[[str], None]  # of work that is told in sentences
SPACE = 3.0  # seconds between two sentences of one who waits


def nobody(_: Step) -> None:
    """The listener of work that nobody watches."""


@contextmanager
def unless_told(text: str, tell: Progress, seconds: float = 1.0) -> Iterator[Progress]:
    """For work that may be silent: says the text where nothing was said by then."""
    timer = threading.Timer(seconds, tell, [text])
    timer.daemon = True

    def say(other: str) -> None:
        timer.cancel()
        tell(other)

    timer.start()
    try:
        yield say
    finally:
        timer.cancel()


def spaced(tell: Progress, clock: Callable[[], float] = time.monotonic) -> Progress:
    """Passes the first sentence on at once, and then one in a while."""
    said = -math.inf

    def say(text: str) -> None:
        nonlocal said
        if clock() - said >= SPACE:
            said = clock()
            tell(text)

    return say
