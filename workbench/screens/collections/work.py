"""Work on collections: what is under way, and what came of what ended."""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Any, Final

import streamlit as st

from core.store.attached import Attachment, TableDifference
from core.store.collections import CollectionView
from core.store.engine import Store
from core.store.ingest import IngestReport
from core.store.verify import IntegrityProblem
from core.types import Flaw
from evals.collections.load_labels import LoadReport
from evals.labels.query_generation import AddedQueries
from workbench.components import feedback, table
from workbench.components.table import Column, Line
from workbench.screens.collections import add as collections_add
from workbench.screens.collections import attach as collections_aside
from workbench.screens.collections import attach as collections_attach
from workbench.screens.collections.about import draw_flaws, draw_problem, flaw_rows
from workbench.screens.collections.state import CollectionsState, current, go, links_of
from workbench.services import attach
from workbench.services import collection_jobs as collections_work
from workbench.services.attach import Attached, told_difference
from workbench.services.collection_jobs import CollectionJob, Recall
from workbench.services.collections import LARGEST_DOWNLOAD, Zipped, many, told_bytes
from workbench.services.jobs import Job, Key
from workbench.services.queries import Made


def attached(name: str, result: Attached) -> None:
    labels = ""
    if result.labels is not None:
        labels = f" {many(result.labels.queries, 'query', 'queries')}, {many(result.labels.labels, 'label')}."
    _say(f"{result.name} is attached to {result.table}.{labels}")
    st.button(
        "Show it", key=f"show.attached.{name}", on_click=go, kwargs={"collection": name}, icon=":material/visibility:"
    )
    if result.labels is not None:
        _remarks("attached", name, result.labels.flaws)
    if result.advice:
        with st.expander(f"{many(len(result.advice), 'index', 'indexes')} would help"):
            collections_aside.advice(result.advice)


def built(_: str, view: CollectionView) -> None:
    there = Attachment.of(view).aside
    _say(f"Built of {many(there.rows, 'row')}: bm25 and fuzzy search work now." if there else "There is none.")


def refreshed(_: str, result: tuple[CollectionView, TableDifference]) -> None:
    _say(told_difference(*result))


def labelled(name: str, added: LoadReport) -> None:
    splits = ", ".join(f"{split} {count:,}" for split, count in added.splits.items())
    _say(
        f"{many(added.queries, 'query', 'queries')}, {many(added.labels, 'label')}"
        f"{f' (labelled queries by split: {splits})' if splits else ''}."
    )
    if added.change is not None and added.change.before.queries:
        _say(f"{added.change.sentence}. Under Queries this can be undone.")
    _remarks("labelled", name, added.flaws)


def written(name: str, result: AddedQueries) -> None:
    _say(f"{many(result.added, 'query', 'queries')} added; {result.queries:,} in {result.name}.")
    _show("written", name, result.name)
    _remarks("written", name, result.flaws)


def made(name: str, result: Made) -> None:
    queries, unfit = result.made.labelled.queries, result.made.unfit
    left_out = f" {many(unfit, 'document')} had not the words for one." if unfit else ""
    _say(f"{many(len(queries), 'query', 'queries')} in {result.query_set}.{left_out}")
    _show("made", name, result.query_set)
    lines = [Line(query.id, (query.text, query.id)) for query in result.first]
    columns = (Column("the first queries", long=True), Column("id", wide=True))
    with st.expander("The first of them"):
        table.draw(f"made.{name}", "The first queries", columns, lines, low=True)


def _say(sentence: str) -> None:
    st.html(f'<p class="rb-report">{html.escape(sentence)}</p>')


def _show(how: str, name: str, query_set: str) -> None:
    st.button(
        "Show them",
        key=f"show.{how}.{name}",
        on_click=_shown,
        args=(name, query_set),
        icon=":material/visibility:",
    )


def _shown(name: str, query_set: str) -> None:
    go(collection=name)
    go(view="queries", set=query_set)


def _lost(found: Sequence[Flaw]) -> bool:
    return any(flaw.outcome == "quarantined" for flaw in found)


def _remarks(how: str, name: str, found: Sequence[Flaw]) -> None:
    if found:
        with st.expander(f"{many(len(found), 'remark')} on the input", expanded=_lost(found)):
            draw_flaws(f"remarks.{how}.{name}", flaw_rows(found), len(found))


SHOW = ":material/visibility:"


