"""Runs over one split, scored side by side: every metric with its interval, coverage, verdict and what it cost.

Owns the table that reports, commands and screens show; what is slow in it is made when it is asked for, once. It must
not run anything: runs come in as they are, foreign ones as equals.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from core.errors import InputError, SpecError, UnknownName
from evals import coverage, metrics, spans
from evals.comparison import Comparison, Pairs, all_pairs, compare
from evals.lab_tables import Shown, Table, board_table
from evals.metrics import MEASURES, Metric, Scores
from evals.runs import Run
from evals.significance import intervals
from evals.splits import Grades, Split
from evals.verdicts import Finding, Rules

if TYPE_CHECKING:
    import pandas as pd

METRICS = ("ndcg@10", "recall@100", "mrr@10")
DEFAULT_RULES = Rules()
WELL_JUDGED = 0.95  # below this share of judged hits, a difference may be one of labels
DEEPEST_JUDGED = 20  # cut-off to which labels are expected


@dataclass(frozen=True, slots=True)
class Cell:
    """A run's mean of a metric with its interval; `judged` is the share of the counted hits that have a label.

    None: too few queries for an interval, or a metric that no labels of items belong to.
    """

    mean: float
    low: float | None
    high: float | None
    judged: float | None


@dataclass(frozen=True, slots=True)
class Warned:
    """Something to know before the scores are believed."""

    message: str
    queries: tuple[str, ...] = ()


class Board(Shown):
    """The table. Runs must be over the same subject; equal names are told apart by a number.

    `chunk_labels` are for metrics at the level of chunks: by variant, as `evals.chunk_labels` finds them.
    """

    def __init__(
        self,
        split: Split,
        runs: Sequence[Run],
        wanted: Sequence[Metric | str] = METRICS,
        *,
        baseline: str | None = None,
        rules: Rules = DEFAULT_RULES,
        flaws: Sequence[Mapping[str, Any]] = (),
        chunk_labels: Mapping[str, Grades] | None = None,
    ) -> None:
        _refuse_others(runs)
        self.split, self.rules, self.flaws = split, rules, tuple(flaws)
        self.runs = _told_apart(runs)
        self.names = tuple(run.name for run in self.runs)
        self.metrics = tuple(dict.fromkeys(str(Metric.of(each)) for each in wanted))
        self.baseline = self.names[0] if baseline is None else baseline
        if self.baseline not in self.names:
            raise UnknownName("run to compare with", self.baseline, self.names)
        self._scores = [_scored(split, run, self.metrics, chunk_labels or {}) for run in self.runs]
        self._pairs: dict[str, Pairs] = {}
        self._cells: dict[str, dict[str, Cell]] = {}

    # -- numbers -----------------------------------------------------------------------------------------------------

    def queries(self, metric: str) -> tuple[str, ...]:
        """The queries that the metric can be told of."""
        return self._scores[0][metric].queries

    def values(self, metric: str) -> NDArray[np.float64]:
        """[runs, queries], in the order of `names` and `queries(metric)`."""
        if metric not in self.metrics:
            raise UnknownName("metric of this table", metric, self.metrics)
        return np.stack([scores[metric].row(metric) for scores in self._scores])

    def weights(self, metric: str) -> NDArray[np.float64]:
        return np.array([self.split.queries[query].weight for query in self.queries(metric)])

    def of(self, name: str, metric: str) -> dict[str, float]:
        """One run's scores by query."""
        return self._scores[self._place(name)][metric].of(metric)

    def run(self, name: str) -> Run:
        return self.runs[self._place(name)]

    def cells(self, metric: str) -> dict[str, Cell]:
        """Each run's mean with its interval."""
        if metric not in self._cells:
            self._cells[metric] = self._made(metric, self.queries(metric))
        return self._cells[metric]

    def by(self, metric: str, what: str = "kind") -> dict[str, dict[str, Cell]]:
        """The same for the queries of each kind, or of each tag: group, then run."""
        groups = self.groups[what]
        scored = set(self.queries(metric))
        present = {name: [query for query in ids if query in scored] for name, ids in groups.items()}
        return {name: self._made(metric, ids) for name, ids in present.items() if ids}

    @property
    def groups(self) -> dict[str, dict[str, tuple[str, ...]]]:
        return {"kind": self.split.kinds, "tag": self.split.tags}

    def _made(self, metric: str, ids: Sequence[str]) -> dict[str, Cell]:
        place = {query: at for at, query in enumerate(self.queries(metric))}
        chosen = [place[query] for query in ids]
        rows, weights = self.values(metric)[:, chosen], self.weights(metric)[chosen]
        if not weights.sum() > 0:
            return {}
        low, high = intervals(rows, weights, samples=self.rules.samples, level=self.rules.level, seed=self.rules.seed)
        means = np.average(rows, axis=1, weights=weights).tolist()
        judged = [self._judged(run, metric, ids) for run in self.runs]
        return {
            name: Cell(means[at], _known(low[at]), _known(high[at]), judged[at]) for at, name in enumerate(self.names)
        }

    def _judged(self, run: Run, metric: str, ids: Sequence[str]) -> float | None:
        parsed = Metric.parse(metric)
        if parsed.level == "units" or not MEASURES[parsed.measure].function:
            return None
        found = coverage.judged(self.split.grades, run.rankings, parsed.cutoff)
        return metrics.mean({query: found[query] for query in ids})

    # -- what can be concluded ---------------------------------------------------------------------------------------

    def pairs(self, metric: str) -> Pairs:
        """Every pair of runs, corrected for all the others."""
        if metric not in self._pairs:
            self._pairs[metric] = all_pairs(self.names, self.values(metric), self.weights(metric), rules=self.rules)
        return self._pairs[metric]

    def finding(self, metric: str, name: str) -> Finding | None:
        """What is to be said of a run against the baseline; None of the baseline itself."""
        return None if name == self.baseline else self.pairs(metric).of(name, self.baseline)

    def best(self, metric: str) -> tuple[str, ...]:
        """The runs that the best is not better than, itself first."""
        return self.pairs(metric).best()

    def compare(self, name: str, other: str, metric: str) -> Comparison:
        """Two runs in every detail, by query and by group."""
        rows = self.values(metric)[[self._place(name), self._place(other)]]
        return compare(
            (name, other),
            rows,
            self.queries(metric),
            self.weights(metric),
            groups=self.groups,
            rules=self.rules,
        )

    def front(self, metric: str) -> tuple[str, ...]:
        """The Pareto front of quality against latency: runs that none is both better and quicker than."""
        cells = self.cells(metric)
        cost = {run.name: run.latency.p50 for run in self.runs if run.latency}
        front: list[str] = []
        for name in sorted(cost, key=lambda each: (cost[each], -cells[each].mean, each)):
            if not front or cells[name].mean > cells[front[-1]].mean:
                front.append(name)
        return tuple(front)

    def bounds(self, name: str, metric: str) -> tuple[float, float]:
        """The mean with every unjudged hit not relevant, and the most that it could be."""
        found = coverage.bounds(self.split.grades, self.run(name).rankings, [metric])
        weights = {query: self.split.queries[query].weight for query in self.queries(metric)}
        return found.low.means(weights)[metric], found.high.means(weights)[metric]

    def condensed(self, metric: str) -> dict[str, float]:
        """Each run's mean over the judged hits alone."""
        weights = {query: self.split.queries[query].weight for query in self.queries(metric)}
        grades = self.split.grades
        return {
            run.name: metrics.evaluate(grades, coverage.condensed(grades, run.rankings), [metric]).means(weights)[
                metric
            ]
            for run in self.runs
        }

    # -- what to know ------------------------------------------------------------------------------------------------

    @property
    def warnings(self) -> tuple[Warned, ...]:
        """What casts doubt on the scores: failures, holes in the labels, what import found wrong with these queries."""
        return (*self._failed(), *self._shallow(), *self._unjudged(), *self._imported())

    def _failed(self) -> list[Warned]:
        return [
            Warned(
                f"{run.name}: {len(run.failures)} of {len(self.split.queries)} queries failed and score 0; the first: "
                f"{next(iter(run.failures.values()))}",
                tuple(run.failures),
            )
            for run in self.runs
            if run.failures
        ]

    def _shallow(self) -> list[Warned]:
        """Metrics that look deeper than a run was asked for."""
        warned = []
        for metric in self.metrics:
            cutoff = Metric.parse(metric).cutoff
            less = [run.name for run in self.runs if cutoff and run.variant and 0 < _depth(run) < cutoff]
            if less:
                message = f"{metric} counts {cutoff} hits, and fewer were asked for of: {', '.join(less)}."
                warned.append(Warned(message))
        return warned

    def _unjudged(self) -> list[Warned]:
        """The metric with the fewest labels where it counts; of the first hundred hits nobody labels all."""
        worst, run, least = "", "", WELL_JUDGED
        for metric in self.metrics:
            if (Metric.parse(metric).cutoff or math.inf) > DEEPEST_JUDGED:
                continue
            for name, cell in self.cells(metric).items():
                if cell.judged is not None and cell.judged < least:
                    worst, run, least = metric, name, cell.judged
        if not worst:
            return []
        message = (
            f"Of the hits that {worst} counts, {100 * least:.0f}% are judged for {run}; the others count as not "
            "relevant. Judge the pool before small differences are believed."
        )
        return [Warned(message)]

    def _imported(self) -> list[Warned]:
        """Flaws of queries that are scored here; those of documents, once in all."""
        about = [flaw for flaw in self.flaws if flaw.get("subject") in self.split.queries]
        by_kind: dict[str, list[Mapping[str, Any]]] = {}
        for flaw in about:
            by_kind.setdefault(str(flaw.get("of", "input")), []).append(flaw)
        return [
            Warned(
                f"Of these queries import says ({kind}, {len(found)} in all): {found[0]['message']}",
                tuple(dict.fromkeys(str(flaw["subject"]) for flaw in found)),
            )
            for kind, found in by_kind.items()
        ]

    # -- what is shown -----------------------------------------------------------------------------------------------

    def tables(self) -> tuple[Table, ...]:
        return (board_table(self),)

    def frame(self) -> pd.DataFrame:
        """One row a run: mean, interval and verdict of every metric, and latency."""
        import pandas as pd

        return pd.DataFrame([self._plain(run) for run in self.runs]).set_index("variant")

    def _plain(self, run: Run) -> dict[str, Any]:
        row: dict[str, Any] = {"variant": run.name}
        for metric in self.metrics:
            cell, finding = self.cells(metric)[run.name], self.finding(metric, run.name)
            row |= {metric: cell.mean, f"{metric} low": cell.low, f"{metric} high": cell.high}
            row |= {f"{metric} judged": cell.judged, f"{metric} verdict": str(finding.verdict) if finding else ""}
        latency = run.latency
        row |= {"p50 ms": latency.p50 if latency else None, "p95 ms": latency.p95 if latency else None}
        return row | {"failed": len(run.failures), "index MB": _megabytes(run)}

    def _place(self, name: str) -> int:
        if name not in self.names:
            raise UnknownName("run of this table", name, self.names)
        return self.names.index(name)


