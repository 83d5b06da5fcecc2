"""What a window does to the notebook it shows, and what is that window's alone: what is being typed, what is folded.

Every change goes through `act`, which makes a copy of a notebook that ships, and says what went wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import streamlit as st

from core.errors import NotAllowed, RankbookError, UnknownName
from workbench.notebooks import history, session
from workbench.notebooks.document import NOTE, Cell, Part
from workbench.notebooks.files import shelf
from workbench.notebooks.session import NotebookSession
from workbench.screens.notebook import state
from workbench.services import toml_edit

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Notice:
    """Something to be said once, above the cells."""

    text: str
    bad: bool = False


@dataclass(frozen=True, slots=True)
class Draft:
    """What is being typed into a cell, and what the cell said when that began."""

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


def drafts() -> dict[tuple[str, str], Draft]:
    """By notebook and part."""
    return _kept("drafts", dict[tuple[str, str], Draft]())


def folded() -> set[tuple[str, str]]:
    """The cells whose outputs are folded away."""
    return _kept("folded", set[tuple[str, str]]())


def editing() -> tuple[str, str, str]:
    """Which part's source is open in this window: notebook, part, and what of it. One at a time."""
    made: tuple[str, str, str] = st.session_state.get("book.editing", ("", "", ""))
    return made


def edit(desk: NotebookSession, part: str, what: str = "source") -> None:
    """Open a part's source, which becomes the part one is at. What was typed into it before is still there.

    From now on it is known from what the typing began, even before the server hears of any.
    """
    close()
    st.session_state["book.editing"] = (desk.name, part, what)
    if what == "source" and (found := _part(desk, part)) is not None:
        drafts()[desk.name, part] = draft(desk, found)
    go(desk, part)


def close() -> None:
    """What is typed stays; what is as it was is forgotten."""
    here = editing()[:2]
    if (kept := drafts().get(here)) is not None and kept.text == kept.began:
        del drafts()[here]
    st.session_state["book.editing"] = ("", "", "")


def draft(desk: NotebookSession, part: Part) -> Draft:
    said = history.said(part)
    return drafts().get((desk.name, part.id)) or Draft(said, said)


def typed(desk: NotebookSession, part: Part, text: str) -> None:
    """Keep what is typed until it is saved."""
    drafts()[desk.name, part.id] = replace(draft(desk, part), text=text)


def unsaved(desk: NotebookSession, part: str) -> bool:
    """Whether something is typed into it that is nowhere else."""
    kept = drafts().get((desk.name, part))
    return kept is not None and kept.text != kept.began


def forget(desk: NotebookSession, part: str) -> None:
    drafts().pop((desk.name, part), None)


def go(desk: NotebookSession, part: str) -> None:
    """Be at that part."""
    at = state.current()
    if at.cell != part or at.notebook != desk.name:
        state.go(state.NotebookState(desk.name, part))


# -- changes -----------------------------------------------------------------------------------------------------------


def act(desk: NotebookSession, do: Callable[[NotebookSession], T]) -> T | None:
    """Do it to the notebook, or to one's own copy of one that ships. What goes wrong is said. In a callback."""
    try:
        own = yours(desk)
        done = do(own)
    except RankbookError as error:
        notice(str(error), bad=True)
        return None
    if own is not desk and state.current().notebook != own.name:
        state.go(replace(state.current(), notebook=own.name))
    return done


def yours(desk: NotebookSession) -> NotebookSession:
    """The notebook itself, or a new copy of one that ships, to which the address moves."""
    if not desk.shipped:
        return desk
    own = session.copied(desk, shelf(), shelf().free(f"my-{desk.name}"))
    name = own.name
    for key in [each for each in drafts() if each[0] == desk.name]:
        drafts()[name, key[1]] = drafts().pop(key)
    if editing()[0] == desk.name:
        st.session_state["book.editing"] = (name, *editing()[1:])
    state.go(replace(state.current(), notebook=name))
    notice(f"{desk.name} ships with Rankbook and stays as it is. Your change is in a copy of your own: {name}.")
    return own


