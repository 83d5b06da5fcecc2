"""The page Notebook by keyboard: its commands, the list of them, and cells added between others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import streamlit as st

from workbench.components.theme import asset
from workbench.notebooks.cells import kinds
from workbench.notebooks.document import NOTE, Cell
from workbench.notebooks.files import example
from workbench.notebooks.session import NotebookSession
from workbench.notebooks.shared import HEADER
from workbench.screens.notebook import actions as notebook_acts
from workbench.screens.notebook import cell as notebook_menu
from workbench.screens.notebook import state
from workbench.screens.notebook.cell import ICONS
from workbench.services.form_fields import summary

WORDS = {NOTE: "Text, as Markdown."}
ORDER = ("search", "evaluate", "compare", "fusion", "context")


def offered() -> list[str]:
    """The kinds in the order in which one wants them, any further ones behind."""
    known = [kind for kind in ORDER if kind in kinds]
    return [*known, *(kind for kind in kinds if kind not in known), NOTE]


def between(desk: NotebookSession, before: str | None) -> None:
    """A line with a plus, above the part of that identity or at the end."""
    key = f"add-{before or 'end'}"

    def chosen() -> None:
        new(desk, st.session_state[key], before=before)

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
    """With its icon, as a menu shows it."""
    return f"{ICONS.get(kind, ':material/add:')} {'text' if kind == NOTE else kind}"


def new(desk: NotebookSession, kind: str, *, before: str | None = None, after: str | None = None) -> None:
    """A new part, whose source is opened: an example that runs on this collection."""
    notebook_acts.add(desk, kind, example(kind, desk.ground), before=before, after=after, run=False)


def choices(desk: NotebookSession, after: str | None) -> None:
    """Every kind with what it is for, to be added behind a part."""
    for kind in offered():
        words = WORDS.get(kind) or summary(kinds[kind])
        with st.container(horizontal=True, vertical_alignment="center"):
            st.button(
                kind if kind != NOTE else "text",
                key=f"choose-{kind}",
                icon=ICONS.get(kind),
                width=130,
                on_click=partial(_chosen, desk, kind, after),
            )
            st.caption(words, width="stretch")


def _chosen(desk: NotebookSession, kind: str, after: str | None) -> None:
    st.session_state["book.dialog"] = ""
    new(desk, kind, after=after)


_scroll = st.components.v2.component(
    "rankbook.notebook", html="<span></span>", js=asset("screens/notebook/notebook.js")
)


@dataclass(frozen=True, slots=True)
class Command:
    """Something that a key does. `keys` is as Streamlit writes it, `shown` as people do."""

    name: str
    label: str
    keys: str
    do: Callable[[NotebookSession], object]
    shown: str = ""


def here(desk: NotebookSession) -> str | None:
    """The cell that one is at: the address's, else the first."""
    at = state.current().cell
    shown = [part.id for part in desk.notebook.shown]
    if at in shown:
        return at
    return next((part.id for part in desk.notebook.cells), None)


def _step(steps: int, desk: NotebookSession) -> None:
    """To the next cell, or text; at an end one stays."""
    shown = [part.id for part in desk.notebook.shown if not (isinstance(part, Cell) and part.kind == HEADER)]
    at = here(desk)
    if at not in shown or not state.current().cell:
        notebook_acts.go(desk, at or "")
        return
    notebook_acts.go(desk, shown[min(max(shown.index(at) + steps, 0), len(shown) - 1)])


def _run(desk: NotebookSession) -> None:
    if (at := here(desk)) is None:
        return
    if isinstance(desk.notebook[at], Cell):
        notebook_menu.run(desk, at)
    else:
        notebook_acts.save(desk, at)


def _edit(desk: NotebookSession) -> None:
    if (at := here(desk)) is not None:
        notebook_acts.edit(desk, at)


def _remove(desk: NotebookSession) -> None:
    if (at := here(desk)) is not None:
        notebook_acts.remove(desk, desk.notebook[at])


def _open(dialog: str, _: NotebookSession) -> None:
    st.session_state["book.dialog"] = dialog


def run_all(desk: NotebookSession) -> None:
    notebook_acts.start(desk, [cell.id for cell in desk.notebook.cells])


def run_stale(desk: NotebookSession) -> None:
    notebook_acts.start(desk, desk.stale)


COMMANDS = (
    Command("run", "Run the cell one is at, saving what is typed", "Ctrl+Enter", _run),
    Command("all", "Run all cells", "Shift+A", run_all),
    Command("stale", "Run what is stale or never ran", "Shift+S", run_stale),
    Command("stop", "Stop what runs", "Shift+X", lambda desk: desk.stop()),
    Command("next", "Go to the next cell", "J", partial(_step, 1)),
    Command("previous", "Go to the previous cell", "K", partial(_step, -1)),
    Command("edit", "Edit the cell one is at", "E", _edit),
    Command("close", "Close the editor; what is typed stays", "Esc", lambda _: notebook_acts.close()),
    Command("add", "Add a cell behind it", "A", partial(_open, "add")),
    Command("delete", "Delete it (Undo brings it back)", "Shift+D", _remove),
    Command("undo", "Undo the last change of the notebook", "Shift+U", notebook_acts.undo),
    Command("commands", "Show this list", "Ctrl+K", partial(_open, "commands"), "Ctrl+K or ?"),
)


def listen(desk: NotebookSession) -> None:
    """The keys. Their buttons are there and not seen: the list of commands is for looking."""
    with st.container(key="book-keys"):
        for each in COMMANDS:
            st.button(each.label, key=f"key-{each.name}", shortcut=each.keys, on_click=_done, args=(each, desk))


def follow() -> None:
    """Scroll to the cell that the address names, once. At the end of the page, when all is drawn."""
    with st.container(key="book-scroll"):
        _scroll(key="book.scroll", data={"cell": state.current().cell})


def dialogs(desk: NotebookSession) -> None:
    """The dialog that is open, drawn again in every run of the page: leaving it out would close it."""
    match st.session_state.get("book.dialog", ""):
        case "commands":
            st.dialog("Commands", on_dismiss=_dismissed)(_list)(desk)
        case "add":
            st.dialog("Add a cell", on_dismiss=_dismissed)(choices)(desk, here(desk))


def _dismissed() -> None:
    st.session_state["book.dialog"] = ""


def _list(desk: NotebookSession) -> None:
    st.caption("Keys work wherever nothing is being typed; Ctrl+Enter and Ctrl+K also while typing.")
    for each in COMMANDS:
        with st.container(horizontal=True, vertical_alignment="center", gap="xsmall"):
            st.html(f"<kbd>{(each.shown or each.keys).replace('+', ' + ')}</kbd>", width=110)
            st.button(each.label, key=f"command-{each.name}", type="tertiary", on_click=partial(_pressed, each, desk))


def _done(command: Command, desk: NotebookSession) -> None:
    command.do(desk)


def _pressed(command: Command, desk: NotebookSession) -> None:
    _dismissed()
    command.do(desk)
