"""Fused rankings of a whole split from what its legs found: what a variant without a reranker comes to.

Owns what happens between the fusion and the result, as `core.retriever` does it, for every query at once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from core.fusion import Fusion
from core.fusion.base import total
from core.variant import Rollup, Variant
from evals.metric_names import Metric
from evals.rankings import LegRankings, Ranked
from evals.weights.arrays import Arrays
from evals.weights.orders import Ordered, ordered

Weights = Sequence[float] | Mapping[str, Sequence[float]]  # the legs' weights, for all queries or by query id


@dataclass(frozen=True, slots=True)
class Cut:
    """What is left of a fused ranking: cut to `fused_depth` units, rolled up, without low scores, cut to `depth`."""

    depth: int | None = None
    fused_depth: int | None = None
    rollup: Rollup | None = None
    min_score: float = -math.inf

    @classmethod
    def of(cls, variant: Variant) -> Self:
        """As the variant ships."""
        return cls(variant.top_k, variant.fused_depth, variant.rollup, variant.min_score)

    def lifted(self) -> Cut:
        """The same candidates without the last cut."""
        return replace(self, depth=None)

    def seen_by(self, metric: Metric | str) -> Cut:
        """The last cut is lifted for a metric that looks beyond it."""
        beyond = self.depth is not None and (Metric.of(metric).cutoff or 0) > self.depth
        return self.lifted() if beyond else self


EVERYTHING, NOTHING = Cut(), Ranked()


def fused(
    legs: Sequence[LegRankings] | Arrays, fusion: Fusion, weights: Weights | None = None, cut: Cut = EVERYTHING
) -> dict[str, Ranked]:
    """Every query's ranking with relative scores, as a search would give it; empty where a leg failed to answer.

    Weights are by default the legs' own. For several fusions of the same legs hand over `Arrays.of(legs)`, made once.
    """
    arrays = legs if isinstance(legs, Arrays) else Arrays.of(legs)
    found: dict[str, Ranked] = {}
    for given, rows in _groups(arrays, weights).items():
        part = arrays if len(rows) == len(arrays.queries) else arrays.rows(rows)
        found |= _cut(part, ordered(part, fusion, given), cut)
    return {query: found.get(query, NOTHING) for query in sorted((*arrays.queries, *arrays.unanswered))}


def _groups(arrays: Arrays, weights: Weights | None) -> dict[tuple[float, ...], list[int]]:
    """The rows of the queries that share their weights."""
    own = tuple(leg.leg.weight for leg in arrays.legs)
    groups: dict[tuple[float, ...], list[int]] = {}
    for row, query in enumerate(arrays.queries):
        given = weights.get(query, own) if isinstance(weights, Mapping) else own if weights is None else weights
        groups.setdefault(tuple(given), []).append(row)
    return groups


def _cut(arrays: Arrays, found: Ordered, cut: Cut) -> dict[str, Ranked]:
    made = {}
    for row, query in enumerate(arrays.queries):
        length = int(found.counts[row])
        length = min(length, cut.fused_depth or length)
        if cut.rollup is None:
            made[query] = _first(arrays, found, row, length, cut)
            continue
        units, scores = found.units[row, :length].tolist(), found.relative[row, :length].tolist()
        made[query] = _ranked(arrays, *_rolled_up(arrays, units, scores, cut.rollup), cut)
    return made


def _first(arrays: Arrays, found: Ordered, row: int, length: int, cut: Cut) -> Ranked:
    """The best of one row, without low scores; copied, or it would hold on to all that is beyond."""
    units, scores = found.units[row, :length], found.relative[row, :length]
    if cut.min_score > -math.inf:
        enough = scores >= cut.min_score
        units, scores = units[enough], scores[enough]
    return Ranked.among(arrays.pool, units[: cut.depth].astype(np.int32), scores[: cut.depth].copy())


def _rolled_up(arrays: Arrays, units: list[int], scores: list[float], rollup: Rollup) -> tuple[list[int], list[float]]:
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


def _ranked(arrays: Arrays, units: list[int], scores: list[float], cut: Cut) -> Ranked:
    kept = [at for at, score in enumerate(scores) if score >= cut.min_score][: cut.depth]
    chosen = np.array([units[at] for at in kept], dtype=np.int32)
    return Ranked.among(arrays.pool, chosen, np.array([scores[at] for at in kept], dtype=np.float64))