def save(desk: NotebookSession, identity: str, *, run: bool = False, over: bool = False) -> None:
    """Save what is typed into a part, and run it. What moved on meanwhile is written over only if `over` says so."""
    part = _part(desk, identity)
    if part is None:
        return
    said = draft(desk, part)
    began = history.said(part) if over else said.began

    def do(own: NotebookSession) -> None:
        try:
            own.change(f"edit of {label(part)}", history.rewritten(identity, said.text, began))
        except history.HistoryStep:
            return  # the open editor says so, and shows both
        forget(own, identity)
        if identity in own.meaning.problems:
            edit(own, identity)  # what is wrong is mended where it stands
        else:
            close()
        if run:
            own.run([identity], again=False)

    if said.text == said.began:  # nothing to save
        forget(desk, identity)
        close()
        if run:
            start(desk, [identity])
        return
    act(desk, do)


def change(desk: NotebookSession, cell: Cell, options: dict[str, Any]) -> None:
    """Set options of a cell in its TOML (None takes one away), and run it."""

    def do(own: NotebookSession) -> None:
        now = own.notebook[cell.id]
        source = toml_edit.put(history.said(now), {(name,): value for name, value in options.items()})
        own.change(f"change of {label(cell)}", history.rewritten(cell.id, source, history.said(now)))
        own.run([cell.id])

    act(desk, do)


def add(
    desk: NotebookSession, kind: str, source: str, *, after: str | None = None, before: str | None = None, run: bool
) -> None:
    """A new part, to which one goes: behind another, before another, or at the end. It runs, or is opened to edit."""

    def do(own: NotebookSession) -> None:
        made = history.behind(kind, source, after) if after else history.inserted(kind, source, before)
        part = own.change(f"new {'text' if kind == NOTE else kind}", made)
        if run:
            go(own, part)
            own.run([part])
        else:
            edit(own, part)

    act(desk, do)


def remove(desk: NotebookSession, part: Part) -> None:
    act(desk, lambda own: own.change(f"deletion of {label(part)}", history.deleted(part.id)))
    forget(desk, part.id)


def start(desk: NotebookSession, cells: Sequence[str], *, again: bool = False, allowed: bool = False) -> None:
    """Run cells. Running changes no file: what ships runs as it is."""
    try:
        desk.run(cells, again=again, allowed=allowed)
    except NotAllowed as error:
        notice(str(error), bad=True)


def undo(desk: NotebookSession) -> None:
    if (last := desk.paper.last) is not None:
        take_back(desk, last.number)


def take_back(desk: NotebookSession, number: int) -> None:
    try:
        desk.undo(number)
    except RankbookError as error:
        notice(str(error), bad=True)


def label(part: Part) -> str:
    """How a part is called in a sentence."""
    if not isinstance(part, Cell):
        return "text"
    return f"{part.kind} cell {part.name}" if part.name else f"{part.kind} cell"


def _part(desk: NotebookSession, identity: str) -> Part | None:
    try:
        return desk.notebook[identity]
    except UnknownName:
        notice("This was deleted in another window. Undo brings it back.", bad=True)
        return None


# -- keeping up --------------------------------------------------------------------------------------------------------


def drawn(desk: NotebookSession) -> None:
    """Remember what a whole run of the page has drawn."""
    st.session_state["book.drawn"] = _sign(desk)


def keep_up(desk: NotebookSession) -> None:
    """In a fragment: draw the whole page again where something beside it has changed."""
    if st.session_state.get("book.drawn") != _sign(desk):
        st.rerun()


def _sign(desk: NotebookSession) -> tuple[object, ...]:
    at = state.current()
    return at.notebook, at.cell, desk.stamp, editing(), st.session_state.get("book.dialog"), len(notices())
