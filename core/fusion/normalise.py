"""Normalisations: what makes the scores of different legs comparable. Pure functions of one leg's scores, best first.

Each gives one number per score, keeps their order, and says what becomes of one hit alone or of equal scores. Affine
ones first scale by a power of two, which changes no digit and keeps 1e300 from overflowing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal

from core.errors import SpecError
from core.fusion.base import LegRanking

Normalisation = Literal["minmax", "theoretical-minmax", "bounds", "zscore", "sigmoid", "dbsf", "rank", "sum", "none"]
NORMALISE_HELP = (
    "What makes scores comparable: minmax (least 0, greatest 1), theoretical-minmax (0 is the least the leg could "
    "give), bounds (both ends theoretical), zscore, sigmoid, dbsf (mean +- 3 deviations), rank, sum (shares), none."
)
BOUNDED = frozenset({"minmax", "theoretical-minmax", "bounds", "sigmoid", "rank", "sum"})  # into [0, 1]


def normalised(ranking: LegRanking, how: Normalisation) -> list[float]:
    """The leg's scores, normalised."""
    scores = [candidate.score for candidate in ranking.candidates]
    if how == "theoretical-minmax":
        return theoretical_minmax(scores, _bound(ranking, 0))
    if how == "bounds":
        return between(scores, _bound(ranking, 0), _bound(ranking, 1))
    return OF_SCORES[how](scores)


def minmax(scores: Sequence[float]) -> list[float]:
    """(x - min) / (max - min). Lee, "Analyses of multiple evidence combination", SIGIR 1997.

    Equal scores, one alone included, become 1: they are the leg's best, and 0 is what it did not find at all.
    """
    if not scores or min(scores) == max(scores):
        return [1.0] * len(scores)
    return between(scores, min(scores), max(scores))


def theoretical_minmax(scores: Sequence[float], least: float) -> list[float]:
    """(x - least) / (max - least), least being the infimum of the scoring function, not of what was found.

    Bruch, Gai and Ingber, "An Analysis of Fusion Functions for Hybrid Retrieval", ACM TOIS 2023. A score below the
    infimum, by rounding, counts as it; where none is above it, all become 0.
    """
    if not scores or max(scores) <= least:
        return [0.0] * len(scores)
    return between(scores, least, max(scores))


def between(scores: Sequence[float], least: float, greatest: float) -> list[float]:
    """(x - least) / (greatest - least), cut to [0, 1]; least below greatest."""
    shift = -math.frexp(max(abs(least), abs(greatest)))[1] - 1
    low, high = math.ldexp(least, shift), math.ldexp(greatest, shift)
    return [(math.ldexp(min(max(score, least), greatest), shift) - low) / (high - low) for score in scores]


def zscore(scores: Sequence[float]) -> list[float]:
    """(x - mean) / standard deviation of the population; "zero mean, unit variance" in Montague and Aslam,
    "Relevance score normalization for metasearch", CIKM 2001. Equal scores become 0.
    """
    return _standardised(scores, len(scores))


def dbsf(scores: Sequence[float]) -> list[float]:
    """(x - (mean - 3 sd)) / (6 sd), sd that of a sample: distribution-based score fusion, Mazzeschi 2023, as Qdrant
    has it. Not cut to [0, 1], as there. Equal scores become 0.5.
    """
    return [0.5 + deviation / 6 for deviation in _standardised(scores, len(scores) - 1)]


def sigmoid(scores: Sequence[float]) -> list[float]:
    """1 / (1 + exp(-x)), the logistic function of the raw score, written so that it cannot overflow."""
    return [1 / (1 + math.exp(-x)) if x >= 0 else math.exp(x) / (1 + math.exp(x)) for x in scores]


def rank(scores: Sequence[float]) -> list[float]:
    """1 - (rank - 1) / n. Lee, SIGIR 1997; Renda and Straccia, "Web metasearch: rank vs. score", SAC 2003."""
    return [1 - place / len(scores) for place in range(len(scores))]


def share(scores: Sequence[float]) -> list[float]:
    """(x - min) / sum of all (x - min): "sum" in Montague and Aslam, CIKM 2001. Equal scores share alike, 1 / n."""
    if not scores or min(scores) == max(scores):
        return [1 / len(scores) for _ in scores]
    above = between(scores, min(scores), max(scores))
    whole = math.fsum(above)
    return [part / whole for part in above]


def unchanged(scores: Sequence[float]) -> list[float]:
    """x, for scores that are comparable as they are."""
    return list(scores)


OF_SCORES: dict[str, Callable[[Sequence[float]], list[float]]] = {
    "minmax": minmax,
    "zscore": zscore,
    "dbsf": dbsf,
    "sigmoid": sigmoid,
    "rank": rank,
    "sum": share,
    "none": unchanged,
}


def _standardised(scores: Sequence[float], degrees: int) -> list[float]:
    if not scores or min(scores) == max(scores):  # asked of the scores: a mean of equals may be off by a last digit
        return [0.0] * len(scores)
    shift = -math.frexp(max(map(abs, scores)))[1]
    scaled = [math.ldexp(score, shift) for score in scores]
    mean = math.fsum(scaled) / len(scaled)
    deviation = math.sqrt(math.fsum((x - mean) ** 2 for x in scaled) / degrees)
    return [(x - mean) / deviation for x in scaled]


def _bound(ranking: LegRanking, end: Literal[0, 1]) -> float:
    bound = None if ranking.bounds is None else ranking.bounds[end]
    if bound is None or math.isinf(bound):
        raise SpecError(
            f"The leg {ranking.leg!r} has no theoretical {('least', 'greatest')[end]} score, which this normalisation "
            "needs. Use minmax, which takes the ends from what was found."
        )
    return bound
