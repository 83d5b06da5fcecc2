"""Makes open pages follow `access.toml` and sign-ins: each is drawn again with what its user may see now.

Without this a page would keep the store that it was drawn with: a button pressed on it acts before it is drawn again.
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
    from streamlit.runtime import Runtime
    from streamlit.runtime.app_session import AppSession

NOT_FOLLOWED: Final = "access_not_followed"
EVERY: Final = 0.5  # seconds between two looks at the file
PATIENCE: Final = 5.0  # seconds that Streamlit has to say which pages there are


@contextmanager
def following_roles(gate: AccessControl | None) -> Iterator[None]:
    """For as long as pages are served."""
    over = threading.Event()
    if gate is not None:
        threading.Thread(target=_follow, args=(gate, over), daemon=True).start()
    try:
        yield
    finally:
        over.set()


def _follow(gate: AccessControl, over: threading.Event) -> None:
    file_stamp, due, last_error = gate.stamp(), set[str](), ""
    sign_in_stamp, ended_before = gate.sign_ins.stamp(), set[str]()
    while not over.wait(EVERY):
        try:
            new_sign_in_stamp = gate.sign_ins.stamp()
            ended = _ended(gate, away=new_sign_in_stamp != sign_in_stamp)
            sign_in_stamp = new_sign_in_stamp
            newly_ended, ended_before = ended - ended_before, ended
            due |= newly_ended
            if (new_file_stamp := gate.stamp()) != file_stamp:
                gate.readable()  # a mistake is logged now, and not at somebody's next click
                due = _pages()
                file_stamp = new_file_stamp
                for page in _open().values():
                    with _or_ended(page):
                        disarm(page)
                _close_away(due)  # before anybody can come back to a page that still acts
                logs.info("access_changed", pages=len(due))
            if due:
                _close_away(due)
                pages = _open()
                due = draw_again([pages[page] for page in due & pages.keys()], gate.lets_in)
            if newly_ended:  # they act no more
                logs.info("sign_in_ended", pages=len(newly_ended))
            last_error = ""
        except Exception as error:  # Streamlit is starting or ending: the next look is another try
            if repr(error) != last_error:
                logs.warning(NOT_FOLLOWED, error)
            last_error = repr(error)


def _ended(gate: AccessControl, *, away: bool) -> set[str]:
    """The open pages whose sign-in counts no more, and with `away` also those whose browser is not connected."""

    def ended(page: AppSession) -> bool:
        with _or_ended(page):
            return gate.has_ended(page._user_info)
        return False

    return {page for page, each in _open().items() if ended(each)} | (_pages(ended) if away else set())


def _close_away(pages: Set[str]) -> None:
    """Close the pages whose browser is not connected: whoever comes back has a new one."""
    if (runtime := _runtime()) is not None:
        for page in pages - _open().keys():
            runtime.clear_user_info_for_session(page)


def draw_again(sessions: Sequence[AppSession], lets_in: Callable[[Mapping[str, Any]], bool]) -> set[str]:
    """Draw them as Streamlit does when a source file changed; the ids of those that are still to be drawn.

    A page that is being drawn is left until that is done: before, Streamlit does not know what it shows, and would open
    the first page instead. A user who may not come in any more is shown out at once.
    """
    left = set()
    for each in sessions:
        with _or_ended(each):
            if each._scriptrunner is not None and lets_in(each._user_info):
                left.add(each.id)
                continue
            disarm(each)
            try:
                each.request_rerun(each._client_state)  # what is selected stays so
            except Exception as error:  # its run may end at this very moment: it has another turn
                logs.warning(NOT_FOLLOWED, error)
                left.add(each.id)
    return left


@contextmanager
def _or_ended(page: AppSession) -> Iterator[None]:
    """End the page if Streamlit's internals are not as expected here: no page is better than one that goes on acting.

    Whoever loads it again has a new one.
    """
    try:
        yield
    except Exception as error:
        logs.warning(NOT_FOLLOWED, error, page="ended")
        page.shutdown()
        if (runtime := _runtime()) is not None:
            runtime.clear_user_info_for_session(page.id)


def disarm(page: AppSession) -> None:
    """Take the callbacks from its widgets. Otherwise each press of a button would act as the page was drawn before, and
    end the run that draws it again: pressed fast enough, it would act for ever.
    """
    page._fragment_storage.clear()  # a part of a page that is drawn by itself never checks who its user is
    known = page._session_state._new_widget_state.widget_metadata
    for widget, of in list(known.items()):
        known[widget] = replace(of, callback=None, callbacks=None)


def _open() -> dict[str, AppSession]:
    """The pages that are open in a browser, by their ids. Streamlit's session manager alone knows them."""
    runtime = _runtime()
    sessions = [] if runtime is None else [each.session for each in runtime._session_mgr.list_active_sessions()]
    return {each.id: each for each in sessions}


def _pages(which: Callable[[AppSession], bool] = lambda _: True) -> set[str]:
    """All pages, also those whose browser is not connected and may come back, as after a cut line."""
    if (runtime := _runtime()) is None:
        return set()

    async def look() -> set[str]:
        return {each.session.id for each in runtime._session_mgr.list_sessions() if which(each.session)}

    loop = runtime._get_async_objs().eventloop  # which alone may look at those that are not connected
    return asyncio.run_coroutine_threadsafe(look(), loop).result(PATIENCE)


def _runtime() -> Runtime | None:
    from streamlit.runtime import exists, get_instance

    return get_instance() if exists() else None
