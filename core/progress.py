"""How work reports its progress, to a terminal, a page or nobody."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Step:
    """How far a named part of the work is. `total` is None while it is not known."""

    name: str
    done: int
    total: int | None = None
    unit: str = "rows"


Listener = Callable[[Step], None]
Progress = Callable[[str], None]  # for work that reports in sentences
SPACE = 3.0  # seconds between two sentences about one wait


def nobody(_: Step) -> None:
    """The listener of work that nobody watches."""


@contextmanager
def unless_told(text: str, tell: Progress, seconds: float = 1.0) -> Iterator[Progress]:
    """Report the text if the work has reported nothing after so many seconds."""
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
    """Pass the first sentence on at once, and later ones no more often than every few seconds."""
    last = -math.inf

    def say(text: str) -> None:
        nonlocal last
        if clock() - last >= SPACE:
            last = clock()
            tell(text)

    return say
