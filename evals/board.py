"""Runs over one split, scored side by side: every metric with its interval, coverage, verdict and what it cost.

Owns the table that reports, commands and screens show; what is slow in it is made when it is asked for, once. It must
not run anything: runs come in as they are, foreign ones as equals.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from core.errors import InputError, SpecError, UnknownName
from evals import coverage, metrics
from evals.doubts import Warned, doubts
from evals.lab.tables import Shown, Table, board_table
from evals.metric_names import MEASURES, Metric
from evals.metrics import Scores
from evals.runs import Place, Run, not_comparable, unlike, way_out
from evals.scored import grades_of, scored
from evals.splits import Grades, Split
from evals.statistics.comparison import Comparison, Pairs, all_pairs, compare, findings
from evals.statistics.mean_intervals import mean_intervals
from evals.statistics.significance import finite
from evals.statistics.verdicts import Finding, Rules, Verdict
from evals.weights import crossfit

if TYPE_CHECKING:
    import pandas as pd

METRICS = ("ndcg@10", "recall@10", "mrr@10")
DEFAULT_RULES, ALONE = Rules(), Place()
FEWEST_TO_CHOOSE = 3  # runs: with fewer, choosing the best flatters it little
FOLDS, REPEATS = 5, 10  # of choosing without the queries that are scored
LEAST_TOLD = 0.01  # of the queries without a result, where it is said beside a score


@dataclass(frozen=True, slots=True)
class Cell:
    """A run's mean of a metric with its interval; `judged` is the share of the counted hits that have a label.

    None: too few queries for an interval, or a metric that no labels of items belong to. `beyond` says that the metric
    counts more results than ship, `deep` that they are a deep run's. `empty` is the share of the queries for which
    nothing was found.
    """

    mean: float
    low: float | None
    high: float | None
    judged: float | None
    beyond: bool = False
    deep: bool = False
    empty: float = 0.0

    @property
    def badge(self) -> str:
        """What is said beside a score that is not one of what ships, or where often nothing was found."""
        kind = "deep" if self.deep else "beyond" if self.beyond else ""
        empty = f"nothing for {self.empty:.0%}" if self.empty >= LEAST_TOLD else ""
        return ", ".join(filter(None, (kind, empty)))


class Board(Shown):
    """The table. Runs must be over the same subject; equal names are told apart by a number.

    A metric that looks beyond what a variant ships is told of its deep run, where `deep` has one under the run's id,
    else of the candidates that the run has behind what ships. It gets no verdict, no star and no place on a front.
    `chunk_labels` are for metrics at the level of chunks: by variant, as `evals.chunk_labels` finds them. `place` has
    the candidates that are not in the table: verdicts, intervals and stars are made with them in view.
    """

    def __init__(  # noqa: PLR0913 - an option each
        self,
        split: Split,
        runs: Sequence[Run],
        wanted: Sequence[Metric | str] = METRICS,
        *,
        baseline: str | None = None,
        rules: Rules = DEFAULT_RULES,
        flaws: Sequence[Mapping[str, Any]] = (),
        chunk_labels: Mapping[str, Grades] | None = None,
        deep: Mapping[str, Run] | None = None,
        place: Place = ALONE,
    ) -> None:
        _refuse_others(runs)
        self.place = place
        self.split, self.rules, self.flaws = split, rules, tuple(flaws)
        self.runs = _told_apart(runs)
        self.names = tuple(run.name for run in self.runs)
        self.metrics = tuple(dict.fromkeys(str(Metric.of(each)) for each in wanted))
        self.baseline = self.names[0] if baseline is None else baseline
        if self.baseline not in self.names:
            raise UnknownName("run to compare with", self.baseline, self.names)
        self._grades = grades_of(split)
        self._deep = deep or {}
        labels = metrics.Labels(self._grades)
        self._scores = [self._scored(run, chunk_labels or {}, labels) for run in self.runs]
        self._pairs: dict[str, Pairs] = {}
        self._findings: dict[tuple[str, str], dict[str, Finding]] = {}
        self._cells: dict[str, dict[str, Cell]] = {}
        self._coverage: dict[tuple[str, int | None], dict[str, float]] = {}
        self._weights = {query.id: query.weight for query in split.queries.values()}

    def _scored(self, run: Run, chunk_labels: Mapping[str, Grades], labels: metrics.Labels) -> dict[str, Scores]:
        found: dict[str, Scores] = {}
        for asked in dict.fromkeys(self.told_of(run, metric).depth for metric in self.metrics):
            of = [metric for metric in self.metrics if self.told_of(run, metric).depth == asked]
            found |= scored(self.split, self.told_of(run, of[0]), of, chunk_labels, labels)
        return found

    # -- what is shipped, and what is not ----------------------------------------------------------------------------

    def told_of(self, run: Run, metric: str) -> Run:
        """The run that a run's score by this metric is of: its deep one, for what looks beyond what ships."""
        return self._deep.get(run.id, run) if run.looks_beyond(metric) else run

    def compared(self, metric: str) -> tuple[str, ...]:
        """The runs that can be compared by the metric: all of what ships, or all as deep as the baseline is."""
        baseline = self.run(self.baseline)
        asked = [run.depth for run in self.runs if run.variant is not None]
        depth = baseline.depth if baseline.variant is not None else min(asked, default=0)
        return tuple(
            run.name
            for run in self.runs
            if not run.looks_beyond(metric) and (run.variant is None or run.depth == depth)
        )

    # -- numbers -----------------------------------------------------------------------------------------------------

    def queries(self, metric: str) -> tuple[str, ...]:
        """The queries that the metric can be told of."""
        if metric not in self.metrics:
            raise UnknownName("metric of this table", metric, self.metrics)
        return self._scores[0][metric].queries

    def values(self, metric: str) -> NDArray[np.float64]:
        """[runs, queries], in the order of `names` and `queries(metric)`."""
        self.queries(metric)  # refuses what is not here
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
        rules = self.rules
        low, high = mean_intervals(
            rows,
            weights,
            most=Metric.parse(metric).most,
            level=rules.level,
            samples=rules.samples,
            seed=rules.seed,
        )
        means = np.average(rows, axis=1, weights=weights).tolist()
        judged = [self._judged(run, metric, ids) for run in self.runs]
        return {
            run.name: Cell(
                means[at],
                finite(low[at]),
                finite(high[at]),
                judged[at],
                run.looks_beyond(metric),
                bool(self.told_of(run, metric).depth),
                _empty(self.told_of(run, metric), ids),
            )
            for at, run in enumerate(self.runs)
        }

    def _judged(self, run: Run, metric: str, ids: Sequence[str]) -> float | None:
        parsed = Metric.parse(metric)
        if parsed.level == "units" or not MEASURES[parsed.measure].function:
            return None
        key = (run.name, parsed.cutoff)
        if key not in self._coverage:
            rankings = self.told_of(run, metric).seen_by(metric)
            self._coverage[key] = coverage.judged(self._grades, rankings, parsed.cutoff)
        return metrics.mean({query: self._coverage[key][query] for query in ids}, self._weights)

    # -- what can be concluded ---------------------------------------------------------------------------------------

    def others(self, metric: str) -> dict[str, NDArray[np.float64]]:
        """Scores of the candidates that are not in this table, over the same queries, under names that it has not."""
        queries = self.queries(metric)
        found = [each.scores.get(metric) or {} for each in self.place.candidates if each.has(metric)]
        rows = [[scores[query] for query in queries] for scores in found if scores.keys() >= set(queries)]
        return {f"candidate {at} beside {len(self.names)}": np.array(row) for at, row in enumerate(rows)}

    def pairs(self, metric: str) -> Pairs:
        """Every pair of the runs that can be compared and of the candidates beside them, looked at together."""
        if metric not in self._pairs:
            names, others = self.compared(metric), self.others(metric)
            rows = [*self.values(metric)[[self._place(name) for name in names]], *others.values()]
            self._pairs[metric] = all_pairs((*names, *others), rows, self.weights(metric), rules=self.rules)
        return self._pairs[metric]

    def finding(self, metric: str, name: str) -> Finding | None:
        """What is to be said of a run against the baseline; None of the baseline itself, and of what does not ship."""
        return self.against(metric, self.baseline).get(name)

    def against(self, metric: str, baseline: str) -> dict[str, Finding]:
        """Every run that can be compared with that one, looked at together with all candidates of the place.

        Cells of a grid that nobody chose make no verdict of a candidate more careful; theirs are made with all in view.
        """
        if (metric, baseline) not in self._findings:
            compared = self.compared(metric)
            names = [name for name in compared if name != baseline] if baseline in compared else []
            cells = [name for name in names if self._is_cell(name)]
            chosen = [name for name in names if name not in cells]
            made = self._together(metric, baseline, chosen)
            made |= {name: found for name, found in self._together(metric, baseline, names).items() if name in cells}
            self._findings[metric, baseline] = {name: made[name] for name in names}
        return self._findings[metric, baseline]

    def _together(self, metric: str, baseline: str, names: Sequence[str]) -> dict[str, Finding]:
        if not names:
            return {}
        values = self.values(metric)
        rows = [values[self._place(name)] for name in names] + list(self.others(metric).values())
        pairs = [(name, baseline) for name in (*names, *self.others(metric))]
        differences = np.stack(rows) - values[self._place(baseline)]
        made = findings(pairs, differences, self.weights(metric), rules=self.rules)
        return dict(zip(names, made, strict=False))

    def _is_cell(self, name: str) -> bool:
        variant = self.run(name).variant
        return variant is not None and variant.id in self.place.cells

    def best(self, metric: str) -> tuple[str, ...]:
        """The runs that can be compared and that the best of them is not better than, itself first."""
        compared = self.compared(metric)
        if len(compared) < min(2, len(self.names)):  # one run of what ships, or none, beside others: no place to have
            return ()
        against = self.against(metric, self.baseline)
        sure = {(name, self.baseline) for name, each in against.items() if each.verdict == Verdict.BETTER}
        sure |= {(self.baseline, name) for name, each in against.items() if each.verdict == Verdict.WORSE}
        return self.pairs(metric).best(sure, compared)

    def chosen_unseen(self, metric: str) -> float | None:
        """What the best of these gives where it is chosen without the queries that it is scored by; None of too few.

        The mean of the best over the very queries that chose it lies above that: of many, one is lucky.
        """
        compared, queries = self.compared(metric), self.queries(metric)
        if len(compared) < FEWEST_TO_CHOOSE or len(queries) < self.rules.fewest:
            return None
        rows = self.values(metric)[[self._place(name) for name in compared]]
        asked = [self.split.queries[query] for query in queries]
        kinds, texts = [query.kind for query in asked], [query.text for query in asked]
        count = crossfit.fold_count(FOLDS, len(queries), texts)
        if count < 2:
            return None
        fold_of = crossfit.folds(kinds, count, REPEATS, self.rules.seed, texts)
        options = crossfit.Options(rows, np.arange(len(rows)), self.weights(metric))
        chosen = options.chosen(crossfit.training(fold_of, count)).reshape(-1, count)
        unseen = crossfit.held_out(options.values, chosen, fold_of).mean(axis=0)
        return float(np.average(unseen, weights=self.weights(metric)))

    def compare(self, name: str, other: str, metric: str, by: str | None = None) -> Comparison:
        """Two runs in every detail, by query and by group, or by one kind of group.

        What is said of the two is made with all candidates in view; of a metric that looks beyond what ships, nothing.
        Refused where one is deep and the other is not.
        """
        if why := not_comparable(self.run(name), self.run(other)):
            raise SpecError(why)
        rows = self.values(metric)[[self._place(name), self._place(other)]]
        made = compare(
            (name, other),
            rows,
            self.queries(metric),
            self.weights(metric),
            groups=self.groups if by is None else {by: self.groups[by]},
            rules=self.rules,
            finding=self.against(metric, other).get(name),
        )
        beyond = [each for each in (name, other) if self.run(each).looks_beyond(metric)]
        if not beyond:
            return made
        cutoff = Metric.parse(metric).cutoff
        return made.undecided(f"{metric} counts {cutoff} hits, more than ship of {' and '.join(beyond)}")

    def front(self, metric: str) -> tuple[str, ...]:
        """The Pareto front of quality against latency: runs that none is both better and quicker than.

        Runs that were not timed alone are left out.
        """
        cells, compared = self.cells(metric), self.compared(metric)
        cost = {run.name: run.latency.p50 for run in self.runs if run.latency and run.name in compared}
        front: list[str] = []
        for name in sorted(cost, key=lambda each: (cost[each], -cells[each].mean, each)):
            if not front or cells[name].mean > cells[front[-1]].mean:
                front.append(name)
        return tuple(front)

    def bounds(self, name: str, metric: str) -> tuple[float, float]:
        """The mean with every unjudged hit not relevant, and the most that it could be."""
        found = coverage.bounds(self._grades, self.told_of(self.run(name), metric).seen_by(metric), [metric])
        return found.low.means(self._weights)[metric], found.high.means(self._weights)[metric]

    def condensed(self, metric: str) -> dict[str, float]:
        """Each run's mean over the judged hits alone."""
        judged = {run.name: coverage.condensed(self._grades, run.lifted) for run in self.runs}
        scores = {name: metrics.evaluate(self._grades, found, [metric]) for name, found in judged.items()}
        return {name: found.means(self._weights)[metric] for name, found in scores.items()}

    # -- what to know ------------------------------------------------------------------------------------------------

    @property
    def warnings(self) -> tuple[Warned, ...]:
        """What casts doubt on the scores: failures, holes in the labels, what import found wrong with these queries."""
        return tuple(doubts(self))

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
            row |= {f"{metric} badge": cell.badge, f"{metric} judged": cell.judged}
            row |= {f"{metric} verdict": str(finding.verdict) if finding else ""}
        latency = run.latency
        row |= {"p50 ms": latency.p50 if latency else None, "p95 ms": latency.p95 if latency else None}
        return row | {"failed": len(run.failures), "index MB": run.index_bytes / 1e6 if run.index_bytes else None}

    def _place(self, name: str) -> int:
        if name not in self.names:
            raise UnknownName("run of this table", name, self.names)
        return self.names.index(name)


def _empty(run: Run, queries: Sequence[str]) -> float:
    """The share of the queries that were answered with nothing. One that failed is told elsewhere."""
    answered = [run.rankings.get(query) for query in queries if query not in run.failures]
    return sum(ranked is None or not ranked.length for ranked in answered) / max(len(queries), 1)


def _refuse_others(runs: Sequence[Run]) -> None:
    """Runs over other data are not compared: a difference would say nothing about the variants."""
    if not runs:
        raise InputError("There is no run to show. Evaluate a variant first.")
    first = runs[0].subject
    for run in runs[1:]:
        if run.subject != first:
            raise SpecError(
                f"{run.name!r} and {runs[0].name!r} are not over the same data: "
                f"{unlike(run.subject, first)}. {way_out(run.subject, first)}"
            )


def _told_apart(runs: Sequence[Run]) -> tuple[Run, ...]:
    seen: Counter[str] = Counter()
    named = []
    for run in runs:
        seen[run.name] += 1
        named.append(run if seen[run.name] == 1 else replace(run, name=f"{run.name} ({seen[run.name]})"))
    return tuple(named)
