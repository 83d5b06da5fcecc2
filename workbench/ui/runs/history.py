"""The kept runs as a table with filters: newest first, one opens at a click."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC

import streamlit as st

from evals.presentation.run_history import history_row
from evals.runs.run_store import SHOWN, RunSummary
from workbench.behind.runs import asked as runs_asked
from workbench.behind.runs.asked import PAGE, RunsState
from workbench.ui import address, textgrid
from workbench.ui.textgrid import Column, Filter, Line

NAME = "runs"
EVERY = ""
NONE = (
    '<div class="rb-welcome"><h2>There is no run yet</h2><p>A run is one variant over labelled queries, kept with '
    "everything that it takes to repeat it: scores with intervals, rankings, latencies, surroundings. Evaluate two "
    "variants, above or in a terminal, and hold them against each other here:</p></div>"
)


def draw(runs: Sequence[RunSummary], asked: RunsState, opened: str) -> None:
    """All that the filters leave. `opened` is the id of the run that is open."""
    if not runs:
        st.html(NONE)
        st.code("rankbook eval handbook bm25 vector hybrid-retriever", language=None)
        return
    metrics = runs_asked.metrics_of(runs)
    metric = asked.metric if asked.metric in metrics else next(iter(metrics), "")
    _filters(runs, asked, metrics, metric)
    left = [run for run in runs if _fits(run, asked)]
    found = runs_asked.found(left, asked.find)
    pages = max(1, -(-len(found) // PAGE))
    page = min(asked.number, pages)
    rows = [_line(run, metric) for run in found[(page - 1) * PAGE : page * PAGE]]
    told = f"{len(found):,} of {len(runs):,} runs" if len(found) < len(runs) else f"{len(runs):,} runs"
    textgrid.draw(
        "runs.history",
        "Kept runs",
        _columns(metric),
        rows,
        selected=opened,
        opened=lambda identity: address.go(run=identity, beside="", view="", new=""),
        filtered=Filter(asked.find, "Find by name, pin, pipeline or id", told, page, pages),
        found=lambda words: address.go(find=words, page=""),
        turned=lambda number: address.go(page=number),
        empty="No run fits these filters.",
    )


def _filters(runs: Sequence[RunSummary], asked: RunsState, metrics: Sequence[str], metric: str) -> None:
    columns = st.columns(3)
    for column, (label, field, options, chosen) in zip(
        columns,
        (
            ("Collection", "collection", sorted({run.subject.collection for run in runs}), asked.collection),
            ("Labelled queries", "split", sorted({run.subject.split for run in runs}), asked.split),
            ("Score shown", "metric", list(metrics), metric),
        ),
        strict=True,
    ):
        with column:
            address.chooser(NAME, label, field, options, chosen, empty="All", clears=("page",))


def _fits(run: RunSummary, asked: RunsState) -> bool:
    return asked.collection in (EVERY, run.subject.collection) and asked.split in (EVERY, run.subject.split)


def _columns(metric: str) -> list[Column]:
    return [
        Column("Name"),
        Column("Pipeline", "What the variant does, in order", long=True, wide=True),
        Column("Over", "The collection and its labelled queries"),
        Column(metric or "Score", "Its mean, with its 95% interval", right=True),
        Column("p95 ms", "Of a query that is asked alone", right=True, wide=True),
        Column("Failed", "Queries that failed, of all: they score 0", right=True, wide=True),
        Column("Made", "UTC", right=True, wide=True),
        Column("Pinned", "Baselines are never cleared away", wide=True),
    ]


def _line(run: RunSummary, metric: str) -> Line:
    latency = run.latency
    return Line(
        run.id,
        (
            f"{run.name} (deep)" if run.depth else run.name,
            runs_asked.pipeline(run),
            f"{run.subject.collection}, {run.subject.split}",
            history_row(run).score(metric),
            f"{latency.p95:.1f}" if latency else "",
            f"{run.failed:,} of {run.queries:,}",
            f"{run.made_at.astimezone(UTC):%Y-%m-%d %H:%M}",
            ", ".join(run.pins),
        ),
        hint=f"run {run.id[:SHOWN]}",
    )
