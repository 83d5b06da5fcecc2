"""What there is to be said above the cells: what came of a click, doubts about the text, a file changed elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

import streamlit as st

from core.errors import RankbookError
from workbench.notebooks import files, session
from workbench.notebooks.files import own_folder
from workbench.notebooks.session import NotebookSession
from workbench.ui import errors, place
from workbench.ui.notebook import acts as notebook_acts
from workbench.ui.notebook.acts import Notice


def waiting(desk: NotebookSession) -> list[Notice]:
    """What came of the last click, said once, and what is doubtful about the text."""
    waiting = notebook_acts.notices()
    taken = [*waiting, *(Notice(f"Line {line}: {doubt}") for line, doubt in desk.notebook.doubts)]
    waiting.clear()
    return taken


def draw(notices: Sequence[Notice]) -> None:
    with st.container(key="book-said", gap="xsmall"):
        for each in notices:
            kind, role = ("complaint", "alert") if each.bad else ("note", "status")
            st.html(f'<div class="rb-box rb-{kind}" role="{role}"><p>{errors.as_html(each.text)}</p></div>')


def changed_on_disk(desk: NotebookSession) -> None:
    there = files.read_notebook(desk.path) if desk.path.is_file() else None
    what = "was changed on disk by another program" if there else "was removed from disk"
    st.html(
        f'<div class="rb-box rb-complaint" role="alert"><strong>The file {what}</strong><p>Nothing is written over it '
        f"before you choose. {'Read it again, save' if there else 'Save'} what you see here "
        f"{'over it, or save it' if there else 'again, or'} under another name.</p></div>"
    )
    with st.container(horizontal=True):
        if there:
            st.button("Read it again", key="book.again", on_click=_do, args=(desk.read_again,))
        label = "Save this one over it" if there else "Save it again"
        st.button(label, key="book.over", on_click=_do, args=(desk.write_over, there and there.digest))
        st.button("Save this one under another name", key="book.save", on_click=_save_as, args=(desk,))
    if there is not None:
        with st.expander("What differs: lines with - are on disk, lines with + are here"):
            st.code(desk.differences(there.notebook), language="diff")


def _do(choice: Callable[..., None], *arguments: bytes | None) -> None:
    try:
        choice(*arguments)
    except RankbookError as error:
        notebook_acts.notice(str(error), bad=True)


def _save_as(desk: NotebookSession) -> None:
    try:
        name = own_folder().free(f"{desk.name}-{datetime.now().astimezone():%Y-%m-%d}")
        made = session.copy_session(desk, own_folder(), name, desk.history.unsaved).name
        session.forget(desk)
    except RankbookError as error:
        notebook_acts.notice(str(error), bad=True)
        return
    notebook_acts.notice(f"Saved as {made}. {desk.name} on disk is as the other program left it.")
    place.go(place.NotebookState(made))
