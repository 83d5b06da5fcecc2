"""The bar above a notebook: which one, run, stop, undo, hand on. Nothing in it moves: what cannot be done is disabled.

So every button is drawn in every run of the page, in one order, and as wide whatever it says.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import streamlit as st

from workbench.notebooks import export_html, export_jupyter
from workbench.notebooks.session import NotebookSession
from workbench.ui.notebook import acts as notebook_acts
from workbench.ui.notebook import choosers as notebook_choosers
from workbench.ui.notebook import keys as notebook_keys
from workbench.ui.notebook import said as notebook_said
from workbench.ui.notebook.acts import Notice

WATCH = 3.0  # seconds between two looks at what other windows and other programs do


def draw(desk: NotebookSession, notices: Sequence[Notice]) -> None:
    """All of it, with what there is to be said: where one sees it wherever one is."""
    with st.container(key="book-bar", gap="xsmall"):
        with st.container(key="book-row", horizontal=True, vertical_alignment="bottom", gap="xsmall"):
            notebook_choosers.draw(desk)
            _running(desk)
            _undo(desk)
            _hand_on(desk)
            _commands()
        notebook_said.draw(notices)
        _watch(desk)


@st.fragment(run_every=WATCH)
def _watch(desk: NotebookSession) -> None:
    """Other windows, other programs: the page is drawn again when they did something."""
    desk.look()
    notebook_acts.keep_up(desk)
    if desk.changed_on_disk:
        notebook_said.changed_on_disk(desk)


def _running(desk: NotebookSession) -> None:
    job, stale = desk.job, len(desk.stale)
    busy = "Cells are running. Stop them, or wait until they are done." if job is not None else ""
    _button(
        "all",
        "Run all",
        "playlist_play",
        "Every cell in its order. What nothing has moved on from is not computed again.",
        lambda: notebook_keys.run_all(desk),
        unable=busy or ("" if desk.notebook.cells else "There are no cells yet."),
        width=108,
    )
    _button(
        "stale",
        f"Run stale ({stale})" if stale else "Run stale",
        "update",
        "The cells that never ran, failed, or are older than what they are about.",
        lambda: notebook_keys.run_stale(desk),
        unable=busy or ("" if stale else "No cell is stale: all show what they would show if they ran now."),
        width=148,
    )
    _button(
        "stop",
        "Stopping" if job is not None and job.stopping else "Stop",
        "stop_circle",
        "Stops the database's work too. What is done is kept. Twice stops at once.",
        desk.stop,
        unable="" if job is not None else "Nothing is running.",
        width=108,
        primary=job is not None,
    )


def _undo(desk: NotebookSession) -> None:
    last = desk.history.last
    _button(
        "undo",
        "Undo",
        "undo",
        f"Takes back: {last.label}" if last is not None else "",
        lambda: notebook_acts.take_back(desk, last.number) if last is not None else None,
        unable="" if last is not None else "Nothing was changed here that could be taken back.",
        width=92,
    )


def _button(
    name: str,
    label: str,
    icon: str,
    says: str,
    do: Callable[[], None],
    *,
    unable: str,
    width: int,
    primary: bool = False,
) -> None:
    """As wide whatever its label says. `unable` is why it cannot be pressed now; empty where it can."""
    st.button(
        label,
        key=f"book.{name}",
        icon=f":material/{icon}:",
        type="primary" if primary else "secondary",
        help=unable or says,
        disabled=bool(unable),
        on_click=do,
        width=width,
    )


def _commands() -> None:
    st.button(
        "Commands",
        key="bar-commands",
        icon=":material/keyboard:",
        type="tertiary",
        help="All commands and their keys: Ctrl+K or ?",
        on_click=partial(st.session_state.update, {"book.dialog": "commands"}),
    )


def _hand_on(desk: NotebookSession) -> None:
    with st.popover("Export", icon=":material/ios_share:", key="book.export", width=108):
        st.caption("With what each cell shows now; what is stale is marked.")
        st.download_button(
            "Page (HTML)",
            lambda: export_html.render(desk.notebook, desk.states()).encode(),
            f"{desk.name}.html",
            "text/html",
            key="book.html",
            icon=":material/html:",
            on_click="ignore",
        )
        st.download_button(
            "Jupyter notebook (.ipynb)",
            lambda: export_jupyter.render(
                desk.notebook, desk.parsed, desk.path.resolve().parent, desk.states()
            ).encode(),
            f"{desk.name}.ipynb",
            "application/x-ipynb+json",
            key="book.ipynb",
            icon=":material/data_object:",
            on_click="ignore",
        )
        st.download_button(
            "Markdown, as it is saved",
            desk.notebook.text.encode("utf-8", "surrogatepass"),
            f"{desk.name}.md",
            "text/markdown",
            key="book.md",
            icon=":material/markdown:",
            on_click="ignore",
        )
