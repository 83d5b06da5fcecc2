"""Means, errors, effects and power of scores and of differences between them.

Arithmetic over plain arrays, queries along the last axis; it must not know systems' names, metrics or verdicts. Query
weights say how often a query is asked: every mean is a weighted mean, and a query of weight 0 is left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike, NDArray

from core.errors import InputError, SpecError

Floats = NDArray[np.float64]

SAMPLES = 10_000
SEED = 0

_CELLS = 1 << 20  # of a block of samples: 8 MB


def means(scores: ArrayLike, weights: ArrayLike | None = None) -> Floats:
    """The weighted mean of each row; NaN where no query counts."""
    rows, counts = checked(scores, weights)
    return weighted(rows, counts) if counts.size else np.full(len(rows), np.nan)


def standard_errors(differences: ArrayLike, weights: ArrayLike | None = None) -> Floats:
    """Of each row's weighted mean, a ratio of two sums (Cochran 1977, ch. 6); s / sqrt(n) where weights are equal."""
    rows, counts = checked(differences, weights)
    if counts.size < 2:
        return np.full(len(rows), np.nan)
    worth = effective(counts)
    spread = np.sqrt((influence(rows, counts) ** 2).sum(axis=1)) / counts.sum()
    return np.asarray(spread * math.sqrt(worth / max(worth - 1, 1e-9)))


def effect_sizes(differences: ArrayLike, weights: ArrayLike | None = None) -> Floats:
    """Cohen's d of paired differences: their mean over their standard deviation (Cohen 1988, d_z, section 2.3.5).

    NaN where they do not vary. Sakai 2014, doi:10.1145/2641383.2641385, on why a p alone does not do.
    """
    rows, counts = checked(differences, weights)
    if counts.size < 2:
        return np.full(len(rows), np.nan)
    centre = weighted(rows, counts)
    total = counts.sum() - (counts**2).sum() / counts.sum()  # n - 1, where weights are equal
    deviation = np.sqrt((counts * (rows - centre[:, None]) ** 2).sum(axis=1) / total)
    varies = deviation > 1e-12 * np.abs(rows).max(axis=1)
    return divided(centre, deviation, varies, math.nan)


def detectable(
    differences: ArrayLike, weights: ArrayLike | None = None, *, alpha: float = 0.05, power: float = 0.8
) -> Floats:
    """The smallest true difference that a two-sided test at `alpha` would find with this power.

    (t[1 - alpha/2] + t[power]) * standard error, n - 1 degrees of freedom (Bloom 1995, doi:10.1177/0193841X9501900504),
    the error being the pairs' own. NaN where they do not vary, or are fewer than two: then nothing is known of it.
    """
    from scipy import special

    check_share("alpha", alpha)
    check_share("power", power)
    errors = standard_errors(differences, weights)
    rows, counts = checked(differences, weights)
    if counts.size < 2:
        return errors
    freedom = max(effective(counts) - 1, 1e-9)
    found = (special.stdtrit(freedom, 1 - alpha / 2) + special.stdtrit(freedom, power)) * errors
    return np.where(errors > 1e-12 * np.abs(rows).max(axis=1), found, np.nan)


def effective_queries(weights: ArrayLike | None, queries: int) -> float:
    """As many queries of equal weight would say as much (Kish 1965, section 11.7)."""
    return effective(checked(np.empty((0, queries)), weights)[1])


def outcomes(differences: ArrayLike, weights: ArrayLike | None = None) -> NDArray[np.int64]:
    """Queries won, equal and lost by each row: [rows, 3]. They are counted, not weighed."""
    rows, _ = checked(differences, weights)
    equal = np.abs(rows) < 1e-12  # what rounding makes of two equal scores
    return np.stack([((rows > 0) & ~equal).sum(1), equal.sum(1), ((rows < 0) & ~equal).sum(1)], axis=1)


def checked(scores: ArrayLike, weights: ArrayLike | None) -> tuple[Floats, Floats]:
    """Scores and weights of the queries that count. Refuses what is no number and weights that are none."""
    rows = np.asarray(scores, dtype=np.float64)
    if rows.ndim != 2:
        raise InputError(f"Scores must be a table of systems by queries; these have the shape {rows.shape}.")
    broken = np.argwhere(~np.isfinite(rows))
    if broken.size:
        row, query = broken[0]
        raise InputError(
            f"{len(broken)} of the scores are not finite numbers, the first in row {row} at query {query}: "
            f"{rows[row, query]}. A query that failed or found nothing scores 0; one without labels is left out."
        )
    if weights is None:
        return rows, np.ones(rows.shape[1])
    counts, queries = np.asarray(weights, dtype=np.float64), rows.shape[1]
    if counts.shape != (queries,):
        raise InputError(f"There must be one weight for each of {queries} queries; these have shape {counts.shape}.")
    wrong = np.flatnonzero(~(np.isfinite(counts) & (counts >= 0)))
    if wrong.size:
        raise InputError(f"A query's weight must be 0 or more; that of query {wrong[0]} is {counts[wrong[0]]}.")
    if queries and not counts.any():
        raise InputError("Every query has the weight 0, so that there is no mean. Leave the weights out, or mend them.")
    return rows[:, counts > 0], counts[counts > 0]


def check_share(name: str, value: float) -> None:
    if not 0 < value < 1:
        raise SpecError(f"{name} must lie between 0 and 1; it is {value}.")


def check_samples(samples: int) -> None:
    if samples < 1:
        raise SpecError(f"samples must be 1 or more; it is {samples}.")


def finite(value: float) -> float | None:
    """The number, or None for NaN and infinity."""
    return float(value) if math.isfinite(value) else None


def weighted(rows: Floats, weights: Floats) -> Floats:
    return np.asarray((rows * weights).sum(axis=1) / weights.sum())


def influence(rows: Floats, weights: Floats) -> Floats:
    """What each query adds to its row's mean, but for the sum of weights."""
    return np.asarray(weights * (rows - weighted(rows, weights)[:, None]))


def divided(above: Floats, below: Floats, where: NDArray[np.bool_], otherwise: float) -> Floats:
    return np.asarray(np.divide(above, below, out=np.full(len(above), otherwise), where=where))


def effective(weights: Floats) -> float:
    return float(weights.sum() ** 2 / (weights**2).sum()) if weights.size else 0.0


def blocks(samples: int, width: int) -> Iterator[slice]:
    size = max(1, _CELLS // max(1, width))
    return (slice(begin, min(begin + size, samples)) for begin in range(0, samples, size))
