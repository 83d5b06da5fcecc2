"""Runs scored side by side, with intervals, verdicts, and warnings about what the scores cannot tell."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from core.errors import InputError, SpecError, UnknownName
from evals.display import Displayable, Table, TableCell
from evals.measures import MEASURES, METRICS, Metric
from evals.metrics import coverage, scoring
from evals.metrics.run_scores import grades_of, scored
from evals.metrics.scoring import Scores
from evals.runs.plan import DEEPEST, DEFAULT_RULES
from evals.runs.types import CandidateSet, Run, not_comparable, unlike, way_out
from evals.statistics import crossfit
from evals.statistics.comparison import PairComparison, Pairs, all_pairs, compare, findings
from evals.statistics.mean_intervals import mean_intervals
from evals.statistics.significance import finite
from evals.statistics.verdicts import MARKS, Finding, Rules, Verdict, legend
from evals.types import Grades, QuerySplit

if TYPE_CHECKING:
    import pandas as pd

WELL_JUDGED = 0.95  # below this share of judged hits, a difference may be one of labels
NAMED = 4  # runs that a note names
OFTEN = 0.05  # of the queries without a result, where it is a reason for a low score
LEAST_FLATTERED = 0.001
DEEPEST_JUDGED = 20  # cut-off to which labels are expected
EMPTY_SHOWN = 0.01  # of the queries without a result: the least share that a badge shows
FEWEST_TO_CHOOSE = 3  # runs: with fewer, choosing the best flatters it little
FOLDS, REPEATS = 5, 10  # of choosing without the queries that are scored
ALONE = CandidateSet()


@dataclass(frozen=True, slots=True)
class BoardWarning:
    """Something to know before the scores are believed."""

    message: str
    queries: tuple[str, ...] = ()


def doubts(board: Board) -> list[BoardWarning]:
    """What is wrong with the runs, their labels, and the choice among them, in this order."""
    rules = (_of_runs, _of_depths, _unjudged, _imported, _chosen, _together)
    return [warned for rule in rules for warned in rule(board)]


def _of_runs(board: Board) -> Iterator[BoardWarning]:
    """Queries that failed or found nothing, what runs say of themselves, and deep runs among those that ship."""
    for run in board.runs:
        if run.failures:
            count, first = f"{len(run.failures)} of {len(board.split.queries)}", next(iter(run.failures.values()))
            message = f"{run.name}: {count} queries failed and score 0; the first: {first}"
            yield BoardWarning(message, tuple(run.failures))
    empty = {name: cell.empty for name, cell in board.cells(board.metrics[0]).items() if cell.empty >= OFTEN}
    if empty:
        shares = ", ".join(f"{name} for {share:.0%}" for name, share in list(empty.items())[:NAMED])
        yield BoardWarning(f"Nothing is found by {shares} of the queries, which score 0.")
    names: dict[str, list[str]] = {}
    for run in board.runs:
        for note in run.notes:
            names.setdefault(note, []).append(run.name)
    for note, of in names.items():
        yield BoardWarning(f"{_listed(of)}: {note}")
    deep = [run.name for run in board.runs if run.depth]
    if deep and not all(run.depth for run in board.runs if run.variant):
        yield BoardWarning(
            f"Deep runs, asked for more than ships: {_listed(deep)}. Their first results may be others than those that "
            "ship, so they are not compared with the rest. Evaluate them anew."
        )


def _listed(names: Sequence[str]) -> str:
    more = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {more} more" if more > 0 else "")


def _of_depths(board: Board) -> Iterator[BoardWarning]:
    """Metrics that count more than a variant ships, then those that look deeper than a deep run was asked for."""
    for metric in board.metrics:
        cutoff, beyond = Metric.parse(metric).cutoff, [run for run in board.runs if run.looks_beyond(metric)]
        if beyond:
            deep = all(board.scored_run(run, metric).depth for run in beyond)
            names = _listed([run.name for run in beyond])
            seen = "a deep run of its own" if deep else "the candidates behind what ships"
            yield BoardWarning(
                f"{metric} counts {cutoff} hits, more than ship of {names}: of {seen}, and it decides nothing."
            )
    for metric in board.metrics:
        cutoff = Metric.parse(metric).cutoff or 0
        less = [run.name for run in board.runs if 0 < min(board.scored_run(run, metric).depth, DEEPEST) < cutoff]
        if less:
            yield BoardWarning(f"{metric} counts {cutoff} hits, and fewer were asked for of: {', '.join(less)}.")


def _unjudged(board: Board) -> list[BoardWarning]:
    """The metric with the fewest labels where it counts; the first hundred hits are never all labelled."""
    grades = [given for given in map(board.split.grades.get, board.split.queries) if given]
    if all(len(given) == 1 for given in grades):  # each query has its one right answer: nothing is left to judge
        return []
    worst, run, least = "", "", WELL_JUDGED
    for metric in board.metrics:
        if (Metric.parse(metric).cutoff or math.inf) > DEEPEST_JUDGED:
            continue
        for name, cell in board.cells(metric).items():
            judged = None if cell.judged is None or cell.empty == 1 else cell.judged / (1 - cell.empty)
            if judged is not None and judged < least:
                worst, run, least = metric, name, judged
    if not worst:
        return []
    message = (
        f"Of the hits that {worst} counts, {100 * least:.0f}% are judged for {run}; the others count as not "
        "relevant. Judge the pool before small differences are believed."
    )
    return [BoardWarning(message)]


def _chosen(board: Board) -> list[BoardWarning]:
    """By how much the best of many is flattered by the queries that make it the best."""
    metric = board.metrics[0]
    unseen = board.chosen_unseen(metric)
    if unseen is None:
        return []
    cells = {name: board.cells(metric)[name].mean for name in board.compared(metric)}
    best = max(cells, key=lambda name: cells[name])
    flattered = cells[best] - unseen
    if flattered < LEAST_FLATTERED:
        return []
    message = (
        f"{best} is the best of {len(cells)} by {metric}, {cells[best]:.3f} over the queries that chose it: some "
        f"{flattered:.3f} of it is luck. Chosen without the queries that it is scored by, the best gives {unseen:.3f}."
    )
    return [BoardWarning(message)]


def _together(board: Board) -> list[BoardWarning]:
    """Candidates that are not in the table and among which verdicts must hold too, and what was set aside."""
    place, metric = board.place, board.metrics[0]
    others = [each.name for each in place.candidates if each.has(metric)]
    sentences = []
    if others and len(board.compared(metric)) > 1:
        count = f"{len(others)} more {'set-up' if len(others) == 1 else 'set-ups'}"
        sentences.append(
            f"Verdicts hold together with {count} that were scored over the same queries: {_listed(others)}."
        )
    if gone := place.aside + place.deleted:
        seen = "none" if not place.seen else "all" if place.seen == gone else str(place.seen)
        deleted = f"{place.deleted} by deleting their runs, " if place.deleted else ""
        sentences.append(f"Set aside: {gone}, {deleted}{seen} of them after their scores were seen.")
    return [BoardWarning(" ".join(sentences))] if sentences else []


def _imported(board: Board) -> list[BoardWarning]:
    """Flaws of queries that are scored here; those of documents, once in all."""
    by_kind: dict[str, list[Mapping[str, Any]]] = {}
    for flaw in board.flaws:
        if flaw.get("subject") in board.split.queries:
            by_kind.setdefault(str(flaw.get("of", "input")), []).append(flaw)
    warned = []
    for kind, flaws in by_kind.items():
        queries = tuple(dict.fromkeys(str(flaw["subject"]) for flaw in flaws))
        first = f"The first, {queries[0]!r}: {flaws[0]['message']}"
        warned.append(BoardWarning(f"Import warned of {len(queries)} of these queries ({kind}). {first}", queries))
    return warned


@dataclass(frozen=True, slots=True)
class Score:
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
    def text(self) -> str:
        return f"{self.mean:.3f}"

    @property
    def interval(self) -> str:
        """0.480 to 0.550; empty where it is not known."""
        return "" if self.low is None or self.high is None else f"{self.low:.3f} to {self.high:.3f}"

    @property
    def brackets(self) -> str:
        """The interval where there is little room: [0.48, 0.55]."""
        return "" if self.low is None or self.high is None else f"[{self.low:.2f}, {self.high:.2f}]"

    @property
    def badge(self) -> str:
        """A mark for a score that is not of what ships, or where often nothing was found."""
        kind = "deep" if self.deep else "beyond" if self.beyond else ""
        empty = f"nothing for {self.empty:.0%}" if self.empty >= EMPTY_SHOWN else ""
        return ", ".join(filter(None, (kind, empty)))


class Board(Displayable):
    """The table. Runs must be over the same subject; equal names get a number.

    A metric that looks beyond what a variant ships scores its deep run, where `deep` has one under the run's id, else
    the candidates that the run has behind what ships. It gets no verdict, no star and no place on a front.
    `chunk_labels` are for metrics at the level of chunks: by variant, as `evals.metrics.run_scores` finds them. `place`
    has the candidates that are not in the table: verdicts, intervals and stars must hold among them too.
    """

    def __init__(  # noqa: PLR0913 - an option each
        self,
        split: QuerySplit,
        runs: Sequence[Run],
        metrics: Sequence[Metric | str] = METRICS,
        *,
        baseline: str | None = None,
        rules: Rules = DEFAULT_RULES,
        flaws: Sequence[Mapping[str, Any]] = (),
        chunk_labels: Mapping[str, Grades] | None = None,
        deep: Mapping[str, Run] | None = None,
        place: CandidateSet = ALONE,
    ) -> None:
        if not runs:
            raise InputError("There is no run to show. Evaluate a variant first.")
        first = runs[0]
        for run in runs[1:]:  # over other data a difference would say nothing about the variants
            if run.subject != first.subject:
                raise SpecError(
                    f"{run.name!r} and {first.name!r} are not over the same data: "
                    f"{unlike(run.subject, first.subject)}. {way_out(run.subject, first.subject)}"
                )
        self.place = place
        self.split, self.rules, self.flaws = split, rules, tuple(flaws)
        self.runs = _with_unique_names(runs)
        self.names = tuple(run.name for run in self.runs)
        self.metrics = tuple(dict.fromkeys(str(Metric.of(each)) for each in metrics))
        self.baseline = self.names[0] if baseline is None else baseline
        if self.baseline not in self.names:
            raise UnknownName("run to compare with", self.baseline, self.names)
        self._grades = grades_of(split)
        self._deep = deep or {}
        labels = scoring.Labels(self._grades)
        self._scores = [self._scored(run, chunk_labels or {}, labels) for run in self.runs]
        self._pairs: dict[str, Pairs] = {}
        self._findings: dict[tuple[str, str], dict[str, Finding]] = {}
        self._cells: dict[str, dict[str, Score]] = {}
        self._coverage: dict[tuple[str, int | None], dict[str, float]] = {}
        self._weights = {query.id: query.weight for query in split.queries.values()}

    def _scored(self, run: Run, chunk_labels: Mapping[str, Grades], labels: scoring.Labels) -> dict[str, Scores]:
        found: dict[str, Scores] = {}
        for depth in dict.fromkeys(self.scored_run(run, metric).depth for metric in self.metrics):
            metrics = [metric for metric in self.metrics if self.scored_run(run, metric).depth == depth]
            found |= scored(self.split, self.scored_run(run, metrics[0]), metrics, chunk_labels, labels)
        return found

    # -- what is shipped, and what is not ----------------------------------------------------------------------------

    def scored_run(self, run: Run, metric: str) -> Run:
        """The run whose score the metric shows for this one: its deep run, where it looks beyond what ships."""
        return self._deep.get(run.id, run) if run.looks_beyond(metric) else run

    def compared(self, metric: str) -> tuple[str, ...]:
        """The runs that can be compared by the metric: all of what ships, or all as deep as the baseline is."""
        baseline = self.run(self.baseline)
        depths = [run.depth for run in self.runs if run.variant is not None]
        depth = baseline.depth if baseline.variant is not None else min(depths, default=0)
        return tuple(
            run.name
            for run in self.runs
            if not run.looks_beyond(metric) and (run.variant is None or run.depth == depth)
        )

    # -- numbers -----------------------------------------------------------------------------------------------------

    def queries(self, metric: str) -> tuple[str, ...]:
        """The queries that the metric can score."""
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

    def cells(self, metric: str) -> dict[str, Score]:
        """Each run's mean with its interval."""
        if metric not in self._cells:
            self._cells[metric] = self._made(metric, self.queries(metric))
        return self._cells[metric]

    def by(self, metric: str, what: str = "kind") -> dict[str, dict[str, Score]]:
        """The same for the queries of each kind, or of each tag: group, then run."""
        groups = self.groups[what]
        scored = set(self.queries(metric))
        present = {name: [query for query in ids if query in scored] for name, ids in groups.items()}
        return {name: self._made(metric, ids) for name, ids in present.items() if ids}

    @property
    def groups(self) -> dict[str, dict[str, tuple[str, ...]]]:
        return {"kind": self.split.kinds, "tag": self.split.tags}

    def _made(self, metric: str, ids: Sequence[str]) -> dict[str, Score]:
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
        empty = []  # the share of the queries for which nothing was found; failed ones do not count among these
        for run in self.runs:
            shown = self.scored_run(run, metric)
            answers = [shown.rankings.get(query) for query in ids if query not in shown.failures]
            empty.append(sum(each is None or not each.length for each in answers) / max(len(ids), 1))
        return {
            run.name: Score(
                means[at],
                finite(low[at]),
                finite(high[at]),
                judged[at],
                run.looks_beyond(metric),
                bool(self.scored_run(run, metric).depth),
                empty[at],
            )
            for at, run in enumerate(self.runs)
        }

    def _judged(self, run: Run, metric: str, ids: Sequence[str]) -> float | None:
        parsed = Metric.parse(metric)
        if parsed.level == "units" or MEASURES[parsed.measure].of_spans:
            return None
        key = (run.name, parsed.cutoff)
        if key not in self._coverage:
            rankings = self.scored_run(run, metric).seen_by(metric)
            self._coverage[key] = coverage.judged(self._grades, rankings, parsed.cutoff)
        return scoring.mean({query: self._coverage[key][query] for query in ids}, self._weights)

    # -- what can be concluded ---------------------------------------------------------------------------------------

    def others(self, metric: str) -> dict[str, NDArray[np.float64]]:
        """Scores of the candidates that are not in this table, over the same queries, under names that it has not."""
        queries = self.queries(metric)
        found = [each.scores.get(metric) or {} for each in self.place.candidates if each.has(metric)]
        rows = [[scores[query] for query in queries] for scores in found if scores.keys() >= set(queries)]
        return {f"candidate {at} beside {len(self.names)}": np.array(row) for at, row in enumerate(rows)}

    def pairs(self, metric: str) -> Pairs:
        """Every pair of the runs that can be compared and of the other candidates, as one family."""
        if metric not in self._pairs:
            names, others = self.compared(metric), self.others(metric)
            rows = [*self.values(metric)[[self._place(name) for name in names]], *others.values()]
            self._pairs[metric] = all_pairs((*names, *others), rows, self.weights(metric), rules=self.rules)
        return self._pairs[metric]

    def finding(self, metric: str, name: str) -> Finding | None:
        """The verdict on a run against the baseline; None for the baseline itself, and for what does not ship."""
        return self.against(metric, self.baseline).get(name)

    def against(self, metric: str, baseline: str) -> dict[str, Finding]:
        """Every run that can be compared with that one, in one family with all candidates of the place.

        Cells of a grid that were not chosen make no verdict of a candidate more careful; theirs hold among all.
        """
        if (metric, baseline) not in self._findings:
            compared = self.compared(metric)
            names = [name for name in compared if name != baseline] if baseline in compared else []
            variants = {name: self.run(name).variant for name in names}
            cells = [name for name, each in variants.items() if each is not None and each.id in self.place.cells]
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

    def best(self, metric: str) -> tuple[str, ...]:
        """The runs that can be compared and that the best of them is not better than, itself first."""
        compared = self.compared(metric)
        if len(compared) < min(2, len(self.names)):  # at most one run of what ships: there is nothing to be best of
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
        kinds = [self.split.queries[query].kind for query in queries]
        texts = [self.split.queries[query].text for query in queries]
        count = crossfit.fold_count(FOLDS, len(queries), texts)
        if count < 2:
            return None
        fold_of = crossfit.folds(kinds, count, REPEATS, self.rules.seed, texts)
        options = crossfit.ChoiceOptions(rows, np.arange(len(rows)), self.weights(metric))
        chosen = options.chosen(crossfit.training(fold_of, count)).reshape(-1, count)
        unseen = crossfit.held_out(options.values, chosen, fold_of).mean(axis=0)
        return float(np.average(unseen, weights=self.weights(metric)))

    def compare(self, name: str, other: str, metric: str, by: str | None = None) -> PairComparison:
        """Two runs in every detail, by query and by group, or by one kind of group.

        The verdict holds among all candidates; by a metric that looks beyond what ships there is none. Refused where
        one is deep and the other is not.
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
        found = coverage.bounds(self._grades, self.scored_run(self.run(name), metric).seen_by(metric), [metric])
        return found.low.means(self._weights)[metric], found.high.means(self._weights)[metric]

    def condensed(self, metric: str) -> dict[str, float]:
        """Each run's mean over the judged hits alone."""
        judged = {run.name: coverage.condensed(self._grades, run.lifted) for run in self.runs}
        scores = {name: scoring.score_rankings(self._grades, found, [metric]) for name, found in judged.items()}
        return {name: found.means(self._weights)[metric] for name, found in scores.items()}

    # -- what to know ------------------------------------------------------------------------------------------------

    @property
    def warnings(self) -> tuple[BoardWarning, ...]:
        """What casts doubt on the scores: failures, holes in the labels, what import found wrong with these queries."""
        return tuple(doubts(self))

    # -- what is shown -----------------------------------------------------------------------------------------------

    def tables(self) -> tuple[Table, ...]:
        return (board_table(self),)

    def frame(self) -> pd.DataFrame:
        """One row a run: mean, interval and verdict of every metric, and latency."""
        import pandas as pd

        rows = []
        for run in self.runs:
            row: dict[str, Any] = {"variant": run.name}
            for metric in self.metrics:
                cell, finding = self.cells(metric)[run.name], self.finding(metric, run.name)
                row |= {metric: cell.mean, f"{metric} low": cell.low, f"{metric} high": cell.high}
                row |= {f"{metric} badge": cell.badge, f"{metric} judged": cell.judged}
                row |= {f"{metric} verdict": str(finding.verdict) if finding else ""}
            latency, size = run.latency, run.index_bytes
            row |= {"p50 ms": latency.p50 if latency else None, "p95 ms": latency.p95 if latency else None}
            rows.append({**row, "failed": len(run.failures), "index MB": size / 1e6 if size else None})
        return pd.DataFrame(rows).set_index("variant")

    def _place(self, name: str) -> int:
        if name not in self.names:
            raise UnknownName("run of this table", name, self.names)
        return self.names.index(name)


