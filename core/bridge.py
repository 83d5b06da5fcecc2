"""The one way from ordinary code into the asynchronous core: scripts, Streamlit and Jupyter call `run`.

All calls share one event loop in a thread of its own, because a connection pool belongs to the loop it was made in, and
because Jupyter has a loop running already.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Coroutine
from functools import lru_cache
from typing import Any, TypeVar

T = TypeVar("T")


@lru_cache(maxsize=1)
def loop() -> asyncio.AbstractEventLoop:
    endless = new_loop()
    threading.Thread(target=endless.run_forever, name="rankbook", daemon=True).start()
    return endless


def new_loop(platform: str = sys.platform) -> asyncio.AbstractEventLoop:
    """The platform's usual loop; on Windows the selector, as psycopg cannot wait on the proactor."""
    return asyncio.SelectorEventLoop() if platform == "win32" else asyncio.new_event_loop()


def is_inside() -> bool:
    """Whether the caller is itself run by the loop."""
    try:
        return asyncio.get_running_loop() is loop()
    except RuntimeError:
        return False


def run(work: Coroutine[Any, Any, T]) -> T:
    """Wait for the result. Ctrl-C cancels the work, and with it the statement on the server."""
    if is_inside():
        work.close()
        raise RuntimeError("`bridge.run` was called within what it runs, and would wait for itself: `await` the work.")
    future = asyncio.run_coroutine_threadsafe(work, loop())
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise
