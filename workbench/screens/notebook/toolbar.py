"""The head of the page Notebook: which notebook, what runs, undo, exports, and notices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial

import streamlit as st

from core import bridge
from core.errors import RankbookError
from core.store import collections, roles
from evals.evaluation.context import default_split
from workbench.components import feedback
from workbench.notebooks import export_html, export_jupyter, files, session
from workbench.notebooks.document import Notebook
from workbench.notebooks.files import NotebookFolder, shelf
from workbench.notebooks.session import NotebookSession
from workbench.notebooks.shared import HEADER
from workbench.screens.notebook import actions as notebook_acts
from workbench.screens.notebook import keyboard as notebook_keys
from workbench.screens.notebook import state
from workbench.screens.notebook.actions import Notice
from workbench.services import permissions
from workbench.services.toml_edit import put


def waiting(desk: NotebookSession) -> list[Notice]:
    """What came of the last click, said once, and what is doubtful about the text."""
    waiting = notebook_acts.notices()
    taken = [*waiting, *(Notice(f"Line {line}: {doubt}") for line, doubt in desk.notebook.doubts)]
    waiting.clear()
    return taken


def draw_notices(notices: Sequence[Notice]) -> None:
    with st.container(key="book-said", gap="xsmall"):
        for each in notices:
            kind, role = ("complaint", "alert") if each.bad else ("note", "status")
            st.html(f'<div class="rb-box rb-{kind}" role="{role}"><p>{feedback.as_html(each.text)}</p></div>')


def changed_on_disk(desk: NotebookSession) -> None:
    there = files.opened(desk.path) if desk.path.is_file() else None
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
        name = shelf().free(f"{desk.name}-{datetime.now().astimezone():%Y-%m-%d}")
        made = session.copied(desk, shelf(), name, desk.paper.unsaved).name
        session.forget(desk)
    except RankbookError as error:
        notebook_acts.notice(str(error), bad=True)
        return
    notebook_acts.notice(f"Saved as {made}. {desk.name} on disk is as the other program left it.")
    state.go(state.NotebookState(made))


EMPTY = "Nothing, but for the collection"


def draw_choosers(desk: NotebookSession) -> None:
    """In the bar, each in its place."""
    _chooser(desk, shelf())
    _shared(desk)
    if permissions.may_edit(desk.store):
        _new(desk)


# -- which one ---------------------------------------------------------------------------------------------------------


def _chooser(desk: NotebookSession, here: NotebookFolder) -> None:
    own = here.own()
    names = [*own, *(name for name in files.shipped_names() if name not in own)]
    key = "book.choice"
    at = names.index(desk.name) if desk.name in names else None
    st.session_state[key] = None if at is None else desk.name
    st.selectbox(
        "Notebook",
        names,
        at,
        key=key,
        format_func=lambda name: name if name in own else f"{name} (shipped)",
        help=f"Yours are Markdown files in {here.folder}. Shipped ones come with Rankbook; a change makes a copy.",
        on_change=lambda: state.go(state.NotebookState(st.session_state[key] or "")),
        width=250,
    )


def _new(desk: NotebookSession) -> None:
    with st.popover("New", icon=":material/note_add:", key=f"book.new.menu.{desk.name}", width=92):
        st.caption("A notebook is a Markdown file. It is kept on this machine.")
        name = st.text_input("Name", key="book.new.name", max_chars=100, placeholder="what-to-find-out")
        like = st.selectbox("Begin with", [EMPTY, "The starter, explained", desk.name], key="book.new.like")
        st.button("Begin", key="book.new", type="primary", on_click=_begin, args=(desk, name, like))


def _begin(desk: NotebookSession, name: str, like: str) -> None:
    try:
        roles.refuse_reader(desk.store, "make notebooks")
        if like == desk.name:
            made = session.copied(desk, shelf(), name).name
        else:
            notebook = files.opened(files.STARTER).notebook if like != EMPTY else _bare(desk, name)
            made = shelf().create(name, notebook).path.stem
    except RankbookError as error:
        notebook_acts.notice(str(error), bad=True)
        return
    st.session_state["book.new.name"] = ""
    state.go(state.NotebookState(made))


def _bare(desk: NotebookSession, name: str) -> Notebook:
    collection = desk.meaning.shared.collection or "handbook"
    title = " ".join(name.replace("-", " ").split())
    return Notebook.parse(
        f"# {title[:1].upper()}{title[1:]}\n\n```{HEADER}\n{put('', {('collection',): collection})}```\n"
    )


# -- what the cells share ----------------------------------------------------------------------------------------------


def _shared(desk: NotebookSession) -> None:
    """The collection and the split of the header cell."""
    said = desk.meaning.shared
    names = [row.name for row in bridge.run(collections.listed(desk.store))]
    ground = desk.ground
    splits = [*ground.labelled.splits, "all"] if ground is not None else []
    usual = f"{default_split(ground.labelled)} (default)" if ground is not None else ""
    _choice(desk, "Collection", "collection", names, said.collection, also={"split": None, "query_set": None})
    _choice(desk, "Labelled queries", "split", splits, said.split, empty=usual)


def _choice(
    desk: NotebookSession,
    label: str,
    field: str,
    options: Sequence[str],
    value: str | None,
    *,
    also: dict[str, None] | None = None,
    empty: str = "",
) -> None:
    key = f"book.{field}"
    known = [*options, *([value] if value and value not in options else [])]
    st.session_state[key] = value or ""

    def chosen() -> None:
        if (wanted := st.session_state[key]) != (value or ""):
            _share(desk, {field: wanted or None, **(also or {})})

    offered = known if field == "collection" and value else ["", *known]
    st.selectbox(
        label,
        offered,
        offered.index(value or ""),
        key=key,
        format_func=lambda name: name or empty or "none yet",
        on_change=chosen,
        width=170,
    )


def _share(desk: NotebookSession, values: dict[str, str | None]) -> None:
    """Into the header cell, which is made where there is none."""

    def edit(notebook: Notebook) -> tuple[Notebook, str]:
        changes: dict[tuple[str | int, ...], str | None] = {(name,): value for name, value in values.items()}
        if notebook.headers:
            first = notebook.headers[0]
            return notebook.replace(first.id, put(first.source, changes)), first.id
        before = next((cell.id for cell in notebook.cells), None)
        return notebook.insert(HEADER, put("", changes), before=before)

    what = "collection" if "collection" in values else "split"
    notebook_acts.act(desk, lambda own: own.change(f"change of {what}", edit))


WATCH = 3.0  # seconds between two looks at what other windows and other programs do


def draw(desk: NotebookSession, notices: Sequence[Notice]) -> None:
    """All of it, with what there is to be said: where one sees it wherever one is."""
    with st.container(key="book-bar", gap="xsmall"):
        with st.container(key="book-row", horizontal=True, vertical_alignment="bottom", gap="xsmall"):
            draw_choosers(desk)
            _running(desk)
            _undo(desk)
            _hand_on(desk)
            _commands()
        draw_notices(notices)
        _watch(desk)


@st.fragment(run_every=WATCH)
def _watch(desk: NotebookSession) -> None:
    """Other windows, other programs: the page is drawn again when they did something."""
    desk.look()
    notebook_acts.keep_up(desk)
    if desk.changed_on_disk:
        changed_on_disk(desk)


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
    last = desk.paper.last
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
            lambda: export_html.render(desk.notebook, desk.results()).encode(),
            f"{desk.name}.html",
            "text/html",
            key="book.html",
            icon=":material/html:",
            on_click="ignore",
        )
        st.download_button(
            "Jupyter notebook (.ipynb)",
            lambda: export_jupyter.render(
                desk.notebook, desk.meaning, desk.path.resolve().parent, desk.results()
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