def _scored(split: Split, run: Run, wanted: Sequence[str], chunk_labels: Mapping[str, Grades]) -> dict[str, Scores]:
    """The run's scores by metric: over labels of items, over labels of chunks, or over spans."""
    parsed = [Metric.parse(each) for each in wanted]
    over_spans = [str(each) for each in parsed if not MEASURES[each.measure].function]
    over_chunks = [str(each) for each in parsed if each.level == "units"]
    over_labels = [each for each in wanted if each not in over_spans and each not in over_chunks]
    grades = {query: split.grades[query] for query in split.queries if query in split.grades}
    answers = {query: split.spans[query] for query in split.queries if query in split.spans}
    found: dict[str, Scores] = {}
    if over_labels:
        scores = metrics.evaluate(grades, run.rankings, over_labels)
        if not scores.queries:
            raise InputError(f"No query of the split {split.name!r} has a relevant item, so nothing can be scored.")
        found |= dict.fromkeys(over_labels, scores)
    for names in filter(None, (over_spans, over_chunks)):
        if not any(span.grade > 0 for spans_of in answers.values() for span in spans_of):
            raise InputError(f"No query of the split {split.name!r} has an answer span: {names[0]} needs them.")
    if over_spans:
        found |= dict.fromkeys(over_spans, spans.evaluate(answers, run.rankings, over_spans))
    if over_chunks:
        found |= dict.fromkeys(over_chunks, _chunk_scores(answers, run, over_chunks, chunk_labels))
    return found


