"""Adding to a notebook: the "+" between any two parts, and the choice by keyboard."""

from __future__ import annotations

from functools import partial

import streamlit as st

from workbench.behind.summaries import summary
from workbench.notebooks.cells import kinds, ordered_kinds
from workbench.notebooks.document import NOTE
from workbench.notebooks.files import example
from workbench.notebooks.session import NotebookSession
from workbench.ui.notebook import acts as notebook_acts

WORDS = {NOTE: "Text, as Markdown."}
NOTE_ICON = ":material/notes:"


def offered() -> list[str]:
    return [*ordered_kinds(), NOTE]


def icon(kind: str) -> str:
    return NOTE_ICON if kind == NOTE else kinds[kind].icon


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
    return f"{icon(kind)} {'text' if kind == NOTE else kind}"


def new(desk: NotebookSession, kind: str, *, before: str | None = None, after: str | None = None) -> None:
    """A new part, whose source is opened: an example that runs on this collection."""
    notebook_acts.add(desk, kind, example(kind, desk.collection), before=before, after=after, run=False)


def choices(desk: NotebookSession, after: str | None) -> None:
    """Every kind with what it is for, to be added behind a part."""
    for kind in offered():
        words = WORDS.get(kind) or summary(kinds[kind])
        with st.container(horizontal=True, vertical_alignment="center"):
            st.button(
                kind if kind != NOTE else "text",
                key=f"choose-{kind}",
                icon=icon(kind),
                width=130,
                on_click=partial(_chosen, desk, kind, after),
            )
            st.caption(words, width="stretch")


def _chosen(desk: NotebookSession, kind: str, after: str | None) -> None:
    st.session_state["book.dialog"] = ""
    new(desk, kind, after=after)
