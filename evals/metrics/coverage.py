"""What missing labels do to a score: how much was judged, between what bounds a metric lies, condensed rankings.

Owns unjudged items and nothing else; the metrics themselves are `evals.metrics`'. Items only: nobody pools chunks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from evals.measures import Metric
from evals.metrics.scoring import Ranked, Scores, ids_of, relevant_queries, score_rankings
from evals.runs.rankings import Ranking
from evals.types import Grades

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Bounds:
    """A score's two ends. `low` takes the unjudged for not relevant, as is usual; `high` is the most it can be."""

    low: Scores
    high: Scores


def judged(grades: Grades, rankings: Ranked, cutoff: int | None = None) -> dict[str, float]:
    """Judged@k: the share of the first k hits that have a label, for each query that has a relevant item.

    Where fewer than k came back, of those; where nothing did, 0: nothing that was judged stands behind that score.
    """
    found = {}
    for query in relevant_queries(grades):
        ids = _first(rankings.get(query), cutoff)
        found[query] = sum(map(grades[query].__contains__, ids)) / len(ids) if ids else 0.0
    return found


def _first(ranking: Ranking | Sequence[str] | None, cutoff: int | None) -> Sequence[str]:
    """The first so many, each once. Where the first hits are all of different items, no more of them is looked at."""
    if isinstance(ranking, Ranking) and cutoff is not None and ranking.length > cutoff:
        near = tuple(ids_of(ranking.at(slice(cutoff))))
        if len(near) == cutoff:
            return near
    return tuple(ids_of(ranking))[:cutoff]


def condensed(grades: Grades, rankings: Ranked) -> dict[str, tuple[str, ...]]:
    """Rankings without what was not judged (Sakai, "Alternatives to Bpref", SIGIR 2007).

    Their scores do not punish a run for what the judges were never shown, and say nothing of what was left out.
    """
    return {
        query: tuple(each for each in ids_of(ranking) if each in grades.get(query, ()))
        for query, ranking in rankings.items()
    }


def bounds(grades: Grades, rankings: Ranked, metrics: Sequence[Metric | str], top: int | None = None) -> Bounds:
    """Each metric with every unjudged hit not relevant, and at its best over all grades that those hits could have.

    Assumed for `high`: every hit gets a grade from 0 to `top` (the highest among the labels, where it is not given),
    and nothing that was not returned is relevant beyond what is labelled. It is exact: no such grades score above, and
    some score just that. They need not be the top grade everywhere, since each relevant item raises what recall, map,
    r-precision, bpref and ndcg are divided by.

    `low` is no such extreme for these: it is the usual score, except that bpref counts the unjudged as not relevant.
    """
    wanted = [Metric.of(metric) for metric in metrics]
    top = top or max((grade for given in grades.values() for grade in given.values()), default=1)
    low = score_rankings(_relabelled(grades, rankings, 0, None), rankings, wanted)
    rows = [_highest(grades, rankings, metric, top, low.queries) for metric in wanted]
    return Bounds(low, Scores(low.queries, low.metrics, np.array(rows).reshape(low.values.shape)))


def _relabelled(grades: Grades, rankings: Ranked, grade: int, cutoff: int | None) -> dict[str, dict[str, int]]:
    """The unjudged of the first hits with a grade, those further down with 0."""
    filled = {}
    for query in relevant_queries(grades):
        ids = list(ids_of(rankings.get(query)))
        within, beyond = ids[:cutoff], ids[len(ids) if cutoff is None else cutoff :]
        filled[query] = {**dict.fromkeys(within, grade), **dict.fromkeys(beyond, 0), **grades[query]}
    return filled


def _highest(grades: Grades, rankings: Ranked, metric: Metric, top: int, queries: Sequence[str]) -> Floats:
    search = _SEARCHED.get(metric.measure)
    if search is None:
        # What these count grows with each relevant hit within the cut-off, faster than what they divide by.
        return score_rankings(_relabelled(grades, rankings, top, metric.cutoff), rankings, [metric]).row(metric)
    return np.array(
        [search(_Known.of(grades[each], list(ids_of(rankings.get(each))), metric, top), metric) for each in queries]
    )


@dataclass(frozen=True, slots=True)
class _Known:
    """One query: the grades of its hits, -1 where there is none; all its grades; how far a metric looks; the top grade.

    Grades below the metric's least are 0.
    """

    hits: NDArray[np.int64]
    labels: NDArray[np.int64]
    cutoff: int
    top: int

    @classmethod
    def of(cls, given: Mapping[str, int], ids: Sequence[str], metric: Metric, top: int) -> _Known:
        hits = np.array([given.get(each, -1) if given.get(each, 0) >= 0 else 0 for each in ids], np.int64)
        hits[(hits >= 0) & (hits < metric.least)] = 0
        labels = np.array(list(given.values()), np.int64)
        labels[labels < metric.least] = 0
        cutoff = len(ids) if metric.cutoff is None else min(metric.cutoff, len(ids))
        return cls(hits, labels, cutoff, top if top >= metric.least else 0)


