"""How alike two rankings are, without labels: rank-biased overlap and Jaccard.

Owns the comparison of orders; it must not know which of the two is better.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from core.errors import SpecError
from evals.measures import Level
from evals.metrics.scoring import Ranked, ids_of

Likeness = Callable[[Sequence[str], Sequence[str]], float]


def rbo(one: Sequence[str], other: Sequence[str], persistence: float = 0.9) -> float:
    """Extrapolated rank-biased overlap, for lists of uneven length too: equation 32 of Webber, Moffat and Zobel,
    "A Similarity Measure for Indefinite Rankings", ACM TOIS 28(4), 2010.

    With p = 0.9 the first 10 ranks have 86% of the weight. Of each list an id counts once, at its better place. An
    empty list has nothing in common with another; two of them are alike.
    """
    if not 0 < persistence < 1:
        raise SpecError(f"The persistence of rank-biased overlap is {persistence}; it must be above 0 and below 1.")
    short, long = sorted((list(dict.fromkeys(one)), list(dict.fromkeys(other))), key=len)
    s, l, p = len(short), len(long), persistence  # noqa: E741 - the paper's letters
    if s == 0:
        return 1.0 if l == 0 else 0.0
    # x[d]: how many ids the lists share within their first d ranks, to the end of the longer one
    place = {each: rank for rank, each in enumerate(short, start=1)}
    x = [0] * (l + 1)
    for rank, each in enumerate(long, start=1):
        if each in place:
            x[max(rank, place[each])] += 1
    for rank in range(1, l + 1):
        x[rank] += x[rank - 1]
    seen = sum(x[d] / d * p**d for d in range(1, l + 1))
    guessed = sum(x[s] * (d - s) / (s * d) * p**d for d in range(s + 1, l + 1))
    return (1 - p) / p * (seen + guessed) + ((x[l] - x[s]) / l + x[s] / s) * p**l


def jaccard(one: Sequence[str], other: Sequence[str], cutoff: int | None = None) -> float:
    """What the first k of both have in common, of all that is in either; two empty lists are alike."""
    if cutoff is not None and cutoff < 1:
        raise SpecError(f"The cut-off of Jaccard is {cutoff}; it must be 1 or more.")
    first, second = (set(list(dict.fromkeys(ids))[:cutoff]) for ids in (one, other))
    either = first | second
    return len(first & second) / len(either) if either else 1.0


def per_query(one: Ranked, other: Ranked, likeness: Likeness = rbo, level: Level = "items") -> dict[str, float]:
    """For each query that either has; one that the other lacks is empty there."""
    return {
        query: likeness(list(ids_of(one.get(query), level)), list(ids_of(other.get(query), level)))
        for query in sorted({*one, *other})
    }


def jaccard_at(cutoff: int) -> Likeness:
    """Jaccard@k as a likeness."""
    return partial(jaccard, cutoff=cutoff)