def _with_unique_names(runs: Sequence[Run]) -> tuple[Run, ...]:
    seen: Counter[str] = Counter()
    named = []
    for run in runs:
        seen[run.name] += 1
        named.append(run if seen[run.name] == 1 else replace(run, name=f"{run.name} ({seen[run.name]})"))
    return tuple(named)


# -- a board -----------------------------------------------------------------------------------------------------------


def board_table(board: Board) -> Table:
    """Variants by metrics with intervals and verdicts, what it cost, and what to know before it is believed."""
    subject, first = board.runs[0].subject, board.metrics[0]
    costs: dict[str, list[TableCell]] = {"p50 ms": []}
    for run in board.runs:
        if (latency := run.latency) is None:
            costs["p50 ms"].append(TableCell(text="-"))
        else:
            hint = f"p95 {latency.p95:.1f} ms; {latency.queries} queries, asked alone"
            costs["p50 ms"].append(TableCell(text=f"{latency.p50:.1f}", hint=hint))
    if any(run.failures for run in board.runs):
        costs["failed"] = [TableCell.of(len(run.failures)) for run in board.runs]
    note = f"{board.rules.level:.0%} intervals in brackets."
    note = f"{legend(board.baseline)} {note}" if len(board.names) > 1 else note
    rows = tuple(
        (name, *(_score(board, metric, name) for metric in board.metrics), _judged(board, first, name), *spent)
        for name, *spent in zip(board.names, *costs.values(), strict=True)
    )
    return Table.of(
        f"{subject.collection}, {len(board.queries(first))} queries of {subject.split}",
        ("variant", *board.metrics, f"judged {first}", *costs),
        rows,
        (f"judged {first}", *costs),
        (note, *(f"Note: {warned.message}" for warned in board.warnings)),
    )


def _score(board: Board, metric: str, name: str) -> TableCell:
    cell = board.cells(metric).get(name)
    if cell is None:
        return TableCell(text="-")
    finding = board.finding(metric, name)
    mark = " ".join(filter(None, (MARKS[finding.verdict] if finding else "", cell.badge)))
    strong = len(board.names) > 1 and name in board.best(metric)
    hint = finding.sentence if finding else "what the others are compared with" if len(board.names) > 1 else ""
    return TableCell(text=cell.text, aside=f"{cell.brackets} {mark}".strip(), strong=strong, hint=hint)


def _judged(board: Board, metric: str, name: str) -> str:
    cell = board.cells(metric).get(name)
    return "-" if cell is None or cell.judged is None else f"{cell.judged:.0%}"
