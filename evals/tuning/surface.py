"""Points on the simplex of weights, and the metric's surface over them, in-sample."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from core.errors import SpecError, UnknownName
from core.fusion import Fusion
from evals.statistics import bootstrap, significance
from evals.statistics.crossfit import best_rows

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

FEWEST_LEGS, MOST_LEGS = 2, 4
LARGEST = 20_000  # points: 4 legs in steps of 1/46, far finer than any label set can tell apart


def points(legs: int, steps: int) -> Ints:
    """Every composition of `steps` into that many parts, 0 allowed, points x legs; the last share changes quickest.

    By stars and bars: the bars' places among steps + legs - 1, in the order of `itertools.combinations`.
    """
    if not FEWEST_LEGS <= legs <= MOST_LEGS:
        raise SpecError(f"Weights are enumerated for {FEWEST_LEGS} to {MOST_LEGS} legs, and there are {legs}.")
    if steps < 1:
        raise SpecError(f"The steps of a simplex are at least 1, not {steps}.")
    size = math.comb(steps + legs - 1, legs - 1)
    if size > LARGEST:
        raise SpecError(f"{legs} legs in steps of 1/{steps} are {size:,} points, above {LARGEST:,}. Take fewer steps.")
    places = steps + legs - 1
    bars = np.array(list(combinations(range(places), legs - 1)), dtype=np.int64).reshape(size, legs - 1)
    edges = np.column_stack([np.full(size, -1), bars, np.full(size, places)])
    return np.diff(edges, axis=1) - 1


def from_centre(grid: Ints) -> Ints:
    """How far each point is from equal weights: its squared distance times the legs squared, which is whole."""
    legs = grid.shape[1]
    squared: Ints = ((legs * grid - grid.sum(axis=1, keepdims=True)) ** 2).sum(axis=1)
    return squared


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
    texts no two queries are taken for the same.
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
        return int(best_rows(self.means[:, None], from_centre(self.grid))[0])

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
        points = best_rows(self.values, from_centre(self.grid))
        values = self.values[points, np.arange(len(self.queries))]
        mean = float(significance.means(values[None, :], self.weights)[0])
        return Oracle(points, values, mean, mean - float(self.means[self.best]))
