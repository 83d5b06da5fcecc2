"""Work on collections: the progress of what is under way, and the results of what has ended."""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Any, Final

import streamlit as st

from core.store.attached import Attachment
from core.store.collections import CollectionView
from core.store.engine import Store
from core.store.ingest import IngestReport
from core.store.verify import IntegrityProblem
from core.types import Flaw
from evals.collections.load_labels import LoadReport
from workbench.components import feedback, table
from workbench.components.job_progress import draw_progress
from workbench.components.table import DataColumn, DataRow, DataTable
from workbench.screens.collections import add, attach
from workbench.screens.collections.about import draw_flaws, draw_problem, flaw_rows
from workbench.screens.collections.state import CollectionsState, address, links_of
from workbench.services import collection_jobs
from workbench.services.attach import AttachRequest, AttachResult, difference_sentence
from workbench.services.collection_jobs import CollectionJob, IndexRecall
from workbench.services.collections import LARGEST_DOWNLOAD, BeirArchive, ImportRequest, format_bytes, plural
from workbench.services.jobs import Key

BEAT: Final = 0.6  # seconds between two looks at work under way
SHOW: Final = ":material/visibility:"


def draw(store: Store) -> None:
    """A fragment for all of it, which redraws the whole page when something has ended."""
    listed = collection_jobs.list_jobs(store)
    running = frozenset(work.key for work in listed if not work.job.ended)
    st.fragment(_panel, run_every=BEAT if running else None)(listed, running, address.current())


def _panel(listed: Sequence[CollectionJob], running: frozenset[Key], drawn: CollectionsState) -> None:
    """Redraws the whole page where that has changed: the list, or what is selected."""
    now = address.current()
    moved = any(getattr(now, field) != getattr(drawn, field) for field in ("collection", "add", "shown", "set"))
    if moved or any(work.job.ended and work.key in running for work in listed):
        st.rerun()
    for work in listed:
        if not work.dismissed:
            key = f"work.{sha256(repr(work.key).encode()).hexdigest()[:12]}"
            with st.container(border=True, key=f"{key}.box"), feedback.draw_errors():
                if work.job.ended:
                    _draw_ended(key, work)
                else:
                    draw_progress(key, work.job)


def _draw_ended(key: str, work: CollectionJob) -> None:
    job = work.job
    outcome = "Stopped." if job.stopped else "It failed." if job.problem else "Done."
    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
        st.html(f'<p class="rb-work"><strong>{html.escape(job.title)}</strong> {outcome}</p>')
        st.button(
            "Close",
            key=f"{key}.close",
            type="tertiary",
            icon=":material/close:",
            on_click=collection_jobs.dismiss,
            args=(work,),
        )
    if job.stopped:
        st.html("<p>What was stored by then is whole, and stays: asked again, it goes on from there.</p>")
    elif isinstance(job.problem, Exception):
        draw_problem(job.problem)
    else:
        RESULTS[work.kind](work.name, job.result())
    if (job.stopped or job.problem) and work.form is not None:
        again = "Change it and try again"
        st.button(again, key=f"{key}.again", icon=":material/edit:", on_click=_refill, args=(work,))


def _refill(work: CollectionJob) -> None:
    """Open the form as it was filled."""
    collection_jobs.dismiss(work)
    match work.form:
        case AttachRequest() as request:
            address.go(**attach.refill(request))
        case ImportRequest() as request:
            address.go(add=add.refill(request))


# -- results, by the name of the collection ----------------------------------------------------------------------------


def _say(sentence: str) -> None:
    st.html(f'<p class="rb-report">{html.escape(sentence)}</p>')


def _draw_remarks(how: str, name: str, flaws: Sequence[Flaw]) -> None:
    if flaws:
        lost = any(flaw.outcome == "quarantined" for flaw in flaws)
        with st.expander(f"{plural(len(flaws), 'remark')} on the input", expanded=lost):
            draw_flaws(f"remarks.{how}.{name}", flaw_rows(flaws), len(flaws))


def _draw_show_button(how: str, name: str, query_set: str) -> None:
    def show() -> None:
        address.go(collection=name)
        address.go(view="queries", set=query_set)

    st.button("Show them", key=f"show.{how}.{name}", on_click=show, icon=SHOW)


def _added(name: str, result: LoadReport, how: str = "added") -> None:
    """The import report. `how` distinguishes two reports of one collection."""
    report = result.report
    _say(
        f"{plural(report.added, 'document')} added, {report.changed:,} changed, {report.unchanged:,} unchanged, "
        f"{report.removed:,} removed; {plural(report.chunks, 'chunk')} made, {plural(report.embedded, 'text')} "
        f"embedded; {plural(result.queries, 'query', 'queries')}, {plural(result.labels, 'label')}; "
        f"{sum(report.seconds.values()):.1f} s."
    )
    if report.vanished:
        what = "They stay. To remove them, load it again and choose to remove what the source no longer has."
        feedback.note(f"{plural(report.vanished, 'stored document')} not in this source", what)
    if result.stay_reason:
        feedback.note("Queries and labels stay", result.stay_reason)
    with st.container(horizontal=True, vertical_alignment="center"):
        links_of(name, labelled=bool(result.labels))
        st.button("Show it", key=f"show.{how}.{name}", on_click=address.go, kwargs={"collection": name}, icon=SHOW)
    if result.flaws:
        total = len(result.flaws) - len(report.flaws) + report.flawed
        with st.expander(f"{plural(total, 'remark')} on the input", expanded=not report.added):
            draw_flaws(f"report.{how}.{name}", flaw_rows(result.flaws), total)


