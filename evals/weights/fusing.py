"""Fused rankings of a whole split from what its legs found: what a variant without a reranker comes to.

Owns what happens between the fusion and the result, as `core.retriever` does it, for every query at once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from core.fusion import Fusion
from core.fusion.base import total
from core.variant import Rollup, Variant
from evals.rankings import LegRankings, Ranked
from evals.weights.arrays import Arrays
from evals.weights.orders import Ordered, ordered

Weights = Sequence[float] | Mapping[str, Sequence[float]]  # the legs' weights, for all queries or by query id


@dataclass(frozen=True, slots=True)
class Cut:
    """What is left of a fused ranking. `excluded` items of a query are taken out after fusing, before any cut.

    `depth` is how many come out, `fused_depth` how many units go on to the roll-up, None for all.
    """

    depth: int | None = None
    fused_depth: int | None = None
    rollup: Rollup | None = None
    min_score: float = -math.inf
    excluded: Mapping[str, frozenset[str]] | None = None

    @classmethod
    def of(cls, variant: Variant, excluded: Mapping[str, frozenset[str]] | None = None) -> Self:
        return cls(variant.top_k, variant.fused_depth, variant.rollup, variant.min_score, excluded)


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
    plain = cut.rollup is None and not cut.excluded
    made = {}
    for row, query in enumerate(arrays.queries):
        length = int(found.counts[row])
        if plain:
            length = min(length, cut.fused_depth or length, cut.depth or length)
        units, scores = found.units[row, :length].tolist(), found.relative[row, :length].tolist()
        if not plain:
            units, scores = _narrowed(arrays, query, units, scores, cut)
        made[query] = _ranked(arrays, units, scores, cut)
    return made


def _narrowed(
    arrays: Arrays, query: str, units: list[int], scores: list[float], cut: Cut
) -> tuple[list[int], list[float]]:
    """Without what is excluded, cut to the fused depth, rolled up."""
    shut = (cut.excluded or {}).get(query, frozenset())
    pairs = [(unit, score) for unit, score in zip(units, scores, strict=True) if arrays.items[unit] not in shut]
    pairs = pairs[: cut.fused_depth or len(pairs)]
    if cut.rollup is not None:
        pairs = _rolled_up(arrays, pairs, cut.rollup)
    return [unit for unit, _ in pairs], [score for _, score in pairs]


def _rolled_up(arrays: Arrays, pairs: list[tuple[int, float]], rollup: Rollup) -> list[tuple[int, float]]:
    """The best unit of each item; Python's sort keeps equal scores in the order of those."""
    of_item: dict[str, list[tuple[int, float]]] = {}
    for pair in pairs:
        of_item.setdefault(arrays.items[pair[0]], []).append(pair)
    if rollup.method == "best":
        return [own[0] for own in of_item.values()]
    summed = [(own[0][0], total(score for _, score in own[: rollup.of_best])) for own in of_item.values()]
    return sorted(summed, key=lambda pair: -pair[1])


def _ranked(arrays: Arrays, units: list[int], scores: list[float], cut: Cut) -> Ranked:
    kept = [at for at, score in enumerate(scores) if score >= cut.min_score][: cut.depth]
    chosen = [units[at] for at in kept]
    return Ranked(
        tuple(arrays.units[unit] for unit in chosen),
        tuple(scores[at] for at in kept),
        tuple(arrays.items[unit] for unit in chosen) if arrays.chunked else (),
        tuple(arrays.spans[unit] for unit in chosen) if arrays.spans else (),
    )
