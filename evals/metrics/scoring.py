"""Scores of rankings against labels, per query. The only importer of ranx.

It must not know where rankings come from, nor test differences; names and formulas are in `evals.measures`.

What ranx (0.3.21) does otherwise than the definitions, and what is done about it:
- It does not align queries: here each labelled query with a relevant item is scored, one without hits scores 0.
- It orders equal scores by chance, and an item returned twice counts twice: here only the order is handed over, and the
  better place of each item.
- bpref is 0 / 0 without a judged item that is not relevant: here, as in trec_eval, no such item stands above anything.
- rbp takes the grade for the gain, so that graded labels score above 1: here gain is 0 or 1 (Moffat and Zobel 2008).
- bpref, r-precision and rbp ignore a cut-off: here the ranking ends there.
- Its loops run on numba's thread pool, which ends the process where two threads enter at once: here one at a time.

What is otherwise than in trec_eval, with the same labels:
- trec_eval orders equal scores by id, descending; here the order is that of the ranking.
- f1 at a cut-off, mrr at one, rbp, and exponential gain are not in trec_eval.
- Grades below 0 are judged and not relevant; trec_eval keeps them out of bpref. (Checked labels have none.)
- A least grade (`:min2`) leaves gains below it out of dcg and ndcg; trec_eval's -l does not touch ndcg.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.errors import InputError, SpecError, UnknownName
from evals.measures import MEASURES, Level, Metric
from evals.runs.rankings import Ranking
from evals.types import Grades

Ranked = Mapping[str, Ranking | Sequence[str]]  # by query; ids stand best first


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """Every metric for every query: `values[metric, query]`, in the order of `metrics` and `queries`."""

    queries: tuple[str, ...]
    metrics: tuple[str, ...]
    values: NDArray[np.float64]

    def row(self, metric: Metric | str) -> NDArray[np.float64]:
        """The metric's values in the order of `queries`."""
        name = str(Metric.of(metric))
        if name not in self.metrics:
            raise UnknownName("metric of these scores", name, self.metrics)
        return np.asarray(self.values[self.metrics.index(name)])

    def of(self, metric: Metric | str) -> dict[str, float]:
        return dict(zip(self.queries, self.row(metric).tolist(), strict=True))

    def means(self, weights: Mapping[str, float] | None = None) -> dict[str, float]:
        """Each metric over all queries; with weights, a query counts as often as its weight says."""
        return {name: mean(self.of(name), weights) for name in self.metrics}

    def only(self, queries: Iterable[str]) -> Scores:
        """The same for these queries alone; those without a score are passed over."""
        wanted = set(queries)
        places = [place for place, query in enumerate(self.queries) if query in wanted]
        return Scores(tuple(self.queries[place] for place in places), self.metrics, self.values[:, places])

    def over(self, queries: Iterable[str]) -> Scores:
        """The same for just these queries, 0 where one has no score here."""
        wanted, place = tuple(queries), {query: at for at, query in enumerate(self.queries)}
        values = np.zeros((len(self.metrics), len(wanted)))
        known = [at for at, query in enumerate(wanted) if query in place]
        values[:, known] = self.values[:, [place[wanted[at]] for at in known]]
        return Scores(wanted, self.metrics, values)


def relevant_queries(grades: Grades) -> tuple[str, ...]:
    """The queries that are scored: those with a relevant item, in the order of their ids."""
    return tuple(sorted(query for query, given in grades.items() if any(grade > 0 for grade in given.values())))


def score_rankings(
    grades: Grades | Labels, rankings: Ranked, metrics: Sequence[Metric | str], level: Level = "items"
) -> Scores:
    """Each metric for each query that has a relevant item; one that is not in `rankings`, or is empty, scores 0.

    So does one without an item of a metric's least grade. A ranking of chunks is scored by the items of its chunks,
    each at its best chunk, unless `level` is "units": then labels are those of chunks
    (`evals.metrics.spans.chunk_grades`). For several rankings with the same labels hand over `Labels(grades)`, made
    once.
    """
    labels = grades if isinstance(grades, Labels) else Labels(grades)
    wanted = [Metric.of(metric) for metric in metrics]
    for metric in wanted:
        if MEASURES[metric.measure].of_spans:
            raise SpecError(
                f"{metric} needs answer spans and chunks with offsets: evals.metrics.spans.score_spans scores it."
            )
        if metric.level == "units" and level == "items":
            raise SpecError(
                f"{metric} needs labels of chunks, and these are of items: see evals.metrics.spans.chunk_grades."
            )
    queries = labels.queries
    values = np.zeros((len(wanted), len(queries)))
    if queries and wanted:
        prepared = _Prepared(labels, [ids_of(rankings.get(each), level) for each in queries])
        with _ONE_AT_A_TIME, warnings.catch_warnings():
            # numba's: of ranx's casts while it compiles them, and of a TBB it finds and cannot use
            warnings.simplefilter("ignore")
            values[:] = [prepared.score(metric) for metric in wanted]
    return Scores(queries, tuple(map(str, wanted)), values)


