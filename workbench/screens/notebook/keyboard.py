"""The page Notebook by keyboard: its commands, the list of them, and cells added between others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import streamlit as st

from workbench.components.theme import asset
from workbench.notebooks.cells import kinds, ordered_kinds
from workbench.notebooks.document import NOTE, Cell
from workbench.notebooks.files import example
from workbench.notebooks.session import NotebookSession
from workbench.notebooks.shared import HEADER
from workbench.screens.notebook import actions, state
from workbench.screens.notebook import cell as notebook_cell
from workbench.services.form_fields import summary

WORDS = {NOTE: "Text, as Markdown."}
NOTE_ICON = ":material/notes:"


def offered() -> list[str]:
    return [*ordered_kinds(), NOTE]


def icon(kind: str) -> str:
    return NOTE_ICON if kind == NOTE else kinds[kind].icon


def between(session: NotebookSession, before: str | None) -> None:
    """A line with a plus, above the part of that id or at the end."""
    key = f"add-{before or 'end'}"

    def chosen() -> None:
        new(session, st.session_state[key], before=before)

    with st.container(key=f"gap-{before or 'end'}", horizontal=True, horizontal_alignment="center"):
        st.menu_button(
            "Add a cell",
            offered(),
            key=key,
            icon=":material/add:",
            type="tertiary",
            help="Add a cell or a text here.",
            format_func=named,
            on_click=chosen,
        )


def named(kind: str) -> str:
    """With its icon."""
    return f"{icon(kind)} {'text' if kind == NOTE else kind}"


def new(session: NotebookSession, kind: str, *, before: str | None = None, after: str | None = None) -> None:
    """A new part with its source open: an example for this collection."""
    actions.add(session, kind, example(kind, session.collection), before=before, after=after, run=False)


def choices(session: NotebookSession, after: str | None) -> None:
    """Every kind with its summary, to be added behind a part."""
    for kind in offered():
        words = WORDS.get(kind) or summary(kinds[kind])
        with st.container(horizontal=True, vertical_alignment="center"):
            st.button(
                kind if kind != NOTE else "text",
                key=f"choose-{kind}",
                icon=icon(kind),
                width=130,
                on_click=partial(_chosen, session, kind, after),
            )
            st.caption(words, width="stretch")


def _chosen(session: NotebookSession, kind: str, after: str | None) -> None:
    st.session_state["book.dialog"] = ""
    new(session, kind, after=after)


_scroll = st.components.v2.component(
    "rankbook.notebook", html="<span></span>", js=asset("screens/notebook/notebook.js")
)


@dataclass(frozen=True, slots=True)
class Command:
    """A keyboard command. `keys` is as Streamlit writes it, `shown` as people do."""

    name: str
    label: str
    keys: str
    do: Callable[[NotebookSession], object]
    shown: str = ""


def here(session: NotebookSession) -> str | None:
    """The cell of the address, else the first."""
    at = state.current().cell
    shown = [part.id for part in session.notebook.shown]
    if at in shown:
        return at
    return next((part.id for part in session.notebook.cells), None)


def _step(steps: int, session: NotebookSession) -> None:
    """Go to the next part; at an end, stay."""
    shown = [part.id for part in session.notebook.shown if not (isinstance(part, Cell) and part.kind == HEADER)]
    at = here(session)
    if at not in shown or not state.current().cell:
        actions.go(session, at or "")
        return
    actions.go(session, shown[min(max(shown.index(at) + steps, 0), len(shown) - 1)])


def _run(session: NotebookSession) -> None:
    if (at := here(session)) is None:
        return
    if isinstance(session.notebook[at], Cell):
        notebook_cell.run(session, at)
    else:
        actions.save(session, at)


def _edit(session: NotebookSession) -> None:
    if (at := here(session)) is not None:
        actions.edit(session, at)


def _remove(session: NotebookSession) -> None:
    if (at := here(session)) is not None:
        actions.remove(session, session.notebook[at])


def _open(dialog: str, _: NotebookSession) -> None:
    st.session_state["book.dialog"] = dialog


def run_all(session: NotebookSession) -> None:
    actions.start(session, [cell.id for cell in session.notebook.cells])


def run_stale(session: NotebookSession) -> None:
    actions.start(session, session.stale)


COMMANDS = (
    Command("run", "Run the cell one is at, saving what is typed", "Ctrl+Enter", _run),
    Command("all", "Run all cells", "Shift+A", run_all),
    Command("stale", "Run what is stale or never ran", "Shift+S", run_stale),
    Command("stop", "Stop what runs", "Shift+X", lambda desk: desk.stop()),
    Command("next", "Go to the next cell", "J", partial(_step, 1)),
    Command("previous", "Go to the previous cell", "K", partial(_step, -1)),
    Command("edit", "Edit the cell one is at", "E", _edit),
    Command("close", "Close the editor; what is typed stays", "Esc", lambda _: actions.close()),
    Command("add", "Add a cell behind it", "A", partial(_open, "add")),
    Command("delete", "Delete it (Undo brings it back)", "Shift+D", _remove),
    Command("undo", "Undo the last change of the notebook", "Shift+U", actions.undo),
    Command("commands", "Show this list", "Ctrl+K", partial(_open, "commands"), "Ctrl+K or ?"),
)


def listen(session: NotebookSession) -> None:
    """Invisible buttons with the shortcuts."""
    with st.container(key="book-keys"):
        for each in COMMANDS:
            st.button(each.label, key=f"key-{each.name}", shortcut=each.keys, on_click=_done, args=(each, session))


def follow() -> None:
    """Scroll to the cell of the address, once, when all is drawn."""
    with st.container(key="book-scroll"):
        _scroll(key="book.scroll", data={"cell": state.current().cell})


def dialogs(session: NotebookSession) -> None:
    """The open dialog, drawn in every run of the page: leaving it out would close it."""
    match st.session_state.get("book.dialog", ""):
        case "commands":
            st.dialog("Commands", on_dismiss=_dismissed)(_list)(session)
        case "add":
            st.dialog("Add a cell", on_dismiss=_dismissed)(choices)(session, here(session))


def _dismissed() -> None:
    st.session_state["book.dialog"] = ""


def _list(session: NotebookSession) -> None:
    st.caption("Keys work wherever nothing is being typed; Ctrl+Enter and Ctrl+K also while typing.")
    for each in COMMANDS:
        with st.container(horizontal=True, vertical_alignment="center", gap="xsmall"):
            st.html(f"<kbd>{(each.shown or each.keys).replace('+', ' + ')}</kbd>", width=110)
            st.button(
                each.label, key=f"command-{each.name}", type="tertiary", on_click=partial(_pressed, each, session)
            )


def _done(command: Command, session: NotebookSession) -> None:
    command.do(session)


def _pressed(command: Command, session: NotebookSession) -> None:
    _dismissed()
    command.do(session)