def _trials(known: _Known) -> tuple[NDArray[np.bool_], Floats]:
    """Which hits within the cut-off are relevant, and how many items in all: a row each for the first 0, 1, 2 ... of
    the unjudged being so.

    No other choice of as many can score higher: relevant hits that stand higher never lower a score. Those beyond the
    cut-off take part, since r-precision looks further down where more is relevant.
    """
    unjudged = known.hits < 0
    taken = np.arange(int(unjudged.sum()) + 1 if known.top else 1)[:, None]
    relevant = (known.hits > 0) | (unjudged & (np.cumsum(unjudged) <= taken))
    return relevant[:, : known.cutoff], (known.labels > 0).sum() + taken[:, 0].astype(float)


def _best(above: Floats, below: Floats) -> float:
    return float(np.max(np.divide(above, below, out=np.zeros_like(above), where=below > 0)))


def _highest_map(known: _Known, _: Metric) -> float:
    relevant, every = _trials(known)
    precision = np.cumsum(relevant, axis=1) / np.arange(1, known.cutoff + 1)
    return _best((precision * relevant).sum(axis=1), every)


def _highest_r_precision(known: _Known, _: Metric) -> float:
    relevant, every = _trials(known)
    first = np.arange(1, known.cutoff + 1) <= every[:, None]
    return _best((relevant & first).sum(axis=1).astype(float), every)


def _highest_bpref(known: _Known, _: Metric) -> float:
    """Unjudged hits that are not relevant are judged then, and count among those that are not."""
    relevant, every = _trials(known)
    others = (known.hits < 0).sum() + len(known.labels) - every
    above = np.minimum(np.cumsum(~relevant, axis=1), every[:, None])
    share = above / np.maximum(np.minimum(every, others), 1)[:, None]
    return _best(((1 - share) * relevant).sum(axis=1), every)


def _highest_ndcg(known: _Known, metric: Metric) -> float:
    """The most of DCG / ideal DCG over all grades of the unjudged, by Dinkelbach's method (1967).

    With t the best ratio so far, maximise DCG - t x ideal; the ratio there is the next t, until it stays.

    Both sums fall apart by grade: each hit of grade g or more adds one step of gain, and its best place is the next
    highest unjudged one. So per grade one looks for how many unjudged hits reach it, and nothing else.
    """
    highest = int(max(known.top, known.labels.max(initial=0)))
    curves = [_curves(known, grade, metric.cutoff) for grade in range(1, highest + 1)]
    steps = np.diff([_gain(grade, metric) for grade in range(highest + 1)])
    ratio, following = -1.0, 0.0
    while following > ratio:
        ratio = following
        picked = [(found[at], ideal[at]) for found, ideal in curves for at in [np.argmax(found - ratio * ideal)]]
        dcg, best = steps @ np.array(picked).reshape(-1, 2)
        following = float(dcg / best) if best > 0 else 0.0
    return ratio


def _gain(grade: int, metric: Metric) -> float:
    if grade < metric.least:
        return 0.0
    return float(2**grade - 1 if metric.measure == "ndcg_exp" else grade)


def _curves(known: _Known, grade: int, cutoff: int | None) -> tuple[Floats, Floats]:
    """With 0, 1, 2 ... of the unjudged hits at this grade or above: discounts at its places, and at its best places."""
    hits, there = known.hits[: known.cutoff], int((known.labels >= grade).sum())
    unjudged = np.flatnonzero(hits < 0) if grade <= known.top else np.array([], np.int64)
    discounts = 1 / np.log2(np.arange(2, there + len(known.hits) + 2))
    found = discounts[np.flatnonzero(hits >= grade)].sum() + np.cumsum([0.0, *discounts[unjudged]])
    best = np.cumsum([0.0, *discounts[:cutoff]])
    return found, best[np.minimum(there + np.arange(len(unjudged) + 1), len(best) - 1)]


_SEARCHED: Final[Mapping[str, Callable[[_Known, Metric], float]]] = {
    "map": _highest_map,
    "r-precision": _highest_r_precision,
    "bpref": _highest_bpref,
    "ndcg": _highest_ndcg,
    "ndcg_exp": _highest_ndcg,
}
