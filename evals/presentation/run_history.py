"""The view model of kept runs in a list: their data, scores, costs and pins."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from evals.display import DisplayModel
from evals.measures import METRICS
from evals.runs.run_store import RunSummary
from evals.runs.types import Latency, RunSubject, looks_beyond

ID_LETTERS = 12


def subject_facts(subject: RunSubject) -> dict[str, Any]:
    return {
        "collection": subject.collection,
        "version": subject.version,
        "content": subject.content,
        "query_set": subject.query_set,
        "queries_and_labels": subject.digest.hex(),
        "split": subject.split,
    }


class RunHistoryRow(DisplayModel):
    """A kept run. `names` are all that it was evaluated under; `badges` mark scores of more results than ship.

    `variant` is empty for a run of another engine. `depth` is the number of results that a deep run asks for, else 0.
    """

    id: str
    name: str
    names: tuple[str, ...]
    collection: str
    version: int
    content: str
    query_set: str
    queries_and_labels: str
    split: str
    depth: int
    queries: int
    failed: int
    made_at: datetime
    latency: Latency | None
    variant: dict[str, Any] | None
    scores: dict[str, float]
    intervals: dict[str, tuple[float | None, float | None]]
    badges: dict[str, str]
    pins: tuple[str, ...]

    @property
    def short_id(self) -> str:
        return self.id[:ID_LETTERS]

    @property
    def other_names(self) -> str:
        return "; ".join(name for name in self.names if name != self.name)

    def score(self, metric: str) -> str:
        """0.512 [0.48, 0.55], with its badge; empty where the run has no such score."""
        if metric not in self.scores:
            return ""
        low, high = self.intervals.get(metric, (None, None))
        interval = "" if low is None or high is None else f"[{low:.2f}, {high:.2f}]"
        return " ".join(filter(None, (f"{self.scores[metric]:.3f}", interval, self.badges.get(metric, ""))))

    def document(self) -> dict[str, Any]:
        """What `--json` prints of it."""
        return {name: value for name, value in self if name != "badges"}


class RunHistory(DisplayModel):
    """`metrics` are those that runs have scores of, the usual ones first."""

    rows: tuple[RunHistoryRow, ...]
    metrics: tuple[str, ...]


def run_history(runs: Iterable[RunSummary]) -> RunHistory:
    rows = tuple(map(history_row, runs))
    metrics = dict.fromkeys(metric for row in rows for metric in row.scores)
    ordered = sorted(metrics, key=lambda each: (METRICS.index(each) if each in METRICS else len(METRICS), each))
    return RunHistory(rows=rows, metrics=tuple(ordered))


def history_row(run: RunSummary) -> RunHistoryRow:
    # Beside a mean stand its interval and the scores by query, under names with a blank.
    scores = {
        name: float(value) for name, value in run.scores.items() if " " not in name and isinstance(value, int | float)
    }
    return RunHistoryRow(
        id=run.id,
        name=run.name,
        names=tuple(sorted(run.names)),
        **subject_facts(run.subject),
        depth=run.depth,
        queries=run.queries,
        failed=run.failed,
        made_at=run.made_at,
        latency=run.latency,
        variant=run.variant.to_data() if run.variant else None,
        scores=scores,
        intervals={
            name.removesuffix(" interval"): value for name, value in run.scores.items() if name.endswith(" interval")
        },
        badges={
            metric: "deep" if run.depth else "beyond"
            for metric in scores
            if run.depth or looks_beyond(run.variant, metric)
        },
        pins=run.pins,
    )
