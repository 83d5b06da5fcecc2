"""How long work tells how far it is, to whoever listens: a terminal, a page, nobody."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Step:
    """A named part of the work. `total` is None while nobody knows it."""

    name: str
    done: int
    total: int | None = None
    unit: str = "rows"


Listener = Callable[[Step], None]


def nobody(_: Step) -> None:
    """The listener of work that nobody watches."""
