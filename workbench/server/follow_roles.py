"""Pages that are open follow `access.toml` and sign-ins: each is drawn anew as whoever looks at it may see it now.

Without this a page would go on with the store that it was drawn with: a button pressed on it acts before it is drawn.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from workbench.server import logs
from workbench.server.access import AccessControl

if TYPE_CHECKING:
    from streamlit.proto.ClientState_pb2 import ClientState
    from streamlit.runtime import Runtime
    from streamlit.runtime.app_session import AppSession

NOT_FOLLOWED: Final = "access_not_followed"
EVERY: Final = 0.5  # seconds between two looks at the file
PATIENCE: Final = 5.0  # seconds that Streamlit has to say which pages there are


@contextmanager
def watched(gate: AccessControl | None) -> Iterator[None]:
    """For as long as pages are served."""
    over = threading.Event()
    if gate is not None:
        threading.Thread(target=_watch, args=(gate, over), daemon=True).start()
    try:
        yield
    finally:
        over.set()


def _watch(gate: AccessControl, over: threading.Event) -> None:
    was, due, said = gate.stamp(), set[str](), ""
    begun, over_before = gate.sign_ins.stamp(), set[str]()
    while not over.wait(EVERY):
        try:
            ended = _ended(gate, away=(now_begun := gate.sign_ins.stamp()) != begun)
            begun = now_begun
            new, over_before = ended - over_before, ended
            due |= new
            if (now := gate.stamp()) != was:
                gate.readable()  # a mistake is told now, and not at somebody's next click
                due = _pages()
                was = now
                for each in _open().values():
                    with _or_ended(each):
                        disarm(each)
                _close_away(due)  # before anybody can come back to a page that still acts
                logs.told("access_changed", pages=len(due))
            if due:
                due = _follow(due, gate)
            if new:  # they act no more
                logs.told("sign_in_ended", pages=len(new))
            said = ""
        except Exception as error:  # Streamlit is starting or ending: the next look is another try
            if (what := repr(error)) != said:
                logs.warned(NOT_FOLLOWED, error)
            said = what


def _ended(gate: AccessControl, *, away: bool) -> set[str]:
    """The open pages whose sign-in counts no more; those whose browser is away too, if asked for."""

    def ended(page: AppSession) -> bool:
        with _or_ended(page):
            return gate.has_ended(page._user_info)
        return False

    return {page for page, each in _open().items() if ended(each)} | (_pages(ended) if away else set())


def _follow(due: Set[str], gate: AccessControl) -> set[str]:
    """Those of the pages that are still to be drawn."""
    _close_away(due)
    there = _open()
    return draw_anew([there[page] for page in due & there.keys()], gate.lets_in)


def _close_away(pages: Set[str]) -> None:
    """Close the pages whose browser is away: whoever comes back has a new one."""
    if (runtime := _runtime()) is not None:
        for page in pages - _open().keys():
            runtime.clear_user_info_for_session(page)


def draw_anew(sessions: Sequence[AppSession], lets_in: Callable[[Mapping[str, Any]], bool]) -> set[str]:
    """Draw them as Streamlit does when a source file changed; the ids of those that are still to be drawn.

    A page that is being drawn is left until that is done: before, Streamlit does not know what it shows, and would open
    the first page instead. Whoever may not come in any more is shown out at once.
    """
    left = set()
    for each in sessions:
        with _or_ended(each):
            if each._scriptrunner is not None and lets_in(each._user_info):
                left.add(each.id)
                continue
            disarm(each)
            if not _drawn(each, each._client_state):  # what is selected stays so
                left.add(each.id)
    return left


def _drawn(page: AppSession, shown: ClientState) -> bool:
    try:
        page.request_rerun(shown)
    except Exception as error:  # its run may end at this very moment: it has another turn
        logs.warned(NOT_FOLLOWED, error)
        return False
    return True


@contextmanager
def _or_ended(page: AppSession) -> Iterator[None]:
    """Of what is looked at here Streamlit promises nothing: where it is elsewhere, no page is better than one that acts
    on. It draws nothing more and hears of nothing; whoever loads it again has a new one.
    """
    try:
        yield
    except Exception as error:
        logs.warned(NOT_FOLLOWED, error, page="ended")
        page.shutdown()
        if (runtime := _runtime()) is not None:
            runtime.clear_user_info_for_session(page.id)


def disarm(page: AppSession) -> None:
    """What stands on it acts no more. Else whoever presses a button fast enough is never drawn anew: each press acts as
    the page was drawn, and ends the run that would draw it.
    """
    page._fragment_storage.clear()  # a part of a page that is drawn by itself never asks who looks at it
    known = page._session_state._new_widget_state.widget_metadata
    for widget, of in list(known.items()):
        known[widget] = replace(of, callback=None, callbacks=None)


def _open() -> dict[str, AppSession]:
    """The pages that somebody has open, by their ids. Streamlit's session manager alone knows them."""
    runtime = _runtime()
    sessions = [] if runtime is None else [each.session for each in runtime._session_mgr.list_active_sessions()]
    return {each.id: each for each in sessions}


def _pages(which: Callable[[AppSession], bool] = lambda _: True) -> set[str]:
    """The open ones, and those whose browser is away and may come back to them, as it does after a cut line."""
    if (runtime := _runtime()) is None:
        return set()

    async def look() -> set[str]:
        return {each.session.id for each in runtime._session_mgr.list_sessions() if which(each.session)}

    there = runtime._get_async_objs().eventloop  # which alone may look at those that are away
    return asyncio.run_coroutine_threadsafe(look(), there).result(PATIENCE)


def _runtime() -> Runtime | None:
    from streamlit.runtime import exists, get_instance

    return get_instance() if exists() else None
