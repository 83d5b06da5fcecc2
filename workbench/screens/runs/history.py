"""The kept runs as a table with filters: newest first, one opens at a click."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC

import streamlit as st

from evals.presentation.run_history import history_row
from evals.runs.run_store import SHOWN, RunSummary
from workbench.components import table
from workbench.components.table import DataColumn, DataFilter, DataRow, DataTable
from workbench.screens.runs.state import PAGE, RunsState, address
from workbench.services import runs as services_runs

EVERY = ""
NONE = (
    '<div class="rb-welcome"><h2>There is no run yet</h2><p>A run is one variant over labelled queries, kept with '
    "everything that it takes to repeat it: scores with intervals, rankings, latencies, surroundings. Evaluate two "
    "variants, above or in a terminal, and hold them against each other here:</p></div>"
)


def draw(runs: Sequence[RunSummary], state: RunsState, opened: str) -> None:
    """All that the filters leave. `opened` is the id of the run that is open."""
    if not runs:
        st.html(NONE)
        st.code("rankbook eval handbook bm25 vector hybrid-retriever", language=None)
        return
    metrics = services_runs.metrics_of(runs)
    metric = state.metric if state.metric in metrics else next(iter(metrics), "")
    _filters(runs, state, metrics, metric)
    left = [run for run in runs if _fits(run, state)]
    found = services_runs.matching(left, state.find)
    pages = max(1, -(-len(found) // PAGE))
    page = min(state.number, pages)
    rows = [_line(run, metric) for run in found[(page - 1) * PAGE : page * PAGE]]
    told = f"{len(found):,} of {len(runs):,} runs" if len(found) < len(runs) else f"{len(runs):,} runs"
    table.draw(
        "runs.history",
        DataTable(
            "Kept runs",
            _columns(metric),
            rows,
            selected=opened,
            empty="No run fits these filters.",
            filter=DataFilter(state.find, "Find by name, pin, pipeline or id", told, page, pages),
        ),
        on_open=lambda identity: address.go(run=identity, beside="", view="", new=""),
        on_find=lambda words: address.go(find=words, page=""),
        on_page=lambda number: address.go(page=number),
    )


def _filters(runs: Sequence[RunSummary], state: RunsState, metrics: Sequence[str], metric: str) -> None:
    columns = st.columns(3)
    for column, (label, field, options, chosen) in zip(
        columns,
        (
            ("Collection", "collection", sorted({run.subject.collection for run in runs}), state.collection),
            ("Labelled queries", "split", sorted({run.subject.split for run in runs}), state.split),
            ("Score shown", "metric", list(metrics), metric),
        ),
        strict=True,
    ):
        with column:
            address.select(label, field, options, chosen, empty="All", clears=("page",))


def _fits(run: RunSummary, state: RunsState) -> bool:
    return state.collection in (EVERY, run.subject.collection) and state.split in (EVERY, run.subject.split)


def _columns(metric: str) -> list[DataColumn]:
    return [
        DataColumn("Name"),
        DataColumn("Pipeline", "What the variant does, in order", long=True, wide=True),
        DataColumn("Over", "The collection and its labelled queries"),
        DataColumn(metric or "Score", "Its mean, with its 95% interval", right=True),
        DataColumn("p95 ms", "Of a query that is asked alone", right=True, wide=True),
        DataColumn("Failed", "Queries that failed, of all: they score 0", right=True, wide=True),
        DataColumn("Made", "UTC", right=True, wide=True),
        DataColumn("Pinned", "Baselines are never cleared away", wide=True),
    ]


def _line(run: RunSummary, metric: str) -> DataRow:
    latency = run.latency
    return DataRow(
        run.id,
        (
            f"{run.name} (deep)" if run.depth else run.name,
            services_runs.pipeline(run),
            f"{run.subject.collection}, {run.subject.split}",
            history_row(run).score(metric),
            f"{latency.p95:.1f}" if latency else "",
            f"{run.failed:,} of {run.queries:,}",
            f"{run.made_at.astimezone(UTC):%Y-%m-%d %H:%M}",
            ", ".join(run.pins),
        ),
        hint=f"run {run.id[:SHOWN]}",
    )
