"""Listeners to what the server is waited for: a command's terminal, and pages while they are drawn."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from core.progress import Progress

_listeners: list[Progress] = []


def tell(sentence: str, but: Progress | None = None) -> None:
    """Pass a sentence on to all listeners, once to each, except to the one that has it already."""
    for listener in dict.fromkeys(_listeners):
        if listener != but:
            listener(sentence)


@contextmanager
def heard_by(listener: Progress) -> Iterator[None]:
    """Meanwhile the listener hears it, from any thread that waits."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)
