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
from workbench.notebooks.files import own_folder
from workbench.notebooks.session import NotebookSession
from workbench.notebooks.shared import HEADER
from workbench.screens.notebook import actions, keyboard, state
from workbench.screens.notebook.actions import Notice
from workbench.services import permissions
from workbench.services.toml_edit import put


def waiting(session: NotebookSession) -> list[Notice]:
    """The notice of the last click, and doubts about the text."""
    waiting = actions.notices()
    taken = [*waiting, *(Notice(f"Line {line}: {doubt}") for line, doubt in session.notebook.doubts)]
    waiting.clear()
    return taken


def draw_notices(notices: Sequence[Notice]) -> None:
    with st.container(key="book-said", gap="xsmall"):
        for each in notices:
            kind, role = ("complaint", "alert") if each.bad else ("note", "status")
            st.html(f'<div class="rb-box rb-{kind}" role="{role}"><p>{feedback.as_html(each.text)}</p></div>')


def changed_on_disk(session: NotebookSession) -> None:
    there = files.read_notebook(session.path) if session.path.is_file() else None
    what = "was changed on disk by another program" if there else "was removed from disk"
    st.html(
        f'<div class="rb-box rb-complaint" role="alert"><strong>The file {what}</strong><p>Nothing is written over it '
        f"before you choose. {'Read it again, save' if there else 'Save'} what you see here "
        f"{'over it, or save it' if there else 'again, or'} under another name.</p></div>"
    )
    with st.container(horizontal=True):
        if there:
            st.button("Read it again", key="book.again", on_click=_do, args=(session.read_again,))
        label = "Save this one over it" if there else "Save it again"
        st.button(label, key="book.over", on_click=_do, args=(session.write_over, there and there.digest))
        st.button("Save this one under another name", key="book.save", on_click=_save_as, args=(session,))
    if there is not None:
        with st.expander("What differs: lines with - are on disk, lines with + are here"):
            st.code(session.differences(there.notebook), language="diff")


def _do(choice: Callable[..., None], *arguments: bytes | None) -> None:
    try:
        choice(*arguments)
    except RankbookError as error:
        actions.notice(str(error), bad=True)


def _save_as(desk: NotebookSession) -> None:
    try:
        name = own_folder().free(f"{desk.name}-{datetime.now().astimezone():%Y-%m-%d}")
        made = session.copy_session(desk, own_folder(), name, desk.history.unsaved).name
        session.forget(desk)
    except RankbookError as error:
        actions.notice(str(error), bad=True)
        return
    actions.notice(f"Saved as {made}. {desk.name} on disk is as the other program left it.")
    state.go(state.NotebookState(made))


EMPTY = "Nothing, but for the collection"


def draw_choosers(session: NotebookSession) -> None:
    """The choosers of notebook, collection and split."""
    here = own_folder()
    own = here.own()
    names = [*own, *(name for name in files.shipped_names() if name not in own)]
    key = "book.choice"
    at = names.index(session.name) if session.name in names else None
    st.session_state[key] = None if at is None else session.name
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
    _shared(session)
    if permissions.may_edit(session.store):
        _new(session)


# -- which one ---------------------------------------------------------------------------------------------------------


def _new(session: NotebookSession) -> None:
    with st.popover("New", icon=":material/note_add:", key=f"book.new.menu.{session.name}", width=92):
        st.caption("A notebook is a Markdown file. It is kept on this machine.")
        name = st.text_input("Name", key="book.new.name", max_chars=100, placeholder="what-to-find-out")
        like = st.selectbox("Begin with", [EMPTY, "The starter, explained", session.name], key="book.new.like")
        st.button("Begin", key="book.new", type="primary", on_click=_begin, args=(session, name, like))


def _begin(desk: NotebookSession, name: str, like: str) -> None:
    try:
        roles.refuse_reader(desk.store, "make notebooks")
        if like == desk.name:
            made = session.copy_session(desk, own_folder(), name).name
        else:
            notebook = files.read_notebook(files.STARTER).notebook if like != EMPTY else _bare(desk, name)
            made = own_folder().create(name, notebook).path.stem
    except RankbookError as error:
        actions.notice(str(error), bad=True)
        return
    st.session_state["book.new.name"] = ""
    state.go(state.NotebookState(made))


def _bare(session: NotebookSession, name: str) -> Notebook:
    collection = session.parsed.shared.collection or "handbook"
    title = " ".join(name.replace("-", " ").split())
    return Notebook.parse(
        f"# {title[:1].upper()}{title[1:]}\n\n```{HEADER}\n{put('', {('collection',): collection})}```\n"
    )