def draw_result(what: str, name: str, result: Any) -> None:
    """The result of that kind of work."""
    drawn: dict[str, Callable[[str, Any], None]] = {
        "add": added,
        "resume": _resumed,
        "chunk": _extended,
        "embed": _extended,
        "verify": _verified,
        "recall": _recalled,
        "export": _exported,
        "attach": attached,
        "aside": built,
        "refresh": refreshed,
        "label": labelled,
        "write": written,
        "generate": made,
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
        feedback.note(f"{many(report.vanished, 'stored document')} not in this source", what)
    if result.stay_reason:
        feedback.note("Queries and labels stay", result.stay_reason)
    with st.container(horizontal=True, vertical_alignment="center"):
        links_of(name, labelled=bool(result.labels))
        st.button("Show it", key=f"show.{how}.{name}", on_click=go, kwargs={"collection": name}, icon=SHOW)
    if result.flaws:
        total = len(result.flaws) - len(report.flaws) + report.flawed
        with st.expander(f"{many(total, 'remark')} on the input", expanded=not report.added):
            draw_flaws(f"report.{how}.{name}", flaw_rows(result.flaws), total)


def _resumed(name: str, result: LoadReport | IngestReport) -> None:
    if isinstance(result, IngestReport):
        _extended(name, result)
    else:
        added(name, result, "resumed")


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
        table.draw(f"verified.{name}", "Checks", columns, lines)


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


BEAT: Final = 0.6  # seconds between two looks at work under way


def draw(store: Store) -> None:
    """One panel for all of it. It looks again while something is under way, and the whole page when that has ended."""
    found = collections_work.begun(store)
    running = frozenset(doing.key for doing in found if not doing.job.ended)
    st.fragment(_panel, run_every=BEAT if running else None)(found, running, current())


def _panel(found: Sequence[CollectionJob], running: frozenset[Key], drawn: CollectionsState) -> None:
    """Drawn again by itself, and the whole page where that is another one now: the list, or what is selected."""
    if _place(current()) != _place(drawn) or any(doing.job.ended and doing.key in running for doing in found):
        st.rerun()
    for doing in found:
        if collections_work.put_away_already(doing):
            continue
        with st.container(border=True, key=_key(doing, "box")), feedback.draw_errors():
            _one(doing)


def _place(asked: CollectionsState) -> tuple[str, ...]:
    """What the page around it is drawn for."""
    return asked.collection, asked.add, asked.shown, asked.set


def _key(doing: CollectionJob, part: str) -> str:
    return f"work.{sha256(repr(doing.key).encode()).hexdigest()[:12]}.{part}"


def _one(doing: CollectionJob) -> None:
    job = doing.job
    if not job.ended:
        _under_way(doing)
        return
    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
        st.html(f'<p class="rb-work"><strong>{html.escape(job.title)}</strong> {_outcome(job)}</p>')
        st.button(
            "Close",
            key=_key(doing, "close"),
            type="tertiary",
            icon=":material/close:",
            on_click=collections_work.put_away,
            args=(doing,),
        )
    if job.stopped:
        st.html("<p>What was stored by then is whole, and stays: asked again, it goes on from there.</p>")
    elif isinstance(job.problem, Exception):
        draw_problem(job.problem)
    else:
        draw_result(doing.what, doing.name, job.result())
    if (job.stopped or job.problem) and doing.form is not None:
        st.button(
            "Change it and try again",
            key=_key(doing, "again"),
            icon=":material/edit:",
            on_click=_again,
            args=(doing,),
        )


def _outcome(job: Job[Any]) -> str:
    return "Stopped." if job.stopped else "It failed." if job.problem else "Done."


def _under_way(doing: CollectionJob) -> None:
    share, said = doing.job.told
    st.html(
        f'<p class="rb-work" role="status"><strong>{html.escape(doing.job.title)}</strong> '
        f"<span>{html.escape(said)}</span></p>"
    )
    st.progress(share)
    st.button(
        "Stop",
        key=_key(doing, "stop"),
        icon=":material/stop_circle:",
        on_click=doing.job.stop,
        disabled=doing.job.stopping,
    )


def _again(doing: CollectionJob) -> None:
    """The form as it was filled in."""
    if doing.form is not None:
        collections_work.put_away(doing)
        if isinstance(doing.form, attach.AttachRequest):
            go(**collections_attach.refill(doing.form))
        else:
            go(add=collections_add.refill(doing.form))
