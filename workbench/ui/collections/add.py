"""The form that adds a collection: where from, a dry look, how to load it, and the button that begins.

What it fills in is a `Wanted`; nothing is stored before the button is pressed.
"""

from __future__ import annotations

import asyncio
import html
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import streamlit as st

from core import bridge
from core.errors import RankbookError
from core.store.engine import Store
from evals.sources import sources
from workbench.behind.collections import added as collections_added
from workbench.behind.collections import uploads
from workbench.behind.collections import work as collections_work
from workbench.behind.collections.added import ImportRequest, SourcePreview
from workbench.behind.collections.shown import CollectionSummary
from workbench.behind.collections.uploads import SourceSpec
from workbench.ui import errors
from workbench.ui.collections import attach as collections_attach
from workbench.ui.collections import look as collections_look
from workbench.ui.collections import plan as collections_plan
from workbench.ui.collections.changes import author
from workbench.ui.collections.state import current, go, tabs

WAYS: Final = {
    "path": "On this machine",
    "public": "Public or bundled",
    "upload": "Upload files",
    "attach": "Attach a table",
}
LARGEST: Final = 500  # megabytes a file: an upload goes through memory
KEPT: Final = "kept"  # stands for the files of an upload that another try is made with


def draw(store: Store, shelf: Sequence[CollectionSummary]) -> None:
    with st.container(border=True, key="add.form"), errors.shown():
        st.html('<h2 class="rb-name">Add a collection</h2>')
        tabs("Where from", "add", WAYS, current().way)
        if current().way == "attach":
            collections_attach.draw(store, shelf)
            return
        given = _given(current().way, shelf)
        if given is None:
            return
        mapped = replace(given, options=(*given.options, *_options(given)))
        look = _looked(mapped)
        if look is None:
            return
        collections_look.draw(look, given)
        if look.problem is not None:
            return
        name = _name(given)
        plan = collections_plan.draw(store, shelf, name, look)
        st.button(
            "Import",
            key="add.import",
            type="primary",
            icon=":material/download:",
            disabled=not name,
            on_click=_begin,
            args=(store, ImportRequest(name, mapped, plan)),
        )


def _begin(store: Store, wanted: ImportRequest) -> None:
    try:
        collections_work.add(store, wanted, author())
    except RankbookError as error:
        st.session_state["collections.refused"] = error
    else:
        st.session_state.pop("add.looked", None)
        st.session_state.pop("add.staged", None)  # the work puts the files away
        go(add="")


# -- where from --------------------------------------------------------------------------------------------------------


def _given(way: str, shelf: Sequence[CollectionSummary]) -> SourceSpec | None:
    if way == "upload":
        return _upload(shelf)
    return _public() if way == "public" else _path()


def _path() -> SourceSpec | None:
    left, right = st.columns([3, 1], vertical_alignment="bottom")
    with left:
        path = st.text_input(
            "Folder or file",
            key="add.from",
            placeholder="/home/me/docs, faq.csv, scifact.zip",
            help="A path on the machine that Rankbook runs on: a folder of documents (Markdown, text, HTML, "
            "reStructuredText, AsciiDoc; Word, PDF and notebooks with the extra `documents`); a CSV, TSV, JSON, JSONL "
            "or Parquet table; a BEIR folder or .zip; TREC documents.",
        )
    with right:
        st.session_state.setdefault("add.kind", "")
        kind = st.selectbox(
            "Read as", ["", *sorted(sources)], key="add.kind", format_func=lambda name: name or "what it looks like"
        )
    return SourceSpec(path.strip(), kind or None) if path.strip() else None


def _public() -> SourceSpec | None:
    known = collections_added.public()

    def named(name: str) -> str:
        entry = known[name]
        if entry is None:
            return f"{name} (ships with Rankbook)"
        size = f", {entry.download_mb:,g} MB" if entry.download_mb else ""
        return f"{name}: {entry.title}, {entry.documents:,} documents{size}"

    chosen = st.selectbox(
        "Collection", list(known), key="add.public", index=None, format_func=named, placeholder="Choose one"
    )
    return SourceSpec(chosen) if chosen else None


def _upload(shelf: Sequence[CollectionSummary]) -> SourceSpec | None:
    """The files in a folder of their own, put there once."""
    files = st.file_uploader(
        "Files",
        accept_multiple_files=True,
        key="add.files",
        max_upload_size=LARGEST,
        help="One .zip as BEIR has it; corpus.jsonl with queries.jsonl and judgements as .tsv; documents, a file each "
        "(.md, .html, .rst, .adoc, .pdf ...); or a table of documents (.csv, .tsv, .json, .jsonl, .parquet), with one "
        "of queries and one of labels.",
    )
    ids = tuple(file.file_id for file in files)
    staged: tuple[tuple[str, ...], SourceSpec] | None = st.session_state.get("add.staged")
    if staged is not None and staged[0] != ids and (ids or staged[0] != (KEPT,)):
        uploads.discard(Path(staged[1].origin))
        staged = st.session_state.pop("add.staged") and None
    if staged is None and files:
        with st.spinner("Keeping the files"):
            _sweep(shelf)
            staged = st.session_state["add.staged"] = (ids, _staged(files))
    return staged[1] if staged else None


def _staged(files: Sequence[Any]) -> SourceSpec:
    folder = uploads.stage(files)
    try:
        return uploads.taken_for(folder)
    except RankbookError:
        uploads.discard(folder)
        raise


def _sweep(shelf: Sequence[CollectionSummary]) -> None:
    collections_added.sweep([row.origin for row in shelf])


# -- how it is read ----------------------------------------------------------------------------------------------------


def _options(given: SourceSpec) -> list[str]:
    """What the columns were said to be below, and options as the command takes them."""
    typed = str(st.session_state.get("add.options") or "").splitlines()
    return [*collections_look.mapped(given), *(line.strip() for line in typed if line.strip())]


def _looked(origin: SourceSpec) -> SourcePreview | None:
    """The look, taken once for the same files and options."""
    kept = st.session_state.get("add.looked")
    if kept is None or kept[0] != origin:
        with st.spinner("Looking into it"):
            try:
                kept = (origin, bridge.run(asyncio.to_thread(collections_added.looked_at, origin)))
            except RankbookError as error:
                errors.draw(error)
                collections_look.options()
                return None
        st.session_state["add.looked"] = kept
    look: SourcePreview = kept[1]
    return look


def _name(given: SourceSpec) -> str:
    suggested = uploads.suggested_name(given.origin)
    if st.session_state.get("add.suggested") != suggested or "add.name" not in st.session_state:
        st.session_state["add.suggested"] = suggested
        st.session_state["add.name"] = st.session_state.pop("add.name again", suggested)
    name = st.text_input("Name", key="add.name", max_chars=60, placeholder="What it is to be called")
    if not name.strip():
        st.html(f"<p>{html.escape('Give it a name, by which it is searched and evaluated.')}</p>")
    return name.strip()


def refill(wanted: ImportRequest) -> str:
    """The form as it was filled in before; gives the way that it was."""
    origin, state = wanted.origin, st.session_state
    state["add.name again"] = wanted.name
    state.pop("add.suggested", None)
    collections_plan.refill(wanted.plan)
    if uploads.holds(origin.origin):
        state["add.staged"] = ((KEPT,), origin)
        return "upload"
    state["add.options"] = "\n".join(origin.options)
    if origin.kind is None and origin.origin in collections_added.public() and not Path(origin.origin).exists():
        state["add.public"] = origin.origin
        return "public"
    state["add.from"], state["add.kind"] = origin.origin, origin.kind or ""
    return "path"