# -- what the cells share ----------------------------------------------------------------------------------------------


def _shared(session: NotebookSession) -> None:
    """The collection and split of the header cell."""
    said = session.parsed.shared
    names = [row.name for row in bridge.run(collections.listed(session.store))]
    ground = session.collection
    splits = [*ground.labelled.splits, "all"] if ground is not None else []
    usual = f"{default_split(ground.labelled)} (default)" if ground is not None else ""
    _choice(session, "Collection", "collection", names, said.collection, also={"split": None, "query_set": None})
    _choice(session, "Labelled queries", "split", splits, said.split, empty=usual)


def _choice(
    session: NotebookSession,
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
            _share(session, {field: wanted or None, **(also or {})})

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


def _share(session: NotebookSession, values: dict[str, str | None]) -> None:
    """Set them in the header cell, which is added where there is none."""

    def edit(notebook: Notebook) -> tuple[Notebook, str]:
        changes: dict[tuple[str | int, ...], str | None] = {(name,): value for name, value in values.items()}
        if notebook.headers:
            first = notebook.headers[0]
            return notebook.replace(first.id, put(first.source, changes)), first.id
        before = next((cell.id for cell in notebook.cells), None)
        return notebook.insert(HEADER, put("", changes), before=before)

    what = "collection" if "collection" in values else "split"
    actions.apply(session, lambda own: own.change(f"change of {what}", edit))


WATCH = 3.0  # seconds between two looks at what other windows and other programs do


def draw(session: NotebookSession, notices: Sequence[Notice]) -> None:
    """The toolbar with notices, always in view."""
    with st.container(key="book-bar", gap="xsmall"):
        with st.container(key="book-row", horizontal=True, vertical_alignment="bottom", gap="xsmall"):
            draw_choosers(session)
            job, stale = session.job, len(session.stale)
            busy = "Cells are running. Stop them, or wait until they are done." if job is not None else ""
            _button(
                "all",
                "Run all",
                "playlist_play",
                "Every cell in its order. What nothing has moved on from is not computed again.",
                lambda: keyboard.run_all(session),
                unable=busy or ("" if session.notebook.cells else "There are no cells yet."),
                width=108,
            )
            _button(
                "stale",
                f"Run stale ({stale})" if stale else "Run stale",
                "update",
                "The cells that never ran, failed, or are older than what they are about.",
                lambda: keyboard.run_stale(session),
                unable=busy or ("" if stale else "No cell is stale: all show what they would show if they ran now."),
                width=148,
            )
            _button(
                "stop",
                "Stopping" if job is not None and job.stopping else "Stop",
                "stop_circle",
                "Stops the database's work too. What is done is kept. Twice stops at once.",
                session.stop,
                unable="" if job is not None else "Nothing is running.",
                width=108,
                primary=job is not None,
            )
            _undo(session)
            _hand_on(session)
            _commands()
        draw_notices(notices)
        _watch(session)


@st.fragment(run_every=WATCH)
def _watch(session: NotebookSession) -> None:
    """Redraws the page when other windows or programs have changed something."""
    session.look()
    actions.keep_up(session)
    if session.changed_on_disk:
        changed_on_disk(session)


def _undo(session: NotebookSession) -> None:
    last = session.history.last
    _button(
        "undo",
        "Undo",
        "undo",
        f"Takes back: {last.label}" if last is not None else "",
        lambda: actions.take_back(session, last.number) if last is not None else None,
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
    """Of constant width. `unable` is why it is disabled; empty where it is not."""
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


def _hand_on(session: NotebookSession) -> None:
    with st.popover("Export", icon=":material/ios_share:", key="book.export", width=108):
        st.caption("With what each cell shows now; what is stale is marked.")
        st.download_button(
            "Page (HTML)",
            lambda: export_html.render(session.notebook, session.states()).encode(),
            f"{session.name}.html",
            "text/html",
            key="book.html",
            icon=":material/html:",
            on_click="ignore",
        )
        st.download_button(
            "Jupyter notebook (.ipynb)",
            lambda: export_jupyter.render(
                session.notebook, session.parsed, session.path.resolve().parent, session.states()
            ).encode(),
            f"{session.name}.ipynb",
            "application/x-ipynb+json",
            key="book.ipynb",
            icon=":material/data_object:",
            on_click="ignore",
        )
        st.download_button(
            "Markdown, as it is saved",
            session.notebook.text.encode("utf-8", "surrogatepass"),
            f"{session.name}.md",
            "text/markdown",
            key="book.md",
            icon=":material/markdown:",
            on_click="ignore",
        )
