"""Long work that Ctrl-C ends in good order: what was done by then is kept before the command gives up."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import typer

from workbench.commands import telling

T = TypeVar("T")
STOPPED = 130  # what a shell gives for a program that Ctrl-C ended


def stoppable(work: Callable[[asyncio.Event], Coroutine[Any, Any, T]]) -> T:
    """The work's result. The first Ctrl-C sets its token and waits for it to put things away, a second does not wait.

    Not `bridge.run`, which cancels at once: what was found and not saved yet would be lost.
    """
    from core import bridge
    from core.errors import Cancelled

    token, loop = asyncio.Event(), bridge.loop()

    def stop() -> None:
        telling.say("Stopping ...")
        loop.call_soon_threadsafe(token.set)

    with _interrupts(stop):
        future = asyncio.run_coroutine_threadsafe(work(token), loop)
        try:
            return future.result()
        except Cancelled:
            if not token.is_set():
                raise
            telling.say("Stopped. What was done is kept: run it again, and it goes on from there.")
            raise typer.Exit(STOPPED) from None
        except KeyboardInterrupt:
            future.cancel()
            raise


@contextmanager
def _interrupts(first: Callable[[], None]) -> Iterator[None]:
    """What the first Ctrl-C does; the next ones are what they always are. Signals reach the main thread alone."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupted(*_: object) -> None:
        signal.signal(signal.SIGINT, before)
        first()

    before = signal.signal(signal.SIGINT, interrupted)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
