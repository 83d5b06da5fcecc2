"""All queries of a split fused at once, as arrays, to the last bit as a search fuses each.

The numbers come from `core.fusion`: no formula is repeated here.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import Self

import numpy as np
from numpy.typing import NDArray

from core.errors import SpecError
from core.fusion import Fusion, LegRanking, LinearFusion
from core.fusion.base import Additive, total
from core.fusion.normalise import OF_SCORES, Normalisation, normalised
from core.fusion.rank_based import Rankwise
from core.types import Candidate
from core.variant import Rollup, Variant
from evals.measures import Metric
from evals.runs.rankings import LegRankings, Ranking, UnitTable

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class FusionArrays:
    """The legs' rankings of all queries as arrays.

    `units` are in the order of their bytes, so that a unit's number decides between equal scores; -1 fills rows up.

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
    def of(cls, legs: Sequence[LegRankings], queries: Sequence[str] | None = None) -> FusionArrays:
        """The queries in the order given, by default all that any leg was run for, by their ids."""
        for name, times in Counter(leg.name for leg in legs).items():
            if times > 1:
                raise SpecError(
                    f"{times} legs are called {name!r}, so nobody could tell whose score is whose. Rename one."
                )
        if queries is None:
            queries = sorted({each for leg in legs for each in (*leg.rankings, *leg.failures)})
        answered = tuple(each for each in queries if all(each in leg.rankings for leg in legs))
        failed = tuple(each for each in queries if each not in set(answered))
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
    def pool(self) -> UnitTable:
        """The units as rankings made of them share them."""
        return UnitTable(self.units, self.items if self.chunked else (), self.spans)

    def rows(self, chosen: Sequence[int]) -> FusionArrays:
        """The same for some of the queries."""
        at = np.asarray(chosen, dtype=np.int64)
        return FusionArrays(
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
        """The legs with their weights and without candidates: enough for a fusion to say which of them count."""
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
                scores = self.scores[leg, row, :count].tolist()
                if how in OF_SCORES:
                    made[leg, row, :count] = OF_SCORES[how](scores)
                    continue
                candidates = tuple(Candidate(str(at), each) for at, each in enumerate(scores))
                ranking = LegRanking(self.names[leg], 1.0, candidates, self.legs[leg].leg.bounds)
                made[leg, row, :count] = normalised(ranking, how)
            self._values[how] = made
        return self._values[how]


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
    """The arrays of candidates, ranks, scores and counts."""
    number: Mapping[str, int] = {unit: at for at, unit in enumerate(units)}
    found = [[leg.rankings[query] for query in queries] for leg in legs]
    counts = np.array([[ranking.length for ranking in row] for row in found], dtype=np.int64)
    counts = counts.reshape(len(legs), len(queries))
    depth = int(counts.max(initial=0))
    within = np.arange(depth) < counts[:, :, None]
    leg, row, place = np.nonzero(within)
    scores = np.full(within.shape, np.nan)
    scores[within] = np.concatenate([np.zeros(0), *(ranking.values for row in found for ranking in row)])
    ids = chain.from_iterable(ranking.ids for row in found for ranking in row)
    codes = np.fromiter(map(number.__getitem__, ids), np.int64, count=len(row))
    pairs, which = np.unique(row * max(len(units), 1) + codes, return_inverse=True)
    rows, codes = np.divmod(pairs, max(len(units), 1))
    column = np.arange(len(pairs)) - np.searchsorted(rows, np.arange(len(queries)))[rows]
    width = int(column.max(initial=-1)) + 1
    candidates = np.full((len(queries), width), -1, dtype=np.int64)
    candidates[rows, column] = codes
    ranks = np.zeros((len(legs), len(queries), width), dtype=np.int64)
    ranks[leg, row, column[which]] = place + 1
    if np.count_nonzero(ranks) < len(row) or not np.isfinite(scores[within]).all():
        for each in legs:  # a unit occurs twice, or a score is no number: `core.fusion` says which
            for query in queries:
                ranking = each.rankings[query]
                LegRanking(each.name, 1.0, tuple(map(Candidate, ranking.ids, ranking.scores)))
    return candidates, ranks, scores, counts


def separable(fusion: Fusion) -> bool:
    """Whether what a leg adds depends on nothing but that leg: its weight, its ranks and its scores."""
    if not isinstance(fusion, Additive):
        return False
    own: type[Additive] = type(fusion)
    return own.spread is Additive.spread and own.contribution in (Rankwise.contribution, LinearFusion.contribution)


def table(arrays: FusionArrays, fusion: Fusion, leg: int, ranking: LegRanking) -> Floats:
    """What a leg adds by rank, queries x (1 + depth); at 0 what it adds to a document that it did not return."""
    counts, depth = arrays.counts[leg], arrays.scores.shape[2]
    made = np.zeros((len(arrays.queries), depth + 1))
    if isinstance(fusion, Rankwise):
        shares = np.array([fusion.share(ranking, place) for place in range(depth + 1)])
        made[:, 1:] = shares[:depth]
        if fusion.absent == "bottom_rank":
            made[:, 0] = shares[counts]
    elif isinstance(fusion, LinearFusion):
        values, weight = arrays.values(fusion.normalize)[leg], fusion.weight_of(ranking)
        made[:, 1:] = weight * values
        if fusion.absent == "least":
            beyond = np.arange(depth) >= counts[:, None]
            least = np.where(beyond, np.inf, values).min(axis=1, initial=np.inf)
            made[:, 0] = weight * np.where(counts > 0, least, 0.0)
    return made


def before(arrays: FusionArrays, legs: Sequence[int]) -> Ints:
    """Each candidate's rank in the first of these legs that has it."""
    found = np.zeros_like(arrays.candidates)
    for leg in reversed(legs):
        found = np.where(arrays.ranks[leg] > 0, arrays.ranks[leg], found)
    return found


@dataclass(frozen=True, eq=False)
class FusedOrder:
    """Fused rankings: units best first, with the formula's scores and the relative ones. `counts` are rows' lengths."""

    units: Ints
    scores: Floats
    relative: Floats
    counts: Ints


def ordered(arrays: FusionArrays, fusion: Fusion, weights: Sequence[float]) -> FusedOrder:
    """What `fusion.fuse` gives for each query, to the last bit; at once where a leg's part depends on it alone."""
    if not separable(fusion):
        return _one_by_one(arrays, fusion, weights)
    hollow = arrays.hollow(weights)
    there = arrays.candidates >= 0
    scores: Floats = np.zeros(arrays.candidates.shape)
    with np.errstate(over="ignore", invalid="ignore"):  # checked below
        for leg, ranking in enumerate(hollow):
            if fusion.weight_of(ranking) > 0:
                scores += np.take_along_axis(table(arrays, fusion, leg, ranking), arrays.ranks[leg], axis=1)
                if fusion.absent == "drop":
                    there = there & (arrays.ranks[leg] > 0)
    ceiling = fusion.ceiling(hollow)
    if not (np.isfinite(scores[there]).all() and np.isfinite(ceiling or 0.0)):
        raise SpecError(
            "The weighted scores of these legs add up to more than a floating-point number holds. "
            "Lower the weights, or normalise the scores."
        )
    # Score descending, then the rank, then the unit, in whose order columns are already: both sorts are stable.
    first = np.argsort(before(arrays, fusion.tie_order(hollow)), axis=1, kind="stable")
    falling = -np.take_along_axis(np.where(there, scores, -np.inf), first, axis=1)
    order = np.take_along_axis(first, np.argsort(falling, axis=1, kind="stable"), axis=1)
    units, scores = np.take_along_axis(arrays.candidates, order, axis=1), np.take_along_axis(scores, order, axis=1)
    relative = scores
    if ceiling is not None:
        with np.errstate(over="ignore", invalid="ignore"):  # of what is beyond the rows' lengths
            relative = np.minimum(scores / ceiling, 1.0) if ceiling != 0 else np.zeros_like(scores)
    return FusedOrder(units, scores, relative, there.sum(axis=1))


def _one_by_one(arrays: FusionArrays, fusion: Fusion, weights: Sequence[float]) -> FusedOrder:
    """For every method in which what a leg adds depends on the others."""
    arrays.hollow(weights)
    number = {unit: at for at, unit in enumerate(arrays.units)}
    units = np.full_like(arrays.candidates, -1)
    scores, relative = np.zeros(units.shape), np.zeros(units.shape)
    counts = np.zeros(len(units), dtype=np.int64)
    for row in range(len(units)):
        found = fusion.fuse(arrays.rankings(row, weights))
        counts[row] = len(found)
        units[row, : len(found)] = [number[each.id] for each in found]
        scores[row, : len(found)] = [each.score for each in found]
        relative[row, : len(found)] = [each.relative for each in found]
    return FusedOrder(units, scores, relative, counts)


Weights = Sequence[float] | Mapping[str, Sequence[float]]  # the legs' weights, for all queries or by query id


@dataclass(frozen=True, slots=True)
class ResultCut:
    """What is left of a fused ranking: cut to `fused_depth` units, rolled up, without low scores, cut to `depth`."""

    depth: int | None = None
    fused_depth: int | None = None
    rollup: Rollup | None = None
    min_score: float = -math.inf

    @classmethod
    def of(cls, variant: Variant) -> Self:
        """As the variant ships."""
        return cls(variant.top_k, variant.fused_depth, variant.rollup, variant.min_score)

    def lifted(self) -> ResultCut:
        """The same candidates without the last cut."""
        return replace(self, depth=None)

    def seen_by(self, metric: Metric | str) -> ResultCut:
        """The last cut is lifted for a metric that looks beyond it."""
        beyond = self.depth is not None and (Metric.of(metric).cutoff or 0) > self.depth
        return self.lifted() if beyond else self


EVERYTHING, NOTHING = ResultCut(), Ranking()


def fuse_all(
    legs: Sequence[LegRankings] | FusionArrays,
    fusion: Fusion,
    weights: Weights | None = None,
    cut: ResultCut = EVERYTHING,
) -> dict[str, Ranking]:
    """Every query's ranking with relative scores, as a search would give it; empty where a leg failed to answer.

    Weights are by default the legs' own. For several fusions of the same legs hand over `FusionArrays.of(legs)`.
    """
    arrays = legs if isinstance(legs, FusionArrays) else FusionArrays.of(legs)
    own = tuple(leg.leg.weight for leg in arrays.legs)
    groups: dict[tuple[float, ...], list[int]] = {}  # the rows of the queries that share their weights
    for row, query in enumerate(arrays.queries):
        each = weights.get(query, own) if isinstance(weights, Mapping) else own if weights is None else weights
        groups.setdefault(tuple(each), []).append(row)
    found: dict[str, Ranking] = {}
    for shares, rows in groups.items():
        part = arrays if len(rows) == len(arrays.queries) else arrays.rows(rows)
        order = ordered(part, fusion, shares)
        found |= {query: _cut(part, order, row, cut) for row, query in enumerate(part.queries)}
    return {query: found.get(query, NOTHING) for query in sorted((*arrays.queries, *arrays.unanswered))}


def _cut(arrays: FusionArrays, order: FusedOrder, row: int, cut: ResultCut) -> Ranking:
    """What is left of one row; copied, or it would hold on to all that is beyond."""
    length = int(order.counts[row])
    length = min(length, cut.fused_depth or length)
    units, scores = order.units[row, :length], order.relative[row, :length]
    if cut.rollup is not None:
        best, sums = _rolled_up(arrays, units.tolist(), scores.tolist(), cut.rollup)
        units, scores = np.array(best, dtype=np.int64), np.array(sums, dtype=np.float64)
    if cut.min_score > -math.inf:
        enough = scores >= cut.min_score
        units, scores = units[enough], scores[enough]
    return Ranking.among(arrays.pool, units[: cut.depth].astype(np.int32), scores[: cut.depth].copy())


def _rolled_up(
    arrays: FusionArrays, units: list[int], scores: list[float], rollup: Rollup
) -> tuple[list[int], list[float]]:
    """The best unit of each item; Python's sort keeps equal scores in the order of those."""
    of_item: dict[str, list[tuple[int, float]]] = {}
    for unit, score in zip(units, scores, strict=True):
        of_item.setdefault(arrays.items[unit], []).append((unit, score))
    if rollup.method == "best":
        pairs = [own[0] for own in of_item.values()]
    else:
        summed = [(own[0][0], total(score for _, score in own[: rollup.of_best])) for own in of_item.values()]
        pairs = sorted(summed, key=lambda pair: -pair[1])
    return [unit for unit, _ in pairs], [score for _, score in pairs]
