"""The trash on the Collections page: what was deleted anywhere, brought back, or destroyed at once."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Final

import streamlit as st

from core import bridge
from core.errors import RankbookError
from core.store.engine import Store
from core.store.trash_entries import TrashEntry, day
from evals import trash
from workbench import session
from workbench.behind.collections.shown import many, told_bytes
from workbench.ui import deleted, errors, textgrid
from workbench.ui.collections.asking import Question
from workbench.ui.textgrid import Column, Line

MESSAGE: Final = "trash.message"
_emptying: Final = Question("trash.asking", "Empty the trash?")
COLUMNS: Final = (
    Column("kind"),
    Column("name", long=True),
    Column("collection"),
    Column("size", right=True),
    Column("deleted", "Coordinated universal time."),
    Column("by", wide=True),
    Column("until"),
)


def draw(store: Store) -> None:
    """Nothing where the trash is empty."""
    expired = bridge.run(trash.expire(store))
    entries = bridge.run(trash.listed(store))
    message = st.session_state.pop(MESSAGE, None) or deleted.expiry_notice(expired)
    if isinstance(message, RankbookError):
        errors.draw(message)
    elif message:
        st.html(f'<p class="rb-summary" role="status">{errors.as_html(message)}</p>')
    if not entries:
        return
    size = told_bytes(sum(each.bytes for each in entries))
    with st.expander(f"Trash: {many(len(entries), 'entry', 'entries')}, {size}"):
        st.html("<p>What was deleted can be brought back until the day in its line. Then it is gone for good.</p>")
        textgrid.draw("trash.entries", "Trash", COLUMNS, [_line(each) for each in entries], low=True)
        with st.container(horizontal=True, vertical_alignment="bottom"):
            ids = [each.id for each in entries]
            titles = {each.id: f"{each.title}, deleted {each.deleted_at:%Y-%m-%d %H:%M}" for each in entries}
            chosen = st.selectbox("Bring back", ids, key="trash.chosen", format_func=titles.__getitem__)
            st.text_input("As", key="trash.as", placeholder="its old name", max_chars=200)
            st.button("Bring back", key="trash.back", icon=":material/undo:", on_click=_restore, args=(store, chosen))
            st.button(
                "Empty the trash", key="trash.empty", icon=":material/delete_forever:", on_click=_ask, args=(ids,)
            )
    if _emptying.about is not None:  # by their ids: what comes into the trash meanwhile was not named, and stays
        _confirm(store, [each for each in entries if each.id in _emptying.about.split()])


def _line(entry: TrashEntry) -> Line:
    name, when = entry.name or entry.title, f"{entry.deleted_at:%Y-%m-%d %H:%M}"
    cells = (entry.kind, name, entry.collection, told_bytes(entry.bytes), when, entry.deleted_by, day(entry.until))
    return Line(entry.id, cells)


def _restore(store: Store, identity: str) -> None:
    """In a callback, so that the page that follows shows what there is then."""
    name = (st.session_state.get("trash.as") or "").strip() or None
    try:
        restored = bridge.run(trash.restore(store, identity, name=name, reader=session.store()))
        st.session_state[MESSAGE] = restored.sentence()
        st.session_state["trash.as"] = ""
    except RankbookError as error:
        st.session_state[MESSAGE] = error


def _ask(ids: Sequence[str]) -> None:
    _emptying.ask(" ".join(ids))


@_emptying.dialog
def _confirm(store: Store, entries: Sequence[TrashEntry]) -> None:
    with errors.shown():
        named = html.escape(", ".join(each.title for each in entries))
        st.html(f"<p>{named}: <strong>nothing brings them back after this.</strong></p>")
        if st.button("Destroy them for good", key="trash.gone", type="primary"):
            destroyed = [each for each in entries if bridge.run(trash.destroy(store, each))]
            freed = told_bytes(sum(each.bytes for each in destroyed))
            st.session_state[MESSAGE] = f"{many(len(destroyed), 'entry', 'entries')} destroyed, {freed} freed."
            _emptying.answered()
