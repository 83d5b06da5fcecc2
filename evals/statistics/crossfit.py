"""Choosing by some queries and scoring by others: folds, choices, and weights by kind drawn towards those for all.

Arithmetic over plain arrays; every query's score comes from a choice made without it (Stone 1974, cross-validatory
choice; the choice itself is what is scored).
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evals.statistics.significance import effective_queries

ROUNDING = 1e-12  # what the order of addition makes of equal means


Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def best_rows(values: Floats, distance: Ints) -> Ints:
    """For each column the row of the highest value; of equals the nearest to the centre, then the first."""
    level = values >= values.max(axis=0) - ROUNDING
    far: Ints = np.where(level, distance[:, None], np.iinfo(np.int64).max).argmin(axis=0)
    return far


def folds(kinds: Sequence[str], count: int, repeats: int, seed: int, texts: Sequence[str] | None = None) -> Ints:
    """The fold of each query in each repeat: repeats x queries. Every kind is dealt out evenly, and so is the whole.

    Queries of one text, however it is spaced and capitalised, are dealt as one: what is chosen by the first would be
    scored by its double. The first's kind is then that of all.
    """
    of_query, first = _doubles(texts if texts is not None else range(len(kinds)))
    strata = np.array([kinds[query] for query in first], dtype=object)
    made = np.empty((repeats, len(kinds)), dtype=np.int64)
    groups = [np.flatnonzero(strata == kind) for kind in sorted(set(strata))]
    for repeat in range(repeats):
        random = np.random.default_rng([seed, repeat])
        dealt = np.concatenate([random.permutation(group) for group in groups])
        fold = np.empty(len(first), dtype=np.int64)
        fold[dealt] = np.arange(len(first)) % count
        made[repeat] = fold[of_query]
    return made


def fold_count(most: int, queries: int, texts: Sequence[str] | None) -> int:
    """So many folds, or as many as there are queries that are not one another's doubles."""
    return min(most, queries if texts is None else len(_doubles(texts)[1]))


def _doubles(texts: Sequence[object]) -> tuple[Ints, list[int]]:
    """The number of each query's text, and the first query of each."""
    numbers: dict[str, int] = {}
    first: list[int] = []
    for query, text in enumerate(texts):
        if numbers.setdefault(normalised(str(text)), len(first)) == len(first):
            first.append(query)
    return np.array([numbers[normalised(str(text))] for text in texts], dtype=np.int64), first


def normalised(text: str) -> str:
    """What is left of a query's text where blanks, capitals and ways to write one letter do not count."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


@dataclass(frozen=True, eq=False)
class ChoiceOptions:
    """What can be chosen: rows of scores by query, of equals the one of the least distance. `weights` are queries'."""

    values: Floats  # options x queries
    distance: Ints  # of each option
    weights: Floats

    def means(self, queries: Floats) -> Floats:
        """The weighted mean of each option over each column of queries (1 in, 0 out); 0 where none has a weight."""
        counted = queries * self.weights[:, None]
        made: Floats = (self.values @ counted) / np.maximum(counted.sum(axis=0), np.finfo(float).tiny)
        return made

    def chosen(self, queries: Floats) -> Ints:
        """The best option by each column of queries."""
        return best_rows(self.means(queries), self.distance)

    def within(self, rows: Ints) -> ChoiceOptions:
        return ChoiceOptions(self.values[rows], self.distance[rows], self.weights)


def training(fold_of: Ints, count: int) -> Floats:
    """The queries that each fold's choice is made by: queries x (repeats x folds)."""
    kept = fold_of[:, None, :] != np.arange(count)[None, :, None]
    made: Floats = kept.reshape(-1, fold_of.shape[1]).T.astype(np.float64)
    return made


def held_out(values: Floats, chosen: Ints, fold_of: Ints) -> Floats:
    """Each query's score with what was chosen without it, repeats x queries. `chosen` is repeats x folds."""
    made: Floats = values[np.take_along_axis(chosen, fold_of, axis=1), np.arange(fold_of.shape[1])]
    return made


# -- weights by kind ---------------------------------------------------------------------------------------------------


def pull(values: Floats, kinds: Sequence[str], weights: Floats | None = None) -> float:
    """How many queries of a kind it takes to trust them half: tau, infinite where kinds do not differ.

    The credibility of Bühlmann and Straub 1970 (ASTIN Bulletin 5): variance within kinds over variance between them,
    by the method of moments, pooled over the options. Scores are first freed of how hard each query is. A query's
    weight says how often it is asked and not how surely its score is known, so kinds' means are weighted, and both
    moments are what these means' variances come to: with equal weights those of the paper.
    """
    asked = np.ones(len(kinds)) if weights is None else weights
    there = np.flatnonzero(asked > 0).tolist()
    kinds, asked, values = [kinds[query] for query in there], asked[there], values[:, there]
    codes = {kind: code for code, kind in enumerate(sorted(set(kinds)))}
    if len(codes) < 2 or len(kinds) <= len(codes):
        return math.inf
    of_query = np.array([codes[kind] for kind in kinds])
    member = (of_query[:, None] == np.arange(len(codes))).astype(np.float64)
    sums, squares = asked @ member, (asked**2) @ member  # of each kind's weights
    own = squares / sums  # of a kind's weight, what one query of it is: the part of the noise that its mean has
    centred = values - values.mean(axis=0)
    means = (centred * asked) @ member / sums
    overall = (means @ sums / sums.sum())[:, None]
    within = ((centred - means[:, of_query]) ** 2 @ asked) / (sums - own).sum()
    spread = (means - overall) ** 2 @ sums
    noise = own.sum() - squares.sum() / sums.sum()
    amount = float(((spread - within * noise) / (sums.sum() - (sums**2).sum() / sums.sum())).mean())
    return float(within.mean()) / amount if amount > 0 else math.inf


def by_kind(
    options: ChoiceOptions, kinds: Sequence[str], queries: Floats, tau: float | None
) -> tuple[dict[str, int], float]:
    """For each kind among the queries (a 0/1 vector) its option, and the pull used, estimated where none is given.

    A kind's mean scores are mixed with those of all queries, n / (n + tau) of the former; what has no kind is not
    asked for one.
    """
    named = [query for query, kind in enumerate(kinds) if kind and queries[query] > 0]
    if tau is None:
        used = pull(options.values[:, named], [kinds[query] for query in named], options.weights[named])
    else:
        used = tau
    overall = options.means(queries[:, None])[:, 0]
    found = {}
    for kind in sorted({kinds[query] for query in named}):
        own = np.array([float(queries[query] > 0 and each == kind) for query, each in enumerate(kinds)])
        counted = options.weights[own > 0]
        size = effective_queries(counted, len(counted)) if counted.any() else 0.0
        share = size / (size + used) if size else 0.0
        mixed = share * options.means(own[:, None])[:, 0] + (1 - share) * overall
        found[kind] = int(best_rows(mixed[:, None], options.distance)[0])
    return found, used
