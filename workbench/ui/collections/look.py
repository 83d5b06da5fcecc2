"""What a source was taken for, before anything is imported: its first rows, its columns, what is wrong with it."""

from __future__ import annotations

import html
from hashlib import sha256
from typing import Final

import streamlit as st

from workbench.behind.collections.added import SAMPLE, SourcePreview
from workbench.behind.collections.shown import many
from workbench.behind.collections.uploads import SourceSpec
from workbench.ui import textgrid
from workbench.ui.cards import shortened
from workbench.ui.collections import results as collections_results
from workbench.ui.collections.remarks import flaws, plain
from workbench.ui.textgrid import Column, Line

SHOWN: Final = 5
LONGEST: Final = 160
COLUMNS: Final = {"id": "Id", "text": "Text", "title": "Title"}
USUAL: Final = "the usual one"


def draw(look: SourcePreview, given: SourceSpec) -> None:
    st.html(f'<p class="rb-report">{_said(look)}</p>')
    for note in look.notes:
        st.html(f'<p class="rb-report">{html.escape(note)}</p>')
    if look.columns:
        _columns(look, given)
    if look.problem is not None:
        collections_results.problem(look.problem)
    else:
        _rows(look)
    if look.flaws:
        with st.expander(f"{many(len(look.flaws), 'remark')} on the first rows"):
            flaws("look.flaws", plain(look.flaws), len(look.flaws))
    options()


def options() -> None:
    """Whatever the source can be told, as the command takes it."""
    with st.expander("Options of the source"):
        st.text_area(
            "One a line, as name=value",
            key="add.options",
            placeholder="columns.metadata=...\nqueries_path=/home/me/queries.csv\nlabels_path=/home/me/labels.csv",
            help="The same as `--option` of `rankbook data add`.",
        )


def _said(look: SourcePreview) -> str:
    taken = f"Taken for: <strong>{html.escape(look.taken_for)}</strong>"
    if look.fetched:
        return f"{taken} {_download(look)}"
    about = f"About {many(look.size, 'document')}. " if look.size is not None else ""
    labelled = _some(len(look.queries), "query", "queries") + _some(len(look.labels), "label")
    return f"{taken} {about}{labelled or 'No queries and no labels: it can be searched, not scored. '}"


def _some(count: int, one: str, more: str = "") -> str:
    """Of rows that were counted no further than the sample."""
    if count >= SAMPLE:
        return f"{count} or more {more or f'{one}s'}. "
    return f"{many(count, one, more)}. " if count else ""


def _download(look: SourcePreview) -> str:
    entry = look.download
    if entry is None:
        return "It is fetched by ir_datasets; how large it is, is not known here."
    size = f", {entry.download_mb:,g} MB to download" if entry.download_mb else ""
    said = f"{entry.documents:,} documents, {entry.queries:,} queries{size}. Licence: {entry.licence}. {entry.note}"
    return html.escape(said)


def _rows(look: SourcePreview) -> None:
    if not look.documents:
        return
    documents = [
        Line(str(at), (each.id, each.title, _start(each.text))) for at, each in enumerate(look.documents[:SHOWN])
    ]
    columns = (Column("first documents: id"), Column("title"), Column("text", long=True))
    textgrid.draw("look.documents", "The first documents", columns, documents)
    if look.queries:
        grades = {label.query_id: 0 for label in look.labels}
        for label in look.labels:
            grades[label.query_id] += 1
        queries = [
            Line(str(at), (each.id, _start(each.text), str(grades.get(each.id, ""))))
            for at, each in enumerate(look.queries[:SHOWN])
        ]
        among = Column("labels", f"Among the first {SAMPLE} labels.", right=True)
        columns = (Column("first queries: id"), Column("text", long=True), among)
        textgrid.draw("look.queries", "The first queries", columns, queries)


def _start(text: str) -> str:
    return shortened(" ".join(text[: LONGEST * 4].split()), LONGEST)


# -- columns of a table ------------------------------------------------------------------------------------------------


def _columns(look: SourcePreview, given: SourceSpec) -> None:
    """Which of them make a document; said once more where the guess is wrong."""
    for place, (name, label) in zip(st.columns(len(COLUMNS)), COLUMNS.items(), strict=True):
        with place:
            st.selectbox(
                f"{label} column",
                [USUAL, *look.columns],
                key=_key(given, name),
                help="By default the first there is of the usual names, such as id and text.",
            )


def mapped(given: SourceSpec) -> list[str]:
    """The choices made above, as options of the source."""
    chosen = {name: st.session_state.get(_key(given, name), USUAL) for name in COLUMNS}
    return [f"columns.{name}={column}" for name, column in chosen.items() if column != USUAL]


def _key(given: SourceSpec, name: str) -> str:
    """Of these files alone: other tables have other columns."""
    return f"add.column.{sha256(repr(given).encode()).hexdigest()[:12]}.{name}"
