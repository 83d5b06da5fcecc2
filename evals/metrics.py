"""Scores of rankings against labels. The only importer of ranx, which is handed what it scores right.

Owns the names of metrics and their values per query; it must not know where rankings come from, nor test differences.

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

import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from threading import Lock
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from core.errors import InputError, SpecError, UnknownName
from evals.rankings import Ranked as Ranking
from evals.splits import Grades

Ranked = Mapping[str, Ranking | Sequence[str]]  # by query; ids stand best first
Level = Literal["items", "units"]  # of a ranking of chunks: the items of the chunks, or the chunks

DEFAULT_METRIC = "ndcg@10"


@dataclass(frozen=True, slots=True)
class Measure:
    """A way to score. `function` is its name in ranx.metrics, empty for one over character spans (evals.spans).

    `graded` ones use the grade, others only whether it is at least the least. `cuts` says whether ranx obeys a cut-off.
    """

    function: str
    says: str
    graded: bool = False
    cuts: bool = True


_DCG = "DCG, the sum of gain / log2(rank + 1)"
_LINEAR = "gain = the grade (linear)"
_EXPONENTIAL = "gain = 2^grade - 1 (exponential)"
MEASURES: Final[Mapping[str, Measure]] = {
    "ndcg": Measure("ndcg", f"{_DCG}, divided by the DCG of the best possible order; {_LINEAR}.", graded=True),
    "ndcg_exp": Measure(
        "ndcg_burges", f"{_DCG}, divided by the DCG of the best possible order; {_EXPONENTIAL}.", graded=True
    ),
    "dcg": Measure("dcg", f"{_DCG}; {_LINEAR}.", graded=True),
    "dcg_exp": Measure("dcg_burges", f"{_DCG}; {_EXPONENTIAL}.", graded=True),
    "map": Measure("average_precision", "Average precision: the sum of precision at each relevant hit / all relevant."),
    "mrr": Measure("reciprocal_rank", "Reciprocal rank: 1 / rank of the first relevant hit."),
    "recall": Measure("recall", "Relevant hits / all relevant."),
    "precision": Measure("precision", "Relevant hits / the cut-off, or / all hits where there is no cut-off."),
    "f1": Measure("f1", "2 x precision x recall / (precision + recall)."),
    "hits": Measure("hits", "The number of relevant hits."),
    "hit_rate": Measure("hit_rate", "1 where there is a relevant hit, else 0."),
    "r-precision": Measure("r_precision", "Relevant hits among the first R / R; R = all relevant.", cuts=False),
    "bpref": Measure(
        "bpref",
        "Over relevant hits, the sum of 1 - min(n, R) / min(N, R), / R; R, N = all judged relevant, not relevant, and "
        "n = those judged not relevant above the hit. Unjudged hits are passed over.",
        cuts=False,
    ),
    "rbp": Measure(
        "rank_biased_precision",
        "Rank-biased precision: (1 - p) x the sum of p^(rank - 1) over relevant hits; p = the persistence.",
        cuts=False,
    ),
    "span_recall": Measure("", "Characters of the answers that some returned chunk holds / characters of the answers."),
    "span_precision": Measure("", "Characters of the answers that are held / characters of all returned chunks."),
    "span_iou": Measure("", "Characters of the answers that are held / those of answers and chunks together."),
}
CHUNKS = "chunk_"  # before a measure of labels: of chunks, by the labels that answer spans give them
_OF_CHUNKS = (
    " Of chunks in place of items: relevant is one that shares at least half of the shorter of the two with an answer "
    "span, and has that answer's grade; all such chunks of the variant's own chunk set count."
)
_FORM = re.compile(r"([a-z][a-z0-9_-]*)(?:\.(\d{1,3}))?(?:@(\d+))?(?::min(\d+))?")


@dataclass(frozen=True, slots=True)
class Metric:
    """A measure with its cut-off, its persistence (rbp alone), the least grade that counts as relevant, and its level.

    Written `ndcg@10`, `map`, `rbp.80@20`, `recall@100:min2`; at the level of chunks `chunk_ndcg@10`.
    """

    measure: str
    cutoff: int | None = None
    persistence: float | None = None
    least: int = 1
    level: Level = "items"

    def __post_init__(self) -> None:
        if self.measure not in MEASURES:
            raise UnknownName("metric", self.measure, MEASURES)
        if self.level == "units" and not MEASURES[self.measure].function:
            raise SpecError(f"{self.measure} is of chunks as it is: leave out {CHUNKS!r}.")
        for value, what in ((self.cutoff, "cut-off"), (self.least, "least grade")):
            if value is not None and value < 1:
                raise SpecError(f"The {what} of the metric {self.measure} is {value}; it must be 1 or more.")
        if self.measure != "rbp" and self.persistence is not None:
            raise SpecError(f"The metric {self.measure} has no persistence: only rbp has, as in rbp.80.")
        if self.measure == "rbp" and not 0 < round(self.persistence or 0, 3) == (self.persistence or 0) < 1:
            raise SpecError(
                "The metric rbp needs a persistence above 0 and below 1, written as in rbp.80 or rbp.95@20."
            )

    @classmethod
    def parse(cls, text: str) -> Metric:
        written = text.strip().lower()
        plain = written.removeprefix(CHUNKS)
        name, prefix = re.split(r"[@.:]", plain, maxsplit=1)[0], CHUNKS if plain != written else ""
        if name not in MEASURES:
            raise UnknownName("metric", prefix + name or text, [prefix + each for each in MEASURES])
        found = _FORM.fullmatch(plain)
        if found is None:
            raise SpecError(
                f"{text!r} is no metric. Behind {prefix}{name} may stand a cut-off and the least grade that counts as "
                f"relevant, whole numbers both: {prefix}{name}@10, {prefix}{name}@10:min2. rbp has its persistence "
                "first: rbp.80@20."
            )
        _, persistence, cutoff, least = found.groups()
        return cls(
            name,
            int(cutoff) if cutoff else None,
            float(f"0.{persistence}") if persistence else None,
            int(least) if least else 1,
            "units" if prefix else "items",
        )

    @classmethod
    def of(cls, metric: Metric | str) -> Metric:
        return cls.parse(metric) if isinstance(metric, str) else metric

    def __str__(self) -> str:
        digits = f"{self.persistence:.3f}"[1:].removesuffix("0") if self.persistence is not None else ""
        cutoff = f"@{self.cutoff}" if self.cutoff is not None else ""
        least = f":min{self.least}" if self.least > 1 else ""
        return f"{CHUNKS if self.level == 'units' else ''}{self.measure}{digits}{cutoff}{least}"

    @property
    def explanation(self) -> str:
        """One line for a tooltip: the formula, the gain it uses, what is labelled, what cut-off and least grade do."""
        first = f" Of the first {self.cutoff} hits." if self.cutoff else ""
        least = f" Grades below {self.least} count as not relevant." if self.least > 1 else ""
        chunks = _OF_CHUNKS if self.level == "units" else ""
        return f"{MEASURES[self.measure].says}{first}{least}{chunks}"


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


def evaluate(grades: Grades, rankings: Ranked, metrics: Sequence[Metric | str], level: Level = "items") -> Scores:
    """Each metric for each query that has a relevant item; one that is not in `rankings`, or is empty, scores 0.

    So does one without an item of a metric's least grade. A ranking of chunks is scored by the items of its chunks,
    each at its best chunk, unless `level` is "units": then labels are those of chunks (`evals.spans.chunk_grades`).
    """
    wanted = [Metric.of(metric) for metric in metrics]
    for metric in wanted:
        if not MEASURES[metric.measure].function:
            raise SpecError(f"{metric} needs answer spans and chunks with offsets: evals.spans.evaluate scores it.")
        if metric.level == "units" and level == "items":
            raise SpecError(f"{metric} needs labels of chunks, and these are of items: see evals.spans.chunk_grades.")
    queries = relevant_queries(grades)
    values = np.zeros((len(wanted), len(queries)))
    if queries and wanted:
        prepared = _Prepared(
            [grades[query] for query in queries], [ids_of(rankings.get(each), level) for each in queries]
        )
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


class _Prepared:
    """Labels and rankings in the form that ranx's loops take: per query an array of (number of the item, grade).

    Items are numbered by query, best grade first. Lists are made once for all the metrics that share them.
    """

    def __init__(self, given: Sequence[Mapping[str, int]], ranked: Sequence[Iterable[str]]) -> None:
        self._grades: list[list[int]] = []
        self._hits: list[NDArray[np.float64]] = []
        self._lists: dict[tuple[object, ...], Any] = {}
        for labels, ids in zip(given, ranked, strict=True):
            best_first = sorted(labels.items(), key=lambda pair: -pair[1])
            numbers = {item: float(number) for number, (item, _) in enumerate(best_first)}
            found = np.fromiter(map(numbers.get, ids, repeat(_UNJUDGED)), np.float64)
            self._grades.append([grade for _, grade in best_first])
            self._hits.append(np.column_stack((found, np.arange(len(found), 0.0, -1.0))))

    def score(self, metric: Metric) -> NDArray[np.float64]:
        from ranx import metrics as ranx_metrics

        measure = MEASURES[metric.measure]
        labels = self._list(("labels", metric.least, measure.graded), self._labels)
        hits = self._list(("hits", None if measure.cuts else metric.cutoff), self._first)
        option = metric.persistence or (metric.cutoff or 0)  # ranx's word for no cut-off is 0
        function: Callable[..., NDArray[np.float64]] = getattr(ranx_metrics, measure.function)
        return function(labels, hits, option if measure.cuts or metric.persistence else 0)

    def _list(self, key: tuple[Any, ...], make: Callable[..., list[NDArray[np.float64]]]) -> Any:
        from numba.typed import List

        if key not in self._lists:
            self._lists[key] = List(make(*key[1:]))
        return self._lists[key]

    def _first(self, cutoff: int | None) -> list[NDArray[np.float64]]:
        return [hits[:cutoff] for hits in self._hits]

    def _labels(self, least: int, graded: bool) -> list[NDArray[np.float64]]:
        return [_label_rows(grades, least, graded) for grades in self._grades]


def _label_rows(grades: Sequence[int], least: int, graded: bool) -> NDArray[np.float64]:
    """Grades below the least as 0; and where nothing is relevant, or everything, one that nobody returns.

    It keeps bpref from dividing by 0 and changes no other value: without a relevant item, hits are 0 whatever they are
    divided by, and of those that are not relevant bpref alone takes notice.
    """
    worth = [(grade if graded else 1) if grade >= least else 0 for grade in grades]
    rows = [(float(number), float(grade)) for number, grade in enumerate(worth)]
    if not any(worth):
        rows.insert(0, (float(len(worth)), 1.0))
    elif all(worth):
        rows.append((float(len(worth)), 0.0))
    return np.array(rows)


def scores(grades: Grades, ranked: Ranked, metric: Metric | str = DEFAULT_METRIC) -> dict[str, float]:
    """One metric for each query that has a relevant item; one without hits scores 0."""
    return evaluate(grades, ranked, [metric]).of(metric)


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
    named = [Metric(name, persistence=0.8 if name == "rbp" else None) for name in MEASURES if MEASURES[name].function]
    evaluate({"q": {"a": 1}}, {"q": ["a", "b"]}, named)


if __name__ == "__main__":
    warm_up()
