"""Which notebook is open, how a new one begins, and the collection and queries that its cells share."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from core import bridge
from core.errors import RankbookError
from core.store import collections, roles
from evals.evaluation.context import default_split
from workbench.behind.toml_edit import put
from workbench.notebooks import files, session
from workbench.notebooks.document import Notebook
from workbench.notebooks.files import NotebookFolder, own_folder
from workbench.notebooks.session import NotebookSession
from workbench.notebooks.shared import HEADER
from workbench.ui import may, place
from workbench.ui.notebook import acts as notebook_acts

EMPTY = "Nothing, but for the collection"


def draw(desk: NotebookSession) -> None:
    """In the bar, each in its place."""
    _chooser(desk, own_folder())
    _shared(desk)
    if may.edit(desk.store):
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
        on_change=lambda: place.go(place.NotebookState(st.session_state[key] or "")),
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
            made = session.copy_session(desk, own_folder(), name).name
        else:
            notebook = files.read_notebook(files.STARTER).notebook if like != EMPTY else _bare(desk, name)
            made = own_folder().create(name, notebook).path.stem
    except RankbookError as error:
        notebook_acts.notice(str(error), bad=True)
        return
    st.session_state["book.new.name"] = ""
    place.go(place.NotebookState(made))


def _bare(desk: NotebookSession, name: str) -> Notebook:
    collection = desk.parsed.shared.collection or "handbook"
    title = " ".join(name.replace("-", " ").split())
    return Notebook.parse(
        f"# {title[:1].upper()}{title[1:]}\n\n```{HEADER}\n{put('', {('collection',): collection})}```\n"
    )


# -- what the cells share ----------------------------------------------------------------------------------------------


def _shared(desk: NotebookSession) -> None:
    """The collection and the split of the header cell."""
    said = desk.parsed.shared
    names = [row.name for row in bridge.run(collections.listed(desk.store))]
    ground = desk.collection
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
