"""Fused orders of all queries at once, to the last bit what `core.fusion` gives one by one.

Owns each leg's part in a candidate's score and the order of candidates. Its numbers come from `core.fusion` itself: no
formula is written down twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from core.errors import SpecError
from core.fusion import Fusion, LegRanking, LinearFusion
from core.fusion.additive import Additive
from core.fusion.rankwise import Rankwise
from evals.weights.arrays import Arrays, Floats, Ints


def separable(fusion: Fusion) -> bool:
    """Whether what a leg adds depends on nothing but that leg: its weight, its ranks and its scores."""
    if not isinstance(fusion, Additive):
        return False
    own: type[Additive] = type(fusion)
    return own.spread is Additive.spread and own.columns in (Rankwise.columns, LinearFusion.columns)


def table(arrays: Arrays, fusion: Fusion, leg: int, ranking: LegRanking) -> Floats:
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


def before(arrays: Arrays, asked: Sequence[int]) -> Ints:
    """Each candidate's rank in the first of these legs that has it."""
    found = np.zeros_like(arrays.candidates)
    for leg in reversed(asked):
        found = np.where(arrays.ranks[leg] > 0, arrays.ranks[leg], found)
    return found


@dataclass(frozen=True, eq=False)
class Ordered:
    """Fused rankings: units best first, with the formula's scores and the relative ones. `counts` are rows' lengths."""

    units: Ints
    scores: Floats
    relative: Floats
    counts: Ints


def ordered(arrays: Arrays, fusion: Fusion, weights: Sequence[float]) -> Ordered:
    """What `fusion.fuse` gives for each query, to the last bit; at once where a leg's part depends on it alone."""
    if not separable(fusion):
        return _one_by_one(arrays, fusion, weights)
    hollow = arrays.hollow(weights)
    there = arrays.candidates >= 0
    scores: Floats = np.zeros(arrays.candidates.shape)
    with np.errstate(over="ignore", invalid="ignore"):  # looked at below
        for leg, ranking in enumerate(hollow):
            if fusion.weight_of(ranking) > 0:
                scores += np.take_along_axis(table(arrays, fusion, leg, ranking), arrays.ranks[leg], axis=1)
                if fusion.absent == "drop":
                    there = there & (arrays.ranks[leg] > 0)
    ceiling = fusion.ceiling(hollow)
    _refuse_overflow(scores[there], ceiling)
    order = _order(np.where(there, scores, -np.inf), before(arrays, fusion.tie_order(hollow)))
    units, scores = np.take_along_axis(arrays.candidates, order, axis=1), np.take_along_axis(scores, order, axis=1)
    return Ordered(units, scores, _relative(scores, ceiling), there.sum(axis=1))


def _order(scores: Floats, ranks: Ints) -> Ints:
    """Score descending, then the rank, then the unit, by which columns stand already: both sorts are stable."""
    first = np.argsort(ranks, axis=1, kind="stable")
    second = np.argsort(-np.take_along_axis(scores, first, axis=1), axis=1, kind="stable")
    return np.take_along_axis(first, second, axis=1)


def _relative(scores: Floats, ceiling: float | None) -> Floats:
    if ceiling is None:
        return scores
    with np.errstate(over="ignore", invalid="ignore"):  # of what is beyond the rows' lengths
        return np.minimum(scores / ceiling, 1.0) if ceiling != 0 else np.zeros_like(scores)


def _one_by_one(arrays: Arrays, fusion: Fusion, weights: Sequence[float]) -> Ordered:
    """The way of every method whose parts hang together."""
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
    return Ordered(units, scores, relative, counts)


def _refuse_overflow(scores: Floats, ceiling: float | None) -> None:
    if not (np.isfinite(scores).all() and np.isfinite(ceiling or 0.0)):
        raise SpecError(
            "The weighted scores of these legs add up to more than a floating-point number holds. "
            "Lower the weights, or normalise the scores."
        )
