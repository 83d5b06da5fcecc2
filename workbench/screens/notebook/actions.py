"""What a window does to its notebook, and what only that window has: the text being typed, folded outputs.

Every change goes through `apply`, which copies a notebook that ships, and shows errors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import streamlit as st

from core.errors import NotAllowed, RankbookError, UnknownName
from workbench.notebooks import history, session
from workbench.notebooks.document import NOTE, Cell, Part
from workbench.notebooks.files import own_folder
from workbench.notebooks.session import NotebookSession
from workbench.screens.notebook import state
from workbench.services import toml_edit

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Notice:
    """A message, shown once, above the cells."""

    text: str
    bad: bool = False


@dataclass(frozen=True, slots=True)
class CellDraft:
    """The text being typed into a cell, and the cell's text when that began."""

    text: str
    began: str


# -- what is this window's alone ---------------------------------------------------------------------------------------


def _kept(name: str, empty: T) -> T:
    made: T = st.session_state.setdefault(f"book.{name}", empty)
    return made


def notices() -> list[Notice]:
    return _kept("notices", list[Notice]())


def notice(text: str, *, bad: bool = False) -> None:
    notices().append(Notice(text, bad))


def drafts() -> dict[tuple[str, str], CellDraft]:
    """By notebook and part."""
    return _kept("drafts", dict[tuple[str, str], CellDraft]())


def folded() -> set[tuple[str, str]]:
    """The cells whose outputs are folded."""
    return _kept("folded", set[tuple[str, str]]())


def editing() -> tuple[str, str, str]:
    """The part whose source is open in this window, with its notebook and the kind of editor."""
    made: tuple[str, str, str] = st.session_state.get("book.editing", ("", "", ""))
    return made


def edit(session: NotebookSession, part: str, what: str = "source") -> None:
    """Open a part's source and go there. An earlier draft is still there.

    The draft records from now on what the typing started from.
    """
    close()
    st.session_state["book.editing"] = (session.name, part, what)
    if what == "source" and (found := _part(session, part)) is not None:
        drafts()[session.name, part] = draft(session, found)
    go(session, part)


def close() -> None:
    """Close the editor; a changed draft is kept."""
    here = editing()[:2]
    if (kept := drafts().get(here)) is not None and kept.text == kept.began:
        del drafts()[here]
    st.session_state["book.editing"] = ("", "", "")


def draft(session: NotebookSession, part: Part) -> CellDraft:
    said = history.editable_text(part)
    return drafts().get((session.name, part.id)) or CellDraft(said, said)


def typed(session: NotebookSession, part: Part, text: str) -> None:
    """Keep the draft."""
    drafts()[session.name, part.id] = replace(draft(session, part), text=text)


def unsaved(session: NotebookSession, part: str) -> bool:
    """Whether the part has a draft that differs from it."""
    kept = drafts().get((session.name, part))
    return kept is not None and kept.text != kept.began


def forget(session: NotebookSession, part: str) -> None:
    drafts().pop((session.name, part), None)


def go(session: NotebookSession, part: str) -> None:
    """Go to that part."""
    at = state.current()
    if at.cell != part or at.notebook != session.name:
        state.go(state.NotebookState(session.name, part))


# -- changes -----------------------------------------------------------------------------------------------------------


def apply(session: NotebookSession, do: Callable[[NotebookSession], T]) -> T | None:
    """Change the notebook, or a copy of one that ships. Errors become notices. A callback."""
    try:
        own = writable_copy(session)
        done = do(own)
    except RankbookError as error:
        notice(str(error), bad=True)
        return None
    if own is not session and state.current().notebook != own.name:
        state.go(replace(state.current(), notebook=own.name))
    return done


def writable_copy(desk: NotebookSession) -> NotebookSession:
    """The notebook, or a new copy of one that ships, to which the address moves."""
    if not desk.shipped:
        return desk
    own = session.copy_session(desk, own_folder(), own_folder().free(f"my-{desk.name}"))
    name = own.name
    for key in [each for each in drafts() if each[0] == desk.name]:
        drafts()[name, key[1]] = drafts().pop(key)
    if editing()[0] == desk.name:
        st.session_state["book.editing"] = (name, *editing()[1:])
    state.go(replace(state.current(), notebook=name))
    notice(f"{desk.name} ships with Rankbook and stays as it is. Your change is in a copy of your own: {name}.")
    return own


