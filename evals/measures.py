"""Measures: names, formulas in words and over arrays of ranks, and what they need."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from core.errors import InputError, SpecError, UnknownName
from evals.types import QuerySplit

Level = Literal["items", "units"]  # of a ranking of chunks: the items of the chunks, or the chunks

DEFAULT_METRIC = "ndcg@10"
METRICS = (DEFAULT_METRIC, "recall@10", "mrr@10")  # of a table, where none are named


@dataclass(frozen=True, slots=True)
class Measure:
    """A way to score. `function` is its name in ranx.metrics, empty for one over character spans (evals.metrics.spans).

    `graded` ones use the grade, others only whether it is at least the least. `cuts` says whether ranx obeys a cut-off.
    `most` is the greatest value there can be, None where there is none.
    """

    function: str
    says: str
    graded: bool = False
    cuts: bool = True
    most: float | None = 1.0


_DCG = "DCG, the sum of gain / log2(rank + 1)"
_LINEAR = "gain = the grade (linear)"
_EXPONENTIAL = "gain = 2^grade - 1 (exponential)"
MEASURES: Final[Mapping[str, Measure]] = {
    "ndcg": Measure("ndcg", f"{_DCG}, divided by the DCG of the best possible order; {_LINEAR}.", graded=True),
    "ndcg_exp": Measure(
        "ndcg_burges", f"{_DCG}, divided by the DCG of the best possible order; {_EXPONENTIAL}.", graded=True
    ),
    "dcg": Measure("dcg", f"{_DCG}; {_LINEAR}.", graded=True, most=None),
    "dcg_exp": Measure("dcg_burges", f"{_DCG}; {_EXPONENTIAL}.", graded=True, most=None),
    "map": Measure("average_precision", "Average precision: the sum of precision at each relevant hit / all relevant."),
    "mrr": Measure("reciprocal_rank", "Reciprocal rank: 1 / rank of the first relevant hit."),
    "recall": Measure("recall", "Relevant hits / all relevant."),
    "precision": Measure("precision", "Relevant hits / the cut-off, or / all hits where there is no cut-off."),
    "f1": Measure("f1", "2 x precision x recall / (precision + recall)."),
    "hits": Measure("hits", "The number of relevant hits.", most=None),
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

    @property
    def most(self) -> float | None:
        """The greatest value there can be, None where there is none."""
        counted = self.measure == "hits" and self.cutoff is not None
        return self.cutoff if counted else MEASURES[self.measure].most

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


Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Relevant:
    """The relevant items of the queries that have any, those of a query side by side; `starts` are where it begins."""

    queries: tuple[str, ...]
    items: tuple[str, ...]
    grades: Floats
    starts: Ints

    @classmethod
    def of(cls, split: QuerySplit) -> Relevant:
        wanted = {
            query: sorted((item, grade) for item, grade in split.grades.get(query, {}).items() if grade > 0)
            for query in split.queries
        }
        wanted = {query: pairs for query, pairs in wanted.items() if pairs}
        if not wanted:
            raise InputError(
                f"No query of the split {split.name!r} has a relevant item, so no ranking can score. Label some first, "
                "or take another split."
            )
        flat = [pair for pairs in wanted.values() for pair in pairs]
        lengths = np.array([len(pairs) for pairs in wanted.values()], dtype=np.int64)
        return cls(
            tuple(wanted),
            tuple(item for item, _ in flat),
            np.array([grade for _, grade in flat], dtype=np.float64),
            np.cumsum(lengths) - lengths,
        )

    def rows(self) -> Iterator[tuple[str, int, int]]:
        """Each query, and where its items begin and end."""
        ends = [*self.starts.tolist()[1:], len(self.items)]
        return zip(self.queries, self.starts.tolist(), ends, strict=True)

    def per_query(self, terms: Any) -> Any:
        """The terms added up by query: rankings x queries."""
        return np.add.reduceat(terms, self.starts, axis=-1)


@dataclass(frozen=True, eq=False)
class RelevantRanks:
    """The place of each relevant item in each ranking, from 1, and 0 where it is not there: rankings x items.

    `deepest` is the last place that was looked at, None for all.
    """

    relevant: Relevant
    ranks: NDArray[np.int32]
    deepest: int | None = None

    def values(self, metric: Metric | str) -> Floats:
        """The metric, rankings x queries; 0 where no item of a query has the metric's least grade."""
        asked = Metric.of(metric)
        cut = cut_off(asked)
        if self.deepest is not None and (cut is None or cut > self.deepest):
            raise SpecError(f"{asked} looks beyond place {self.deepest}, where this sweep ended. Sweep deeper for it.")
        counted = self.relevant.grades >= asked.least
        seen = (self.ranks > 0) & (True if cut is None else self.ranks <= cut) & counted
        made: Floats = FORMULAS[asked.measure](_Seen(self.relevant, self.ranks, seen, counted, cut))
        return made


