"""The opened store of this process, for the command line and the pages alike, and what it is waited for."""

from __future__ import annotations

import atexit
import getpass
import threading

from core import bridge
from core.progress import Progress
from core.store.engine import Store
from evals import schema_chain
from workbench.services import server_waits

_opened: list[Store] = []
_opening = threading.Lock()


def store(progress: Progress = lambda _: None) -> Store:
    """Opened at the first call, by whichever thread makes it, and given back when the process ends.

    `progress` hears for what the server is waited for, now and when it was lost later, as do all who listen.
    """
    with _opening:
        if not _opened:

            def tell(sentence: str) -> None:
                progress(sentence)
                server_waits.tell(sentence, but=progress)

            _opened.append(bridge.run(Store.open(chains=[schema_chain], progress=tell)))
            atexit.register(close)
        return _opened[0]


def person() -> str:
    """Who uses this machine's account, for what is signed with a name; nobody where it has none."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return ""


def close() -> None:
    """Give the server's lease back, so that the last one out stops it."""
    with _opening:
        while _opened:
            bridge.run(_opened.pop().close())
