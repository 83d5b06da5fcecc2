"""What several legs found for all queries of a split, as arrays: queries x candidates, one rank for each leg.

Owns the layout and the legs' normalised scores, which are made once for all fusions. It must not know how a fusion adds
up, nor labels.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.errors import SpecError
from core.fusion import LegRanking
from core.fusion.normalise import OF_SCORES, Normalisation, normalised
from core.legs.base import Candidate
from evals.rankings import LegRankings, Ranked, Units

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Arrays:
    """`units` are in the order of their bytes, so a unit's number is its place among equals; -1 fills rows up.

    `candidates` holds each query's units in that order, `ranks` their ranks by leg, from 1, and 0 where the leg did not
    return them. `scores` are the legs' own, best first. `unanswered` are queries that a leg failed at.
    """

    legs: tuple[LegRankings, ...]
    queries: tuple[str, ...]
    unanswered: tuple[str, ...]
    units: tuple[str, ...]
    items: tuple[str, ...]  # of each unit
    spans: tuple[tuple[int, int], ...]  # of each unit, where units are chunks
    candidates: Ints  # queries x candidates
    ranks: Ints  # legs x queries x candidates
    scores: Floats  # legs x queries x depth
    counts: Ints  # legs x queries
    _values: dict[str, Floats] = field(default_factory=dict)

    @classmethod
    def of(cls, legs: Sequence[LegRankings], queries: Sequence[str] | None = None) -> Arrays:
        """The queries in the order given, by default all that any leg was asked, by their ids."""
        _refuse_namesakes(legs)
        asked = (
            sorted({each for leg in legs for each in (*leg.rankings, *leg.failures)}) if queries is None else queries
        )
        answered = tuple(each for each in asked if all(each in leg.rankings for leg in legs))
        failed = tuple(each for each in asked if each not in set(answered))
        units, items, spans = _units(legs, answered)
        candidates, ranks, scores, counts = _laid_out(legs, answered, units)
        return cls(tuple(legs), answered, failed, units, items, spans, candidates, ranks, scores, counts)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(leg.name for leg in self.legs)

    @property
    def chunked(self) -> bool:
        """Whether units are parts of items."""
        return self.items != self.units

    @cached_property
    def pool(self) -> Units:
        """The units as rankings made of them share them."""
        return Units(self.units, self.items if self.chunked else (), self.spans)

    def rows(self, chosen: Sequence[int]) -> Arrays:
        """The same for some of the queries."""
        at = np.asarray(chosen, dtype=np.int64)
        return Arrays(
            self.legs,
            tuple(self.queries[row] for row in chosen),
            (),
            self.units,
            self.items,
            self.spans,
            self.candidates[at],
            self.ranks[:, at],
            self.scores[:, at],
            self.counts[:, at],
            {how: values[:, at] for how, values in self._values.items()},
        )

    def rankings(self, row: int, weights: Sequence[float]) -> list[LegRanking]:
        """One query as `core.fusion` takes it."""
        found = [leg.rankings[self.queries[row]] for leg in self.legs]
        return [
            LegRanking(leg.name, weight, tuple(map(Candidate, ranked.ids, ranked.scores)), leg.leg.bounds)
            for leg, weight, ranked in zip(self.legs, weights, found, strict=True)
        ]

    def hollow(self, weights: Sequence[float]) -> list[LegRanking]:
        """The legs with their weights and nothing found: all that a fusion needs to say who has a say."""
        if len(weights) != len(self.legs):
            raise SpecError(f"{len(weights)} weights were given for {len(self.legs)} legs: {', '.join(self.names)}.")
        return [
            LegRanking(leg.name, weight, (), leg.leg.bounds) for leg, weight in zip(self.legs, weights, strict=True)
        ]

    def values(self, how: Normalisation) -> Floats:
        """Every leg's normalised scores by place, legs x queries x depth, 0 beyond what it found. Made once."""
        if how not in self._values:
            made = np.zeros(self.scores.shape)
            for leg, row in np.ndindex(self.counts.shape):
                count = int(self.counts[leg, row])
                made[leg, row, :count] = self._normalised(leg, row, count, how)
            self._values[how] = made
        return self._values[how]

    def _normalised(self, leg: int, row: int, count: int, how: Normalisation) -> list[float]:
        scores = self.scores[leg, row, :count].tolist()
        if how in OF_SCORES:
            return OF_SCORES[how](scores)
        bounds = self.legs[leg].leg.bounds
        ranking = LegRanking(self.names[leg], 1.0, [Candidate(str(at), each) for at, each in enumerate(scores)], bounds)
        return normalised(ranking, how)


