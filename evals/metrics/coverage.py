"""What missing labels do to a score: how much was judged, between what bounds a metric lies, condensed rankings.

Of items only: nobody pools chunks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evals.measures import MEASURES, Metric
from evals.measures.unjudged import JudgedHits
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
        ranking = rankings.get(query)
        near: Sequence[str] = ()
        if isinstance(ranking, Ranking) and cutoff is not None and ranking.length > cutoff:
            near = tuple(ids_of(ranking.at(slice(cutoff))))
        # Where the first hits are all of different items, no more of them need be looked at.
        ids = near if near and len(near) == cutoff else tuple(ids_of(ranking))[:cutoff]
        found[query] = sum(map(grades[query].__contains__, ids)) / len(ids) if ids else 0.0
    return found


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
    rows: list[Floats] = []
    for metric in wanted:
        highest = MEASURES[metric.measure].highest
        if highest is None:
            # What these count grows with each relevant hit within the cut-off, faster than what they divide by.
            best = _relabelled(grades, rankings, top, metric.cutoff)
            rows.append(score_rankings(best, rankings, [metric]).row(metric))
            continue
        known = (
            JudgedHits.of(grades[query], list(ids_of(rankings.get(query))), metric.least, metric.cutoff, top)
            for query in low.queries
        )
        rows.append(np.array([highest(each) for each in known]))
    return Bounds(low, Scores(low.queries, low.metrics, np.array(rows).reshape(low.values.shape)))


def _relabelled(grades: Grades, rankings: Ranked, grade: int, cutoff: int | None) -> dict[str, dict[str, int]]:
    """The unjudged of the first hits with a grade, those further down with 0."""
    filled = {}
    for query in relevant_queries(grades):
        ids = list(ids_of(rankings.get(query)))
        within, beyond = ids[:cutoff], ids[len(ids) if cutoff is None else cutoff :]
        filled[query] = {**dict.fromkeys(within, grade), **dict.fromkeys(beyond, 0), **grades[query]}
    return filled
