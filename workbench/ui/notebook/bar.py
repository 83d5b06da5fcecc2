"""The bar above a notebook: which one, run, stop, undo, hand on; and what its cells share."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial

import streamlit as st

from core import bridge
from core.errors import RankbookError
from core.store import collections
from evals.evaluation import every
from workbench.behind.toml_edit import put
from workbench.book import desks, files, html, ipynb
from workbench.book.desk import Desk
from workbench.book.document import Notebook
from workbench.book.shared import HEADER
from workbench.book.shelf import Shelf, shelf
from workbench.ui import errors, place
from workbench.ui.notebook import acts as notebook_acts
from workbench.ui.notebook import keys as notebook_keys
from workbench.ui.notebook.acts import Notice

WATCH = 3.0  # seconds between two looks at what other windows and other programs do
EMPTY = "Nothing, but for the collection"


def draw(desk: Desk, notices: Sequence[Notice]) -> None:
    """All of it, with what there is to be said: where one sees it wherever one is."""
    with st.container(key="book-bar", gap="xsmall"):
        _row(desk)
        _say(notices)
        _watch(desk)


def _row(desk: Desk) -> None:
    with st.container(key="book-row", horizontal=True, vertical_alignment="bottom", gap="xsmall"):
        _chooser(desk, shelf())
        _shared(desk)
        _new(desk)
        _running(desk)
        _undo(desk)
        _hand_on(desk)
        st.button(
            "Commands",
            key="bar-commands",
            icon=":material/keyboard:",
            type="tertiary",
            help="All commands and their keys: Ctrl+K or ?",
            on_click=partial(st.session_state.update, {"book.dialog": "commands"}),
        )


@st.fragment(run_every=WATCH)
def _watch(desk: Desk) -> None:
    """Other windows, other programs: the page is drawn again when they did something."""
    desk.look()
    notebook_acts.keep_up(desk)
    if desk.changed_on_disk:
        _changed_on_disk(desk)


# -- which one ---------------------------------------------------------------------------------------------------------


def _chooser(desk: Desk, here: Shelf) -> None:
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
        on_change=lambda: place.go(place.Place(st.session_state[key] or "")),
        width=250,
    )


def _new(desk: Desk) -> None:
    with st.popover("New", icon=":material/note_add:", key=f"book.new.menu.{desk.name}"):
        st.caption("A notebook is a Markdown file. It is kept on this machine.")
        name = st.text_input("Name", key="book.new.name", max_chars=100, placeholder="what-to-find-out")
        like = st.selectbox("Begin with", [EMPTY, "The starter, explained", desk.name], key="book.new.like")
        st.button("Begin", key="book.new", type="primary", on_click=_begin, args=(desk, name, like))


def _begin(desk: Desk, name: str, like: str) -> None:
    try:
        if like == desk.name:
            made = desks.copied(desk, shelf(), name).name
        else:
            notebook = files.opened(files.STARTER).notebook if like != EMPTY else _bare(desk, name)
            made = shelf().create(name, notebook).path.stem
    except RankbookError as error:
        notebook_acts.notice(str(error), bad=True)
        return
    st.session_state["book.new.name"] = ""
    place.go(place.Place(made))


def _bare(desk: Desk, name: str) -> Notebook:
    collection = desk.meaning.shared.collection or "handbook"
    title = " ".join(name.replace("-", " ").split())
    return Notebook.parse(
        f"# {title[:1].upper()}{title[1:]}\n\n```{HEADER}\n{put('', {('collection',): collection})}```\n"
    )


# -- run, undo, hand on ------------------------------------------------------------------------------------------------


def _running(desk: Desk) -> None:
    if (job := desk.job) is not None:
        st.button(
            "Stopping" if job.stopping else "Stop",
            key="book.stop",
            icon=":material/stop_circle:",
            type="primary",
            help="Stops the database's work too. What is done is kept. Twice stops at once.",
            on_click=desk.stop,
        )
        return
    stale = len(desk.stale)
    st.button(
        "Run all",
        key="book.all",
        icon=":material/playlist_play:",
        help="Every cell in its order. What nothing has moved on from is not computed again.",
        disabled=not desk.notebook.cells,
        on_click=notebook_keys.run_all,
        args=(desk,),
    )
    st.button(
        f"Run stale ({stale})" if stale else "Run stale",
        key="book.stale",
        help="The cells that never ran, failed, or are older than what they are about.",
        disabled=not stale,
        on_click=notebook_keys.run_stale,
        args=(desk,),
    )


def _undo(desk: Desk) -> None:
    last = desk.paper.last
    if last is not None:
        st.button(
            f"Undo: {last.label}",
            key="book.undo",
            icon=":material/undo:",
            on_click=notebook_acts.take_back,
            args=(desk, last.number),
        )


def _hand_on(desk: Desk) -> None:
    with st.popover("Export", icon=":material/ios_share:", key="book.export"):
        st.caption("With what each cell shows now; what is stale is marked.")
        st.download_button(
            "Page (HTML)",
            lambda: html.render(desk.notebook, desk.results()).encode(),
            f"{desk.name}.html",
            "text/html",
            key="book.html",
            icon=":material/html:",
            on_click="ignore",
        )
        st.download_button(
            "Jupyter notebook (.ipynb)",
            lambda: ipynb.render(desk.notebook, desk.meaning, desk.path.resolve().parent, desk.results()).encode(),
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


# -- what the cells share ----------------------------------------------------------------------------------------------


def _shared(desk: Desk) -> None:
    """The collection and the split of the header cell."""
    said = desk.meaning.shared
    names = [row.name for row in bridge.run(collections.listed(desk.store))]
    ground = desk.ground
    splits = [*ground.labelled.splits, "all"] if ground is not None else []
    usual = f"{every(ground.labelled)} (default)" if ground is not None else ""
    _choice(desk, "Collection", "collection", names, said.collection, also={"split": None, "query_set": None})
    _choice(desk, "Labelled queries", "split", splits, said.split, empty=usual)


def _choice(
    desk: Desk,
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


def _share(desk: Desk, values: dict[str, str | None]) -> None:
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


# -- what there is to be said ------------------------------------------------------------------------------------------


def said(desk: Desk) -> list[Notice]:
    """What came of the last click, said once, and what is doubtful about the text."""
    waiting = notebook_acts.notices()
    taken = [*waiting, *(Notice(f"Line {line}: {doubt}") for line, doubt in desk.notebook.doubts)]
    waiting.clear()
    return taken


def _say(notices: Sequence[Notice]) -> None:
    with st.container(key="book-said", gap="xsmall"):
        for each in notices:
            kind, role = ("complaint", "alert") if each.bad else ("note", "status")
            st.html(f'<div class="rb-box rb-{kind}" role="{role}"><p>{errors.as_html(each.text)}</p></div>')


def _changed_on_disk(desk: Desk) -> None:
    there = desk.path.is_file()
    what = "was changed on disk by another program" if there else "was removed from disk"
    st.html(
        f'<div class="rb-box rb-complaint" role="alert"><strong>The file {what}</strong><p>Nothing is written over it. '
        f"{'Read it again, or save' if there else 'Save'} what you see here under another name.</p></div>"
    )
    with st.container(horizontal=True):
        if there:
            st.button("Read it again", key="book.again", on_click=_again, args=(desk,))
        st.button("Save this one under another name", key="book.save", on_click=_save_as, args=(desk,))


def _again(desk: Desk) -> None:
    try:
        desk.read_again()
    except RankbookError as error:
        notebook_acts.notice(str(error), bad=True)


def _save_as(desk: Desk) -> None:
    try:
        name = shelf().free(f"{desk.name}-{datetime.now().astimezone():%Y-%m-%d}")
        made = desks.copied(desk, shelf(), name, desk.paper.unsaved).name
        desks.forget(desk)
    except RankbookError as error:
        notebook_acts.notice(str(error), bad=True)
        return
    notebook_acts.notice(f"Saved as {made}. {desk.name} on disk is as the other program left it.")
    place.go(place.Place(made))