def _chunk_scores(
    answers: spans.Answers, run: Run, wanted: Sequence[str], chunk_labels: Mapping[str, Grades]
) -> Scores:
    """Over every query with an answer, so that chunk sets can be compared: one that no chunk answers scores 0."""
    labels = chunk_labels.get(run.variant.id) if run.variant else None
    if labels is None:
        raise InputError(
            f"{wanted[0]} scores chunks, and {run.name!r} ranks none of a chunk set here. Rank the chunks of a chunk "
            "set, or score items: leave out 'chunk_'."
        )
    return metrics.evaluate(labels, run.rankings, wanted, level="units").over(
        sorted(query for query, given in answers.items() if any(span.grade > 0 for span in given))
    )


def _refuse_others(runs: Sequence[Run]) -> None:
    """Runs over other data are not compared: a difference would say nothing about the variants."""
    if not runs:
        raise InputError("There is no run to show. Evaluate a variant first.")
    first = runs[0].subject
    for run in runs[1:]:
        if run.subject != first:
            raise SpecError(f"{run.name!r} and {runs[0].name!r} are not over the same data: {_unlike(run, runs[0])}.")


def _unlike(run: Run, other: Run) -> str:
    """In what their subjects differ."""
    mine, theirs = run.subject, other.subject
    differences = [
        (mine.collection, theirs.collection, "collection {} and {}"),
        (mine.split, theirs.split, "split {} and {}"),
        (mine.query_set, theirs.query_set, "query set {} and {}"),
        (mine.digest.hex()[:8], theirs.digest.hex()[:8], "the queries or labels changed ({} and {})"),
        (mine.version, theirs.version, "the collection changed (version {} and {})"),
        (mine.content[:8], theirs.content[:8], "the collection's content changed ({} and {})"),
    ]
    told = [says.format(one, other) for one, other, says in differences if one != other]
    return f"{'; '.join(told)}. Evaluate both anew"


def _told_apart(runs: Sequence[Run]) -> tuple[Run, ...]:
    seen: Counter[str] = Counter()
    named = []
    for run in runs:
        seen[run.name] += 1
        named.append(run if seen[run.name] == 1 else replace(run, name=f"{run.name} ({seen[run.name]})"))
    return tuple(named)


def _depth(run: Run) -> int:
    return run.depth or (run.variant.top_k if run.variant else 0)


def _megabytes(run: Run) -> float | None:
    sizes: Mapping[str, int] = run.environment.get("indexes", {})
    return sum(sizes.values()) / 1e6 if sizes else None


def _known(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
