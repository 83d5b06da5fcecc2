"""Metrics from the places of relevant items alone, for many rankings at once.

Owns the formulas over arrays, held by tests to `evals.metrics` at 1e-9; it must not know how the places came about.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from core.errors import InputError, SpecError, UnknownName
from evals.metric_names import Metric
from evals.splits import Split

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
    def of(cls, split: Split) -> Relevant:
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
class Places:
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
