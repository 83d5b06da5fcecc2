"""Pages that are open follow `access.toml`: when it changes, each is drawn anew as whoever looks at it may see it now.

Without this a page would go on with the store that it was drawn with: a button pressed on it acts before it is drawn.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from workbench import logs
from workbench.access.gate import Gate

if TYPE_CHECKING:
    from streamlit.runtime.app_session import AppSession

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
    was, due = gate.stamp(), set[str]()
    while not over.wait(EVERY):
        if (now := gate.stamp()) != was:
            was, due = now, {each.id for each in _open()}
            logs.told("access_changed", pages=len(due))
        if due:
            due = draw_anew([each for each in _open() if each.id in due], gate.lets_in)


def draw_anew(sessions: Sequence[AppSession], lets_in: Callable[[Mapping[str, Any]], bool]) -> set[str]:
    """Draw them as Streamlit does when a source file changed; the ids of those that are still to be drawn.

    A page that is being drawn is left until that is done: before, Streamlit does not know what it shows, and would open
    the first page instead. Whoever may not come in any more is shown out at once.
    """
    left = set()
    for each in sessions:
        try:
            if each._scriptrunner is not None and lets_in(each._user_info):
                left.add(each.id)
            else:
                each.request_rerun(each._client_state)  # what is selected stays so
        except Exception as error:  # of one page, whose run may end at this very moment: it has another turn
            logs.told("access_not_followed", error=type(error).__name__)
            left.add(each.id)
    return left


def _open() -> list[AppSession]:
    """The pages that somebody has open. Streamlit's session manager alone knows them."""
    from streamlit.runtime import exists, get_instance

    if not exists():
        return []
    return [each.session for each in get_instance()._session_mgr.list_active_sessions()]
