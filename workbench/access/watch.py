"""Pages that are open follow `access.toml`: when it changes, each is drawn anew as whoever looks at it may see it now.

Without this a page would go on with the store that it was drawn with: a button pressed on it acts before it is drawn.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from workbench import logs
from workbench.access.gate import Gate

EVERY: Final = 0.5  # seconds between two looks at the file


@contextmanager
def watched(gate: Gate | None) -> Iterator[None]:
    """For as long as pages are served."""
    over = threading.Event()
    if gate is not None:
        threading.Thread(target=_watch, args=(gate, over), daemon=True).start()
    try:
        yield
    finally:
        over.set()


def _watch(gate: Gate, over: threading.Event) -> None:
    was = gate.stamp()
    while not over.wait(EVERY):
        if (now := gate.stamp()) != was:
            was = now
            logs.told("access_changed", pages=_draw_anew())


def _draw_anew() -> int:
    """All pages that are open, as Streamlit does when a source file changed; how many there were."""
    from streamlit.runtime import exists, get_instance

    if not exists():
        return 0
    sessions = [each.session for each in get_instance()._session_mgr.list_active_sessions()]  # which alone knows them
    for each in sessions:
        each.request_rerun(each._client_state)  # what is selected stays so
    return len(sessions)
