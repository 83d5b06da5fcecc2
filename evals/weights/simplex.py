"""Weights of two, three or four legs in whole steps: every way to share out n among them, never a floating-point sum.

Owns the enumeration, its geometry, and the order among equals. A weight is a count over n, divided when it is used.
"""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from core.errors import SpecError

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


def neighbours(grid: Ints) -> tuple[tuple[int, ...], ...]:
    """The points one step away from each: one leg gives a share, another takes it."""
    at = {tuple(point): number for number, point in enumerate(grid.tolist())}
    legs = grid.shape[1]
    moves = [(gives, takes) for gives in range(legs) for takes in range(legs) if gives != takes]
    return tuple(
        tuple(sorted(at[near] for gives, takes in moves if (near := _moved(point, gives, takes)) in at)) for point in at
    )


def _moved(point: tuple[int, ...], gives: int, takes: int) -> tuple[int, ...]:
    return tuple(share - (leg == gives) + (leg == takes) for leg, share in enumerate(point))


def ternary(grid: Ints) -> Floats:
    """Where to draw the points of three legs, points x (x, y): corners at (0, 0), (1, 0) and (1/2, sqrt(3)/2)."""
    if grid.shape[1] != 3:
        raise SpecError(f"A triangle shows three legs, and there are {grid.shape[1]}.")
    shares = grid / grid.sum(axis=1, keepdims=True)
    return np.column_stack([shares[:, 1] + shares[:, 2] / 2, shares[:, 2] * (math.sqrt(3) / 2)])
