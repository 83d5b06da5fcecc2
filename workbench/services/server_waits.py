"""Who hears for what the server is waited for: the terminal of a command, pages while they are drawn. Loads nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from core.progress import Progress

_listeners: list[Progress] = []


def tell(sentence: str, but: Progress | None = None) -> None:
    """Pass a sentence on to all who listen, once to each, but to the one who has it already."""
    for listener in dict.fromkeys(_listeners):
        if listener != but:
            listener(sentence)


@contextmanager
def heard_by(listener: Progress) -> Iterator[None]:
    """For that time the listener hears it, from whichever thread waits."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)
