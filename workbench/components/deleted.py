"""What was deleted on a page just now: where it is, until when, and a button that brings it back."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import streamlit as st

from core import bridge
from core.errors import InputError, RankbookError
from core.store.engine import Store
from core.store.trash_entries import TrashEntry, day
from evals import trash
from workbench import session
from workbench.components import feedback, sign_in


def person() -> str:
    """Who deletes: by the name they sign in with, else by this machine's account."""
    with suppress(InputError):
        return sign_in.signs() or session.person()
    return ""


def note(store: Store, page: str, sentence: str, entries: Sequence[TrashEntry]) -> None:
    """In a callback, after the deletion. What has lain in the trash for its time goes, which is said too."""
    expired = bridge.run(trash.expire(store))
    st.session_state[_key(page)] = (f"{sentence} {expiry_notice(expired)}".strip(), list(entries))


def expiry_notice(expired: Sequence[TrashEntry]) -> str:
    """What was destroyed because its time in the trash is over."""
    if not expired:
        return ""
    return f"Their time in the trash is over, and they are gone for good: {', '.join(each.title for each in expired)}."


def draw(store: Store, page: str) -> None:
    """Until it is undone, put away, or something else is deleted on that page."""
    if (error := st.session_state.pop(f"{_key(page)}.error", None)) is not None:
        feedback.draw_error(error)
    if _key(page) not in st.session_state:
        return
    sentence, entries = st.session_state[_key(page)]
    if entries:
        many = "It is" if len(entries) == 1 else "They are"
        sentence = f"{sentence} {many} in the trash (page Collections) until {day(entries[0].until)}."
    with st.container(horizontal=True, vertical_alignment="center", key=f"deleted-{page}"):
        st.html(f'<p class="rb-summary" role="status">{feedback.as_html(sentence)}</p>')
        if entries:
            st.button("Undo", key=f"deleted.{page}.undo", icon=":material/undo:", on_click=_undo, args=(store, page))
        st.button("Dismiss", key=f"deleted.{page}.close", icon=":material/close:", on_click=_put_away, args=(page,))


def _undo(store: Store, page: str) -> None:
    """In a callback, so that the page that follows shows what there is then."""
    _, entries = st.session_state.pop(_key(page))
    try:
        for each in entries:
            bridge.run(trash.restore(store, each.id, reader=session.store()))
    except RankbookError as error:
        st.session_state[f"{_key(page)}.error"] = error


def _put_away(page: str) -> None:
    st.session_state.pop(_key(page), None)


def _key(page: str) -> str:
    return f"deleted.{page}"
