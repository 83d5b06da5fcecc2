"""Differences of many set-ups looked at together: intervals that hold all at once, and the p values that agree.

The signs of each query's differences could as well be others (Fisher's randomization), for all set-ups by the same
draw; what counts is the largest statistic of any set-up, so that a single draw corrects for all of them (Westfall and
Young 1993; in retrieval: Boytsov, Belova and Westfall 2013, doi:10.1145/2484028.2484034). A statistic is a sum of
weighted differences over the root of the sum of their squares, which is not centred and never less than the median of
the set-ups' (a constant in the denominator: Tusher, Tibshirani and Chu 2001, doi:10.1073/pnas.091062498). The interval
adds the square of half a query to it. The median and the half query are our own, and hold by simulation:
`make bench ARGS=statistics` prints how often the intervals miss, and what is found.

What is missed and found is of the sampling of queries: labels that are missing or wrong, and other collections, are
another matter.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from evals.statistics.significance import SAMPLES, SEED, Floats, blocks

HALF_QUERY = 0.25  # the square of half a query, over the square of all
SLACK = 1e-12  # sums of the same terms differ in their last digits by the order of addition


@dataclass(frozen=True, slots=True)
class Simultaneous:
    """One entry a set-up. The interval is `means` -+ `critical` x `errors`; it leaves 0 out just where `p` is at most
    1 minus the level. `critical` is the same for all.
    """

    means: Floats
    errors: Floats
    critical: float
    p: Floats

    @property
    def low(self) -> Floats:
        return self.means - self.critical * self.errors

    @property
    def high(self) -> Floats:
        return self.means + self.critical * self.errors


def simultaneous(
    terms: Floats, effective: Floats, *, level: float = 0.95, samples: int = SAMPLES, seed: int = SEED
) -> Simultaneous:
    """Set-ups by queries: what each query adds to each mean difference. `effective` is what the queries of a set-up
    are worth in equal ones (Kish 1965).
    """
    squares = (terms**2).sum(axis=1)
    scales = np.sqrt(np.maximum(squares, np.median(squares * effective) / effective))
    largest, there = np.zeros(samples), scales > 0  # the largest statistic of any set-up under each draw of signs
    if there.any():
        scaled = (terms[there] / scales[there, None]).T
        for part, signs in _signs(samples, terms.shape[1], max(terms.shape), seed):
            largest[part] = np.abs(signs @ scaled).max(axis=1)
    return _judged(terms.sum(axis=1), scales, effective, largest, level)


def simultaneous_pairs(
    terms: Floats, effective: float, *, level: float = 0.95, samples: int = SAMPLES, seed: int = SEED
) -> Simultaneous:
    """Every pair of set-ups, the first minus the second, in the order of `itertools.combinations`; `terms` is what each
    query adds to each set-up's mean.
    """
    first, second = np.triu_indices(len(terms), 1)
    gram = terms @ terms.T
    own = np.diag(gram)
    squares = np.maximum(own[first] + own[second] - 2 * gram[first, second], 0.0)
    scales = np.sqrt(np.maximum(squares, np.median(squares)))
    largest, there = np.zeros(samples), scales > 0
    if there.any():  # sums are taken by set-up, and then subtracted
        one, other, apart = first[there], second[there], scales[there]
        for part, signs in _signs(samples, terms.shape[1], max(terms.shape[1], len(one)), seed):
            sums = signs @ terms.T
            largest[part] = (np.abs(sums[:, one] - sums[:, other]) / apart).max(axis=1)
    sums = terms.sum(axis=1)
    return _judged(sums[first] - sums[second], scales, np.full(len(first), effective), largest, level)


def _signs(samples: int, queries: int, width: int, seed: int) -> Iterator[tuple[slice, Floats]]:
    """Draws of a sign for each query, in blocks that fit in memory beside a row of this width."""
    random = np.random.default_rng(seed)
    for part in blocks(samples, width):
        drawn = random.integers(0, 2, (part.stop - part.start, queries), dtype=np.int8)
        yield part, np.asarray(1 - 2.0 * drawn, dtype=np.float64)


def _judged(means: Floats, scales: Floats, effective: Floats, largest: Floats, level: float) -> Simultaneous:
    errors = np.sqrt(scales**2 + HALF_QUERY / effective**2)
    place = min(math.ceil(level * (len(largest) + 1)), len(largest))
    ordered = np.sort(largest)
    reached = np.abs(means) / errors
    beyond = len(ordered) - np.searchsorted(ordered, reached * (1 - SLACK), side="left")
    return Simultaneous(means, errors, float(ordered[place - 1]), (1 + beyond) / (len(ordered) + 1))