def _refuse_namesakes(legs: Sequence[LegRankings]) -> None:
    for name, times in Counter(leg.name for leg in legs).items():
        if times > 1:
            raise SpecError(f"{times} legs are called {name!r}, so nobody could tell whose score is whose. Rename one.")


def _units(
    legs: Sequence[LegRankings], queries: Sequence[str]
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[tuple[int, int], ...]]:
    """Every unit once, with its item and its span. Python orders strings by code point, as UTF-8 orders bytes."""
    items: dict[str, str] = {}
    spans: dict[str, tuple[int, int]] = {}
    for leg in legs:
        for query in queries:
            ranked = leg.rankings[query]
            items.update(zip(ranked.ids, ranked.items or ranked.ids, strict=True))
            if ranked.spans:
                spans.update(zip(ranked.ids, ranked.spans, strict=True))
    units = tuple(sorted(items))
    placed = tuple(spans[unit] for unit in units) if len(spans) == len(units) else ()
    return units, tuple(items[unit] for unit in units), placed


def _laid_out(
    legs: Sequence[LegRankings], queries: Sequence[str], units: Sequence[str]
) -> tuple[Ints, Ints, Floats, Ints]:
    number: Mapping[str, int] = {unit: at for at, unit in enumerate(units)}
    found = [[leg.rankings[query] for query in queries] for leg in legs]
    counts = np.array([[ranked.length for ranked in row] for row in found], dtype=np.int64)
    counts = counts.reshape(len(legs), len(queries))
    depth = int(counts.max(initial=0))
    within = np.arange(depth) < counts[:, :, None]
    leg, row, place = np.nonzero(within)
    scores = np.full(within.shape, np.nan)
    scores[within] = np.concatenate([np.zeros(0), *(ranked.values for row in found for ranked in row)])
    codes = np.fromiter(map(number.__getitem__, _chained(found, "ids")), np.int64, count=len(row))
    pairs, which = np.unique(row * max(len(units), 1) + codes, return_inverse=True)
    rows, codes = np.divmod(pairs, max(len(units), 1))
    column = np.arange(len(pairs)) - np.searchsorted(rows, np.arange(len(queries)))[rows]
    width = int(column.max(initial=-1)) + 1
    candidates = np.full((len(queries), width), -1, dtype=np.int64)
    candidates[rows, column] = codes
    ranks = np.zeros((len(legs), len(queries), width), dtype=np.int64)
    ranks[leg, row, column[which]] = place + 1
    if np.count_nonzero(ranks) < len(row) or not np.isfinite(scores[within]).all():
        _refuse_flawed(legs, queries)
    return candidates, ranks, scores, counts


def _chained(found: Sequence[Sequence[Ranked]], what: str) -> Any:
    return chain.from_iterable(getattr(ranked, what) for row in found for ranked in row)


def _refuse_flawed(legs: Sequence[LegRankings], queries: Sequence[str]) -> None:
    """A unit twice, or a score that is no number: `core.fusion` says which."""
    for leg in legs:
        for query in queries:
            ranked = leg.rankings[query]
            LegRanking(leg.name, 1.0, tuple(map(Candidate, ranked.ids, ranked.scores)))
