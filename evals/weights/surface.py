"""A weight surface, read: the best point, the mean at each, one query's view, the band of equals, the oracle.

Owns what can be said in-sample. None of it is what tuning is worth on new queries: that is `evals.weights.tuning`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from core.errors import UnknownName
from core.fusion import Fusion
from evals.statistics import bootstrap, significance
from evals.weights import simplex

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
ROUNDING = 1e-12  # what the order of addition makes of equal means
SAMPLES = 2000  # of a band's bootstrap
BAND = (
    "which does not make them equal: in simulations such a band missed the best mix in up to 30% of trials, and its "
    "worst member lost up to 0.041"
)


@dataclass(frozen=True, eq=False)
class Oracle:
    """Each query at its own best point: a bound that no tuner can reach, as none knows the answer beforehand.

    `headroom` is what lies between the best single point and it.
    """

    points: Ints = field(repr=False)
    values: Floats = field(repr=False)
    mean: float
    headroom: float


@dataclass(frozen=True, eq=False)
class Surface:
    """One metric of each query at each point. Point p gives leg l the weight grid[p, l] / steps.

    `untuned` are the values with all legs counted alike. `weights`, `kinds` and `texts` are the queries' own; without
    texts each query is taken for one of its own.
    """

    legs: tuple[str, ...]
    fusion: Fusion
    steps: int
    grid: Ints = field(repr=False)  # points x legs
    queries: tuple[str, ...] = field(repr=False)
    weights: Floats = field(repr=False)
    kinds: tuple[str, ...] = field(repr=False)
    metric: str
    values: Floats = field(repr=False)  # points x queries
    untuned: Floats = field(repr=False)
    texts: tuple[str, ...] | None = field(default=None, repr=False)

    @property
    def means(self) -> Floats:
        """The weighted mean at each point."""
        return significance.means(self.values, self.weights)

    @property
    def best(self) -> int:
        """The point of the highest mean over these very queries; of equals the nearest to equal weights."""
        return int(best_rows(self.means[:, None], simplex.from_centre(self.grid))[0])

    def leg_weights(self, point: int) -> dict[str, float]:
        return {leg: int(share) / self.steps for leg, share in zip(self.legs, self.grid[point], strict=True)}

    def of_query(self, query: str) -> Floats:
        """One query's value at each point."""
        if query not in self.queries:
            raise UnknownName("query with a relevant item", query, self.queries)
        return self.values[:, self.queries.index(query)]

    def tied(self, *, level: float = 0.95, samples: int = SAMPLES, seed: int = 0) -> NDArray[np.bool_]:
        """The points that these queries cannot tell from the best: the interval of the paired difference holds 0.

        No test, as the best was picked by the same queries, and no promise that any of them would do: see BAND.
        """
        best = self.best
        low, high = bootstrap.intervals(
            self.values - self.values[best], self.weights, level=level, samples=samples, seed=seed
        )
        band = (low <= 0) & (high >= 0)
        band[best] = True
        return band

    def oracle(self) -> Oracle:
        points = best_rows(self.values, simplex.from_centre(self.grid))
        values = self.values[points, np.arange(len(self.queries))]
        mean = float(significance.means(values[None, :], self.weights)[0])
        return Oracle(points, values, mean, mean - float(self.means[self.best]))


def best_rows(values: Floats, distance: Ints) -> Ints:
    """For each column the row of the highest value; of equals the nearest to the centre, then the first."""
    level = values >= values.max(axis=0) - ROUNDING
    far: Ints = np.where(level, distance[:, None], np.iinfo(np.int64).max).argmin(axis=0)
    return far