def _extended(name: str, report: IngestReport) -> None:
    st.html(f'<p class="rb-report">{report.chunks:,} chunks made, {report.embedded:,} texts embedded.</p>')
    links_of(name, labelled=False)


def _verified(name: str, findings: list[IntegrityProblem]) -> None:
    wrong = [finding for finding in findings if finding.wrong]
    if not wrong:
        st.html(f'<p class="rb-report">All {len(findings)} checks found what should be there, and nothing else.</p>')
    lines = [
        DataRow(str(at), (finding.check, f"{finding.wrong:,}" if finding.wrong else "none"))
        for at, finding in enumerate(sorted(findings, key=lambda each: -each.wrong))
    ]
    for finding in wrong:
        st.html(
            f"<p><strong>{html.escape(finding.check)}: {finding.wrong:,}.</strong> {html.escape(finding.way_out)}</p>"
        )
    columns = (DataColumn("what must not be there", long=True), DataColumn("found", right=True))
    with st.expander(f"The {len(findings)} checks", expanded=bool(wrong)):
        table.draw(f"verified.{name}", DataTable("Checks", columns, lines))


def _recalled(_: str, recall: IndexRecall) -> None:
    missed = len(recall.shares) - recall.perfect
    st.html(
        f'<p class="rb-report">The index (<code>{html.escape(recall.index)}</code>, HNSW) over '
        f"<code>{html.escape(recall.chunks)}</code> by <code>{html.escape(recall.model)}</code> brings up "
        f"<strong>{recall.mean:.2%}</strong> of the {recall.depth} nearest that exact search finds, on average over "
        f"{len(recall.shares):,} queries; the least was {min(recall.shares):.0%}. {missed:,} queries missed something."
        "</p>"
    )


def _exported(name: str, archive: BeirArchive) -> None:
    st.html(
        f'<p class="rb-report">{archive.documents:,} documents, {archive.queries:,} queries and {archive.labels:,} '
        f"labels, {format_bytes(archive.bytes)}. It is kept for a day, or until it is closed.</p>"
    )
    if archive.bytes > LARGEST_DOWNLOAD:
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


def _attached(name: str, result: AttachResult) -> None:
    labels = ""
    if result.labels is not None:
        labels = f" {plural(result.labels.queries, 'query', 'queries')}, {plural(result.labels.labels, 'label')}."
    _say(f"{result.name} is attached to {result.table}.{labels}")
    st.button(
        "Show it",
        key=f"show.attached.{name}",
        on_click=address.go,
        kwargs={"collection": name},
        icon=SHOW,
    )
    if result.labels is not None:
        _draw_remarks("attached", name, result.labels.flaws)
    if result.advice:
        with st.expander(f"{plural(len(result.advice), 'index', 'indexes')} would help"):
            attach.advice(result.advice)


def _labelled(name: str, added: LoadReport) -> None:
    splits = ", ".join(f"{split} {count:,}" for split, count in added.splits.items())
    _say(
        f"{plural(added.queries, 'query', 'queries')}, {plural(added.labels, 'label')}"
        f"{f' (labelled queries by split: {splits})' if splits else ''}."
    )
    if added.change is not None and added.change.before.queries:
        _say(f"{added.change.sentence}. Under Queries this can be undone.")
    _draw_remarks("labelled", name, added.flaws)


def _written(name: str, result: AddedQueries) -> None:
    _say(f"{plural(result.added, 'query', 'queries')} added; {result.queries:,} in {result.name}.")
    _draw_show_button("written", name, result.name)
    _draw_remarks("written", name, result.flaws)


def _generated(name: str, result: GeneratedQuerySet) -> None:
    queries, unfit = result.made.labelled.queries, result.made.unfit
    left_out = f" {plural(unfit, 'document')} had not the words for one." if unfit else ""
    _say(f"{plural(len(queries), 'query', 'queries')} in {result.query_set}.{left_out}")
    _draw_show_button("made", name, result.query_set)
    lines = [DataRow(query.id, (query.text, query.id)) for query in result.first]
    columns = (DataColumn("the first queries", long=True), DataColumn("id", wide=True))
    with st.expander("The first of them"):
        table.draw(f"made.{name}", DataTable("The first queries", columns, lines, tall=True))


def _built(_: str, view: CollectionView) -> None:
    there = Attachment.of(view).aside
    _say(f"Built of {plural(there.rows, 'row')}: bm25 and fuzzy search work now." if there else "There is none.")


RESULTS: Final[dict[str, Callable[[str, Any], None]]] = {
    "add": _added,
    "resume": lambda name, result: (
        _extended(name, result) if isinstance(result, IngestReport) else _added(name, result, "resumed")
    ),
    "chunk": _extended,
    "embed": _extended,
    "verify": _verified,
    "recall": _recalled,
    "export": _exported,
    "attach": _attached,
    "aside": _built,
    "refresh": lambda _, result: _say(difference_sentence(*result)),
    "label": _labelled,
    "write": _written,
    "generate": _generated,
}
