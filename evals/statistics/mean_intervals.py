"""The interval of one mean of scores that have bounds, without resampling.

Scores are scaled to [0, 1]. The lower end adds a little weight of a score 0, the upper end as much of a score 1, and
each end is a quantile of the Beta distribution with the mean and the variance that come of it. Where every score is 0
or 1 and queries count alike, that is the interval of Clopper and Pearson (1934, doi:10.1093/biomet/26.4.404). The added
worst case is Gaffke's idea (2005; Phan, Thomas and Learned-Miller 2021, arXiv:2106.03163); the half weight with the
Beta form is our own, and holds by simulation: `make bench ARGS=statistics` prints its coverage beside that of others.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from evals.statistics.bootstrap import intervals as bootstrap_intervals
from evals.statistics.significance import SAMPLES, SEED, Floats, check_share, checked, effective

EXTREME_WEIGHT: Final = 0.5  # of the score that is added at each end, in queries; 1 where every score is 0 or 1
VANISHING: Final = 1e-12


def mean_intervals(
    scores: ArrayLike,
    weights: ArrayLike | None = None,
    *,
    most: float | None = 1.0,
    level: float = 0.95,
    samples: int = SAMPLES,
    seed: int = SEED,
) -> tuple[Floats, Floats]:
    """Low and high ends of the interval of each row's mean; NaN where fewer than two queries count.

    `most` is the greatest score there can be, the least being 0; without one, the interval is the bootstrap's.
    """
    if most is None:
        return bootstrap_intervals(scores, weights, samples=samples, level=level, seed=seed)
    check_share("level", level)
    rows, counts = checked(scores, weights)
    if rows.shape[1] < 2:
        return np.full(len(rows), np.nan), np.full(len(rows), np.nan)
    unit = rows / most
    worth = counts * effective(counts) / counts.sum()
    tail = (1 - level) / 2
    return most * _end(unit, worth, 0.0, tail), most * _end(unit, worth, 1.0, 1 - tail)


def _end(rows: Floats, worth: Floats, added: float, quantile: float) -> Floats:
    """One end of each row's interval, `added` being the score that is put in."""
    from scipy import special

    binary = ((rows < VANISHING) | (rows > 1 - VANISHING)).all(axis=1)
    weight = np.where(binary, 1.0, EXTREME_WEIGHT)
    total = worth.sum() + weight
    mean = (rows @ worth + weight * added) / total
    variance = ((rows**2) @ worth + weight * added) / total - mean**2
    varies = mean * (1 - mean) > VANISHING
    spread = np.divide(mean * (1 - mean) * (total + 1), variance, out=np.ones_like(mean), where=varies)
    shape = np.where(varies, spread - 1, 1.0)
    inside = np.where(varies, mean, 0.5)
    ends = special.betaincinv(inside * shape, (1 - inside) * shape, quantile)
    return np.asarray(np.where(varies, ends, mean))
