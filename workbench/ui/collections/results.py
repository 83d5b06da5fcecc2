"""What came of work on a collection: an import report, checks, the recall of an index, an archive to download."""

from __future__ import annotations

import html
from collections.abc import Callable
from typing import Any

import streamlit as st

from core.errors import InputError
from core.store.ingest import IngestReport
from core.store.verify import IntegrityProblem
from evals.collections.load_labels import LoadReport
from evals.labels.revisions import FewerLabels
from workbench.behind.collections import uploads
from workbench.behind.collections.out import LARGEST, Zipped
from workbench.behind.collections.shown import many, told_bytes
from workbench.behind.collections.work import Recall
from workbench.ui import errors, textgrid
from workbench.ui.collections import brought as collections_brought
from workbench.ui.collections import notes
from workbench.ui.collections.remarks import flaws, plain
from workbench.ui.collections.state import go, links_of
from workbench.ui.textgrid import Column, Line

SHOW = ":material/visibility:"


def draw(what: str, name: str, result: Any) -> None:
    """The result of that kind of work."""
    drawn: dict[str, Callable[[str, Any], None]] = {
        "add": added,
        "resume": _resumed,
        "chunk": _extended,
        "embed": _extended,
        "verify": _verified,
        "recall": _recalled,
        "export": _exported,
        "attach": collections_brought.attached,
        "aside": collections_brought.built,
        "refresh": collections_brought.refreshed,
        "label": collections_brought.labelled,
        "write": collections_brought.written,
        "generate": collections_brought.made,
    }
    drawn[what](name, result)


def added(name: str, result: LoadReport, how: str = "added") -> None:
    """The import report. One collection may have two on the page: of what was added, and of what went on."""
    report = result.report
    said = (
        f"{many(report.added, 'document')} added, {report.changed:,} changed, {report.unchanged:,} unchanged, "
        f"{report.removed:,} removed; {many(report.chunks, 'chunk')} made, {many(report.embedded, 'text')} embedded; "
        f"{many(result.queries, 'query', 'queries')}, {many(result.labels, 'label')}; "
        f"{sum(report.seconds.values()):.1f} s."
    )
    st.html(f'<p class="rb-report">{html.escape(said)}</p>')
    if report.vanished:
        what = "They stay. To remove them, load it again and choose to remove what the source no longer has."
        notes.note(f"{many(report.vanished, 'stored document')} not in this source", what)
    if result.stay_reason:
        notes.note("Queries and labels stay", result.stay_reason)
    with st.container(horizontal=True, vertical_alignment="center"):
        links_of(name, labelled=bool(result.labels))
        st.button("Show it", key=f"show.{how}.{name}", on_click=go, kwargs={"collection": name}, icon=SHOW)
    if result.flaws:
        total = len(result.flaws) - len(report.flaws) + report.flawed
        with st.expander(f"{many(total, 'remark')} on the input", expanded=not report.added):
            flaws(f"report.{how}.{name}", plain(result.flaws), total)


def _resumed(name: str, result: LoadReport | IngestReport) -> None:
    if isinstance(result, IngestReport):
        _extended(name, result)
    else:
        added(name, result, "resumed")


def problem(error: Exception) -> None:
    """What went wrong, uploaded files under the names that they were sent by."""
    found = error.flaws if isinstance(error, FewerLabels) else ()
    if isinstance(error, InputError):
        error = InputError(uploads.told(str(error)))
    errors.draw(error)
    if found:
        with st.expander(f"{many(len(found), 'remark')} on the input", expanded=True):
            flaws("problem.flaws", plain(found), len(found))


def _extended(name: str, report: IngestReport) -> None:
    st.html(f'<p class="rb-report">{report.chunks:,} chunks made, {report.embedded:,} texts embedded.</p>')
    links_of(name, labelled=False)


def _verified(name: str, findings: list[IntegrityProblem]) -> None:
    wrong = [finding for finding in findings if finding.wrong]
    if not wrong:
        st.html(f'<p class="rb-report">All {len(findings)} checks found what should be there, and nothing else.</p>')
    lines = [
        Line(str(at), (finding.check, f"{finding.wrong:,}" if finding.wrong else "none"))
        for at, finding in enumerate(sorted(findings, key=lambda each: -each.wrong))
    ]
    for finding in wrong:
        st.html(
            f"<p><strong>{html.escape(finding.check)}: {finding.wrong:,}.</strong> {html.escape(finding.way_out)}</p>"
        )
    columns = (Column("what must not be there", long=True), Column("found", right=True))
    with st.expander(f"The {len(findings)} checks", expanded=bool(wrong)):
        textgrid.draw(f"verified.{name}", "Checks", columns, lines)


def _recalled(_: str, found: Recall) -> None:
    missed = len(found.shares) - found.perfect
    st.html(
        f'<p class="rb-report">The index (<code>{html.escape(found.index)}</code>, HNSW) over '
        f"<code>{html.escape(found.chunks)}</code> by <code>{html.escape(found.model)}</code> brings up "
        f"<strong>{found.mean:.2%}</strong> of the {found.depth} nearest that exact search finds, on average over "
        f"{len(found.shares):,} queries; the least was {min(found.shares):.0%}. {missed:,} queries missed something."
        "</p>"
    )


def _exported(name: str, archive: Zipped) -> None:
    st.html(
        f'<p class="rb-report">{archive.documents:,} documents, {archive.queries:,} queries and {archive.labels:,} '
        f"labels, {told_bytes(archive.bytes)}. It is kept for a day, or until it is closed.</p>"
    )
    if archive.bytes > LARGEST:
        path = html.escape(str(archive.path))
        st.html(f"<p>That is too much for a download. It lies on this machine: <code>{path}</code></p>")
        return
    st.download_button(
        "Download",
        archive.path.read_bytes,
        archive.path.name,
        "application/zip",
        key=f"download.{name}",
        on_click="ignore",
        icon=":material/download:",
    )