def ids_of(ranking: Ranking | Sequence[str] | None, level: Level = "items") -> Iterable[str]:
    """The ids that labels speak of, best first, each once."""
    if isinstance(ranking, Ranking):
        ranking = ranking.items or ranking.ids if level == "items" else ranking.ids
    return dict.fromkeys(ranking or ())


_ONE_AT_A_TIME = Lock()
_UNJUDGED = -1.0  # below every number that is given to an item: ranx passes over it at once


class Labels:
    """Labels in the form that ranx's loops take: per query an array of (number of the item, grade).

    Items are numbered by query, best grade first. Lists are made once for all metrics and rankings that share them.
    """

    def __init__(self, grades: Grades) -> None:
        self.queries = relevant_queries(grades)
        best_first = [sorted(grades[query].items(), key=lambda pair: -pair[1]) for query in self.queries]
        self.numbers = [{item: float(number) for number, (item, _) in enumerate(given)} for given in best_first]
        self.grades = [[grade for _, grade in given] for given in best_first]
        self._lists: dict[tuple[int, bool], Any] = {}

    def rows(self, least: int, graded: bool) -> Any:
        """With grades below the least as 0."""
        from numba.typed import List

        if (least, graded) not in self._lists:
            rows = []
            for grades in self.grades:
                worth = [(grade if graded else 1) if grade >= least else 0 for grade in grades]
                row = [(float(number), float(grade)) for number, grade in enumerate(worth)]
                # Where nothing is relevant, or everything, one more that nobody returns. It keeps bpref from dividing
                # by 0 and changes no other value: without a relevant item, hits are 0 whatever they are divided by, and
                # of those that are not relevant bpref alone takes notice.
                if not any(worth):
                    row.insert(0, (float(len(worth)), 1.0))
                elif all(worth):
                    row.append((float(len(worth)), 0.0))
                rows.append(np.array(row))
            self._lists[least, graded] = List(rows)
        return self._lists[least, graded]


class _Prepared:
    """Rankings in that form. Lists are made once for all the metrics that share them."""

    def __init__(self, labels: Labels, ranked: Sequence[Iterable[str]]) -> None:
        self._labels = labels
        self._hits: list[NDArray[np.float64]] = []
        self._lists: dict[int | None, Any] = {}
        for numbers, ids in zip(labels.numbers, ranked, strict=True):
            found = np.fromiter(map(numbers.get, ids, repeat(_UNJUDGED)), np.float64)
            self._hits.append(np.column_stack((found, np.arange(len(found), 0.0, -1.0))))

    def score(self, metric: Metric) -> NDArray[np.float64]:
        measure = MEASURES[metric.measure]
        if measure.score is not None:
            values = []
            for known, hits in zip(self._labels.grades, self._hits, strict=True):
                grades = [(grade if measure.graded else 1) if grade >= metric.least else 0 for grade in known]
                first = [grades[int(number)] if number >= 0 else None for number in hits[: metric.cutoff, 0]]
                values.append(measure.score(first, grades))
            return np.array(values)
        from numba.typed import List
        from ranx import metrics as ranx_metrics

        labels = self._labels.rows(metric.least, measure.graded)
        cutoff = None if measure.obeys_cutoff else metric.cutoff
        if cutoff not in self._lists:
            self._lists[cutoff] = List([hits[:cutoff] for hits in self._hits])
        option = metric.persistence or (metric.cutoff or 0)  # ranx's word for no cut-off is 0
        function: Callable[..., NDArray[np.float64]] = getattr(ranx_metrics, measure.ranx)
        return function(labels, self._lists[cutoff], option if measure.obeys_cutoff or metric.persistence else 0)


def mean(per_query: Mapping[str, float], weights: Mapping[str, float] | None = None) -> float:
    """Over all queries, each counting as its weight says, or once where it has none. 0 where there are no queries."""
    if not per_query:
        return 0.0
    counts = [1.0 if weights is None else weights.get(query, 1.0) for query in per_query]
    if not sum(counts) > 0:
        raise InputError("The weights of the scored queries add up to 0: give at least one of them a weight above 0.")
    return float(np.average(list(per_query.values()), weights=counts))


def warm_up() -> None:
    """Have ranx compile what it needs and keep it on disk; the first call takes half a minute on a new machine."""
    named = [Metric(name, persistence=0.8 if name == "rbp" else None) for name in MEASURES if MEASURES[name].ranx]
    score_rankings({"q": {"a": 1}}, {"q": ["a", "b"]}, named)
