"""The places of relevant items in many rankings at once, as arrays: what a weight surface is computed of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.errors import InputError
from evals.types import QuerySplit

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
class SeenRanks:
    """`ranks` are places from 1, and 0 where an item is not there: rankings x items.

    `seen` are the places within the cut-off, `counted` the items of the least grade.
    """

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


def ndcg(gain: Callable[[Floats], Floats]) -> Callable[[SeenRanks], Any]:
    """Discounted by log2(1 + place): Järvelin and Kekäläinen, ACM TOIS 2002, as trec_eval has it."""

    def best(gains: Floats, cut: int | None) -> float:
        """The gain of the best possible order."""
        first = np.sort(gains)[::-1][:cut]
        return float((first / np.log2(np.arange(2, len(first) + 2))).sum())

    def formula(ranked: SeenRanks) -> Any:
        gains = np.where(ranked.counted, gain(ranked.relevant.grades), 0.0)
        ideal = np.array([best(gains[begin:end], ranked.cut) for _, begin, end in ranked.relevant.rows()])
        discounts = np.log2(np.where(ranked.seen, ranked.ranks, 1) + 1.0)
        found = ranked.relevant.per_query(np.where(ranked.seen, gains / discounts, 0.0))
        return found / np.where(ideal > 0, ideal, 1.0)

    return formula


def reciprocal_rank(ranked: SeenRanks) -> Any:
    reciprocal = np.divide(1.0, ranked.ranks, out=np.zeros(ranked.ranks.shape), where=ranked.seen)
    return np.maximum.reduceat(reciprocal, ranked.relevant.starts, axis=-1)


def average_precision(ranked: SeenRanks) -> Any:
    """The n-th relevant item adds n / its place; all relevant items count, found or not."""
    terms = np.zeros(ranked.seen.shape)
    for _, begin, end in ranked.relevant.rows():
        ranks = np.sort(np.where(ranked.seen[:, begin:end], ranked.ranks[:, begin:end], np.inf), axis=-1)
        terms[:, begin:end] = np.arange(1, end - begin + 1) / ranks
    return ranked.relevant.per_query(terms) * ranked.share
