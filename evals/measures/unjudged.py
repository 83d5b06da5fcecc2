"""The most that a score can be where some hits are unjudged, over all grades that they could have.

Only for measures for which the top grade everywhere is not the most: each relevant item raises what these divide by.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class JudgedHits:
    """One query: the grades of its hits, -1 where there is none; all its grades; how far a metric looks; the top grade.

    Grades below the metric's least are 0.
    """

    hits: NDArray[np.int64]
    labels: NDArray[np.int64]
    looked_at: int
    top: int
    least: int
    cutoff: int | None

    @classmethod
    def of(cls, grades: Mapping[str, int], ids: Sequence[str], least: int, cutoff: int | None, top: int) -> JudgedHits:
        hits = np.array([grades.get(each, -1) if grades.get(each, 0) >= 0 else 0 for each in ids], np.int64)
        hits[(hits >= 0) & (hits < least)] = 0
        labels = np.array(list(grades.values()), np.int64)
        labels[labels < least] = 0
        looked_at = len(ids) if cutoff is None else min(cutoff, len(ids))
        return cls(hits, labels, looked_at, top if top >= least else 0, least, cutoff)


def _trials(known: JudgedHits) -> tuple[NDArray[np.bool_], Floats]:
    """Which hits within the cut-off are relevant, and how many items in all: a row each for the first 0, 1, 2 ... of
    the unjudged being so.

    No other choice of as many can score higher: relevant hits that stand higher never lower a score. Those beyond the
    cut-off take part, since r-precision looks further down where more is relevant.
    """
    unjudged = known.hits < 0
    taken = np.arange(int(unjudged.sum()) + 1 if known.top else 1)[:, None]
    relevant = (known.hits > 0) | (unjudged & (np.cumsum(unjudged) <= taken))
    return relevant[:, : known.looked_at], (known.labels > 0).sum() + taken[:, 0].astype(float)


def _best(above: Floats, below: Floats) -> float:
    return float(np.max(np.divide(above, below, out=np.zeros_like(above), where=below > 0)))


def highest_average_precision(known: JudgedHits) -> float:
    relevant, every = _trials(known)
    precision = np.cumsum(relevant, axis=1) / np.arange(1, known.looked_at + 1)
    return _best((precision * relevant).sum(axis=1), every)


def highest_r_precision(known: JudgedHits) -> float:
    relevant, every = _trials(known)
    first = np.arange(1, known.looked_at + 1) <= every[:, None]
    return _best((relevant & first).sum(axis=1).astype(float), every)


def highest_bpref(known: JudgedHits) -> float:
    """Unjudged hits that are not relevant are judged then, and count among those that are not."""
    relevant, every = _trials(known)
    others = (known.hits < 0).sum() + len(known.labels) - every
    above = np.minimum(np.cumsum(~relevant, axis=1), every[:, None])
    share = above / np.maximum(np.minimum(every, others), 1)[:, None]
    return _best(((1 - share) * relevant).sum(axis=1), every)


def highest_ndcg(gain: Callable[[int], float]) -> Callable[[JudgedHits], float]:
    """The most of DCG / ideal DCG over all grades of the unjudged, by Dinkelbach's method (1967).

    With t the best ratio so far, maximise DCG - t x ideal; the ratio there is the next t, until it stays.

    Both sums fall apart by grade: each hit of grade g or more adds one step of gain, and its best place is the next
    highest unjudged one. So per grade one looks for how many unjudged hits reach it, and nothing else.
    """

    def highest(known: JudgedHits) -> float:
        top = int(max(known.top, known.labels.max(initial=0)))
        curves = [_curves(known, grade) for grade in range(1, top + 1)]
        steps = np.diff([0.0 if grade < known.least else float(gain(grade)) for grade in range(top + 1)])
        ratio, following = -1.0, 0.0
        while following > ratio:
            ratio = following
            picked = [(found[at], ideal[at]) for found, ideal in curves for at in [np.argmax(found - ratio * ideal)]]
            dcg, best = steps @ np.array(picked).reshape(-1, 2)
            following = float(dcg / best) if best > 0 else 0.0
        return ratio

    return highest


def _curves(known: JudgedHits, grade: int) -> tuple[Floats, Floats]:
    """With 0, 1, 2 ... of the unjudged hits at this grade or above: discounts at its places, and at its best places."""
    hits, there = known.hits[: known.looked_at], int((known.labels >= grade).sum())
    unjudged = np.flatnonzero(hits < 0) if grade <= known.top else np.array([], np.int64)
    discounts = 1 / np.log2(np.arange(2, there + len(known.hits) + 2))
    found = discounts[np.flatnonzero(hits >= grade)].sum() + np.cumsum([0.0, *discounts[unjudged]])
    best = np.cumsum([0.0, *discounts[: known.cutoff]])
    return found, best[np.minimum(there + np.arange(len(unjudged) + 1), len(best) - 1)]
