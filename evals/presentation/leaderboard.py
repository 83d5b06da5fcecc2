"""The view model of a board: variants by metrics with verdicts, costs, and warnings.

The board computes. Tables, charts, reports and JSON documents are made of this model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from pydantic import Field

from evals.display import DisplayModel
from evals.evaluation.board import WELL_JUDGED, Board, BoardWarning, Score
from evals.measures import Metric
from evals.presentation import palette
from evals.presentation.text import counted, line
from evals.runs.types import Latency, Run
from evals.statistics.verdicts import Finding

SHALLOW = 20  # nobody labels deeper than this for every run
LONGEST_NAME, LONGEST_QUERY = 160, 300  # characters
MOST_GROUPS = 30


class MetricInfo(DisplayModel):
    """`top` are the best run and those that it is not better than, `front` the Pareto front against latency."""

    name: str
    formula: str
    top: tuple[str, ...] = ()
    front: tuple[str, ...] = ()


class LeaderboardRow(DisplayModel):
    """A run. `style` is the number of its colour and mark; `toml` is its variant, empty for another engine's run.

    A metric without a score is one of which no query could be weighed. `findings` are against the baseline, `doubts`
    sentences to read before a score is believed.
    """

    name: str
    style: int
    is_baseline: bool
    run_id: str
    variant_id: str | None
    scores: dict[str, Score]
    findings: dict[str, Finding]
    doubts: dict[str, tuple[str, ...]]
    latency: Latency | None
    megabytes: float | None
    failed: int
    toml: str
    notes: tuple[str, ...]


class QueryGroup(DisplayModel):
    """The means over the queries of one kind, or with one tag: `means[metric][name]`. `few`: too few for a tie."""

    by: str
    name: str
    queries: int
    few: bool
    means: dict[str, dict[str, float]]


class QueryInfo(DisplayModel):
    """A labelled query, its text cut to a length that fits a table."""

    text: str
    kind: str
    tags: tuple[str, ...]


class Leaderboard(DisplayModel):
    """`rows` are best first by the first metric; `names` in the order of the board.

    Of `group_count` kinds and tags, `groups` are those of most queries. `query_scores[metric][name][query]` and
    `query_info` are optional.
    """

    collection: str
    query_set: str
    split: str
    title: str
    headline: str
    rules: str
    tie: float
    queries: int
    scored_queries: int = Field(description="Those that the first metric can be computed for.")
    baseline: str
    names: tuple[str, ...]
    metrics: tuple[MetricInfo, ...]
    rows: tuple[LeaderboardRow, ...]
    groups: tuple[QueryGroup, ...]
    group_count: int
    warnings: tuple[BoardWarning, ...]
    query_scores: dict[str, dict[str, dict[str, float]]] = Field(default_factory=dict)
    query_info: dict[str, QueryInfo] = Field(default_factory=dict)

    def row(self, name: str) -> LeaderboardRow:
        return next(each for each in self.rows if each.name == name)

    def findings(self, metric: str) -> list[tuple[LeaderboardRow, Finding]]:
        """Each run against the baseline."""
        return [(row, row.findings[metric]) for row in self.rows if metric in row.findings]

    def document(self) -> dict[str, Any]:
        """What `--json` prints of it."""
        metrics = [metric.name for metric in self.metrics]
        runs = []
        for row in map(self.row, self.names):
            findings: dict[str, dict[str, Any] | None] = dict.fromkeys(metrics)
            for metric, found in row.findings.items():
                findings[metric] = {
                    "verdict": str(found.verdict),
                    "sentence": found.sentence,
                    "difference": found.difference,
                }
            runs.append({
                "name": row.name,
                "id": row.run_id,
                "variant": row.variant_id,
                "metrics": {metric: row.scores.get(metric) for metric in metrics},
                "findings": findings,
                "latency": row.latency,
                "failed": row.failed,
            })  # fmt: skip
        return {
            "collection": self.collection,
            "query_set": self.query_set,
            "split": self.split,
            "queries": self.queries,
            "baseline": self.baseline,
            "best": {metric.name: metric.top for metric in self.metrics},
            "runs": runs,
            "warnings": self.warnings,
        }

    def cell_values(self, *, by_kind: bool = True) -> dict[str, Any]:
        """What an evaluate cell stores beside its blocks. The keys are those of outputs that are kept already."""
        metrics = [metric.name for metric in self.metrics]
        lines = []
        for row in self.rows:
            values = {}
            for metric in metrics:
                score, finding = row.scores.get(metric), row.findings.get(metric)
                values[metric] = {
                    "mean": score.mean if score else None,
                    "low": score.low if score else None,
                    "high": score.high if score else None,
                    "judged": score.judged if score else None,
                    "verdict": str(finding.verdict) if finding else "",
                    "sentence": finding.sentence if finding else "",
                    "doubts": list(row.doubts.get(metric, ())),
                    "badge": score.badge if score else "",
                }
            lines.append({
                "name": row.name,
                "values": values,
                "p50": row.latency.p50 if row.latency else None,
                "p95": row.latency.p95 if row.latency else None,
                "megabytes": row.megabytes,
                "failed": row.failed,
            })  # fmt: skip
        return {
            "names": list(self.names),
            "metrics": metrics,  # PostgreSQL does not keep the order of keys
            "baseline": self.baseline,
            "best": {metric.name: list(metric.top) for metric in self.metrics},
            "scores": self.query_scores,
            "formulas": {metric.name: metric.formula for metric in self.metrics},
            "lines": lines,
            "queries": {query: info.model_dump(mode="json") for query, info in self.query_info.items()},
            "groups": [group.model_dump() for group in self.groups] if by_kind else [],
            "title": self.title,
            "rules": self.rules,
            "notes": [warned.message for warned in self.warnings],
        }


# -- from a board ------------------------------------------------------------------------------------------------------


def leaderboard(
    board: Board,
    styles: Mapping[str, int] | None = None,
    *,
    doubts: bool = True,
    query_scores: bool = False,
    most_groups: int = MOST_GROUPS,
) -> Leaderboard:
    """Without `doubts` no score is bounded, which takes time where few hits are judged."""
    subject = board.runs[0].subject
    metrics = tuple(
        MetricInfo(
            name=metric,
            formula=Metric.parse(metric).explanation,
            top=board.best(metric) if board.cells(metric) else (),
            front=board.front(metric) if board.cells(metric) else (),
        )
        for metric in board.metrics
    )
    groups = tuple(_groups(board))
    styles = styles or palette.styles(board.names)
    means = {name: score.mean for name, score in board.cells(board.metrics[0]).items()}
    ordered = sorted(board.runs, key=lambda run: -means.get(run.name, 0.0))
    rows = tuple(_row(board, run, styles[run.name], doubts=doubts) for run in ordered)
    return Leaderboard(
        collection=subject.collection,
        query_set=subject.query_set,
        split=subject.split,
        title=line(f"{subject.collection}, {subject.split}", LONGEST_NAME),
        headline=_headline(board, metrics[0], rows),
        rules=_rules(board),
        tie=board.rules.tie,
        queries=len(board.split.queries),
        scored_queries=len(board.queries(board.metrics[0])),
        baseline=board.baseline,
        names=board.names,
        metrics=metrics,
        rows=rows,
        groups=groups[:most_groups],
        group_count=len(groups),
        warnings=board.warnings,
        query_scores={metric: {name: board.of(name, metric) for name in board.names} for metric in board.metrics}
        if query_scores
        else {},
        query_info={
            query.id: QueryInfo(text=line(query.text, LONGEST_QUERY), kind=query.kind, tags=tuple(query.tags))
            for query in board.split.queries.values()
        }
        if query_scores
        else {},
    )


def _row(board: Board, run: Run, style: int, *, doubts: bool) -> LeaderboardRow:
    scores, findings, doubted = {}, {}, {}
    for metric in board.metrics:
        score = board.cells(metric).get(run.name)
        if score is None:
            continue
        scores[metric] = score
        if (finding := board.finding(metric, run.name)) is not None:
            findings[metric] = finding
        if doubts and (sentences := tuple(_doubts(board, run, metric, score.judged))):
            doubted[metric] = sentences
    return LeaderboardRow(
        name=run.name,
        style=style,
        is_baseline=run.name == board.baseline,
        run_id=run.id,
        variant_id=run.variant.id if run.variant else None,
        scores=scores,
        findings=findings,
        doubts=doubted,
        latency=run.latency,
        megabytes=run.index_bytes / 1e6 if run.index_bytes else None,
        failed=len(run.failures),
        toml=run.variant.to_toml() if run.variant else "",
        notes=tuple(run.notes),
    )


def _doubts(board: Board, run: Run, metric: str, judged: float | None) -> Iterator[str]:
    """The warnings that concern this very score."""
    cutoff, scored = Metric.parse(metric).cutoff, board.scored_run(run, metric)
    if run.variant and run.looks_beyond(metric):
        seen = f"a deep run, asked for {scored.depth} hits" if scored.depth else "the candidates behind them"
        yield f"It ships {run.variant.top_k} hits, and the metric counts {cutoff}: this is of {seen}."
    elif scored.depth:
        yield f"It is of a deep run, asked for {scored.depth} hits."
    if run.failures:
        yield f"{counted(len(run.failures), 'query', 'queries')} failed and score 0."
    if judged is not None and judged < WELL_JUDGED and cutoff is not None and cutoff <= SHALLOW:
        low, high = board.bounds(run.name, metric)
        yield f"Only {judged:.0%} of the hits are judged: the score lies between {low:.3f} and {high:.3f}."


def _groups(board: Board) -> Iterator[QueryGroup]:
    """Kinds, then tags, largest first; a lone kind is everything again, and left out."""
    scored = {metric: (board.queries(metric), board.weights(metric), board.values(metric)) for metric in board.metrics}
    for by, groups in board.groups.items():
        shown = []
        for name, ids in groups.items():
            inside, means = set(ids), {}
            for metric, (queries, weights, values) in scored.items():
                chosen = np.array([query in inside for query in queries], dtype=bool)
                if weights[chosen].sum() > 0:
                    averages = np.average(values[:, chosen], axis=1, weights=weights[chosen])
                    means[metric] = dict(zip(board.names, averages.tolist(), strict=True))
            if means:
                size = len(inside.intersection(scored[board.metrics[0]][0]))
                shown.append(QueryGroup(by=by, name=name, queries=size, few=size < board.rules.fewest, means=means))
        if len(shown) > 1 or by == "tag":
            yield from sorted(shown, key=lambda group: (-group.queries, group.name))


def _headline(board: Board, metric: MetricInfo, rows: Sequence[LeaderboardRow]) -> str:
    """The result in a sentence or two."""
    if not metric.top:
        beyond = any(run.looks_beyond(metric.name) for run in board.runs)
        why = f"{metric.name} counts more hits than ship" if beyond else "All queries weigh nothing"
        return f"{why}, so nothing can be said of which is better."
    best, *others = metric.top
    row = next(each for each in rows if each.name == best)
    score, finding = row.scores[metric.name], row.findings.get(metric.name)
    interval = f", {board.rules.level:.0%} interval {score.interval}" if score.low is not None else ""
    start = f"{best} has the highest {metric.name}: {score.text}{interval}."
    if len(rows) == 1:
        return start
    more = f" and {len(others) - 5} more" if len(others) > 5 else ""
    rest = f" Too close to it to tell: {'; '.join(others[:5])}{more}." if others else " It is better than every other."
    return f"{start}{rest}{'' if finding is None or best == board.baseline else f' {finding.sentence}'}"


def _rules(board: Board) -> str:
    rules = board.rules
    return (
        f"Intervals are {rules.level:.0%}. Verdicts are against {board.baseline}, all candidates looked at together: "
        "better or worse where the interval of the difference leaves 0 out, by draws of signs of which the largest "
        f"difference counts ({rules.samples:,} draws); tied where all of it lies within {rules.tie:g}. "
        f"Seed {rules.seed}."
    )