def save(session: NotebookSession, identity: str, *, run: bool = False, over: bool = False) -> None:
    """Save the draft of a part, and run it. Where the part has changed meanwhile, only with `over`."""
    part = _part(session, identity)
    if part is None:
        return
    said = draft(session, part)
    began = history.editable_text(part) if over else said.began

    def do(own: NotebookSession) -> None:
        try:
            own.change(f"edit of {label(part)}", history.replace_text(identity, said.text, began))
        except history.EditConflict:
            return  # the open editor says so, and shows both
        forget(own, identity)
        if identity in own.parsed.problems:
            edit(own, identity)  # what is wrong is mended where it stands
        else:
            close()
        if run:
            own.run([identity], again=False)

    if said.text == said.began:  # nothing to save
        forget(session, identity)
        close()
        if run:
            start(session, [identity])
        return
    apply(session, do)


def change(session: NotebookSession, cell: Cell, options: dict[str, Any]) -> None:
    """Set options of a cell in its TOML (None removes one), and run it."""

    def do(own: NotebookSession) -> None:
        now = own.notebook[cell.id]
        source = toml_edit.put(history.editable_text(now), {(name,): value for name, value in options.items()})
        own.change(f"change of {label(cell)}", history.replace_text(cell.id, source, history.editable_text(now)))
        own.run([cell.id])

    apply(session, do)


def add(
    session: NotebookSession, kind: str, source: str, *, after: str | None = None, before: str | None = None, run: bool
) -> None:
    """Add a part behind or before another, or at the end, and go there. It runs, or opens for editing."""

    def do(own: NotebookSession) -> None:
        made = history.insert_after(kind, source, after) if after else history.insert_before(kind, source, before)
        part = own.change(f"new {'text' if kind == NOTE else kind}", made)
        if run:
            go(own, part)
            own.run([part])
        else:
            edit(own, part)

    apply(session, do)


def remove(session: NotebookSession, part: Part) -> None:
    apply(session, lambda own: own.change(f"deletion of {label(part)}", history.delete(part.id)))
    forget(session, part.id)


def start(session: NotebookSession, cells: Sequence[str], *, again: bool = False, allowed: bool = False) -> None:
    """Run cells. Running changes no file: notebooks that ship run as they are."""
    try:
        session.run(cells, again=again, allowed=allowed)
    except NotAllowed as error:
        notice(str(error), bad=True)


def undo(session: NotebookSession) -> None:
    if (last := session.history.last) is not None:
        take_back(session, last.number)


def take_back(session: NotebookSession, number: int) -> None:
    try:
        session.undo(number)
    except RankbookError as error:
        notice(str(error), bad=True)


def label(part: Part) -> str:
    """The name of a part in a sentence."""
    if not isinstance(part, Cell):
        return "text"
    return f"{part.kind} cell {part.name}" if part.name else f"{part.kind} cell"


def _part(session: NotebookSession, identity: str) -> Part | None:
    try:
        return session.notebook[identity]
    except UnknownName:
        notice("This was deleted in another window. Undo brings it back.", bad=True)
        return None


# -- keeping up --------------------------------------------------------------------------------------------------------


def drawn(session: NotebookSession) -> None:
    """Remember the state that a whole run of the page has drawn."""
    st.session_state["book.drawn"] = _sign(session)


def keep_up(session: NotebookSession) -> None:
    """In a fragment: redraw the whole page where something outside has changed."""
    if st.session_state.get("book.drawn") != _sign(session):
        st.rerun()


def _sign(session: NotebookSession) -> tuple[object, ...]:
    at = state.current()
    return at.notebook, at.cell, session.stamp, editing(), st.session_state.get("book.dialog"), len(notices())