def cut_off(metric: Metric | str) -> int | None:
    """The last place that a metric looks at; refuses one that does not follow from places."""
    asked = Metric.of(metric)
    if asked.measure not in FORMULAS or asked.level != "items":
        raise UnknownName("metric of a weight surface", str(asked), FORMULAS)
    if asked.measure == "precision" and asked.cutoff is None:
        raise SpecError("A weight surface of precision needs a cut-off, as in precision@10.")
    return asked.cutoff


@dataclass(frozen=True, eq=False)
class _Seen:
    """`seen` are the places within the cut-off, `counted` the items of the least grade."""

    relevant: Relevant
    ranks: NDArray[np.int32]
    seen: NDArray[np.bool_]
    counted: NDArray[np.bool_]
    cut: int | None

    @property
    def hits(self) -> Any:
        return self.relevant.per_query(self.seen.astype(np.float64))

    @property
    def share(self) -> Any:
        """What one of a query's relevant items is of all of them."""
        return 1.0 / np.maximum(self.relevant.per_query(self.counted.astype(np.float64)), 1.0)


def _ndcg(gain: Callable[[Floats], Floats]) -> Callable[[_Seen], Any]:
    """Discounted by log2(1 + place): Järvelin and Kekäläinen, ACM TOIS 2002, as trec_eval has it."""

    def formula(given: _Seen) -> Any:
        gains = np.where(given.counted, gain(given.relevant.grades), 0.0)
        ideal = np.array([_best(gains[begin:end], given.cut) for _, begin, end in given.relevant.rows()])
        discounts = np.log2(np.where(given.seen, given.ranks, 1) + 1.0)
        found = given.relevant.per_query(np.where(given.seen, gains / discounts, 0.0))
        return found / np.where(ideal > 0, ideal, 1.0)

    return formula


def _best(gains: Floats, cut: int | None) -> float:
    """The gain of the best possible order."""
    best = np.sort(gains)[::-1][:cut]
    return float((best / np.log2(np.arange(2, len(best) + 2))).sum())


def _mrr(given: _Seen) -> Any:
    reciprocal = np.divide(1.0, given.ranks, out=np.zeros(given.ranks.shape), where=given.seen)
    return np.maximum.reduceat(reciprocal, given.relevant.starts, axis=-1)


def _average_precision(given: _Seen) -> Any:
    """The n-th relevant item adds n / its place; all relevant items count, found or not."""
    terms = np.zeros(given.seen.shape)
    for _, begin, end in given.relevant.rows():
        ranks = np.sort(np.where(given.seen[:, begin:end], given.ranks[:, begin:end], np.inf), axis=-1)
        terms[:, begin:end] = np.arange(1, end - begin + 1) / ranks
    return given.relevant.per_query(terms) * given.share


FORMULAS: Final[Mapping[str, Callable[[_Seen], Any]]] = {
    "ndcg": _ndcg(lambda grades: grades),
    "ndcg_exp": _ndcg(lambda grades: 2.0**grades - 1),
    "mrr": _mrr,
    "recall": lambda given: given.hits * given.share,
    "precision": lambda given: given.hits / given.cut,
    "map": _average_precision,
    "hits": lambda given: given.hits,
    "hit_rate": lambda given: (given.hits > 0).astype(np.float64),
}
