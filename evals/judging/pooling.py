"""Which unjudged pairs to judge next: pooled from runs, ordered by depth or by influence on comparing two runs.

Owns the pool, its orders and the outlook of a comparison. It must not know who judges or where judgements are stored.

The order by influence is that of Carterette, Allan & Sitaraman, "Minimal test collections for retrieval evaluation"
(SIGIR 2006). With a metric that is a sum over ranks, the effect of each label on the difference of two systems is known
up to its grade, and a prior of grades gives the difference an expectation and a deviation before anything is judged.
"""

from __future__ import annotations

import math
import random
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import NormalDist

import numpy as np

from core.errors import SpecError
from evals.judging.agreement import PairId
from evals.runs.types import Run
from evals.types import Grades, QuerySplit

SURE = 0.95
FAMILIES = ("ndcg", "precision", "recall")
_METRIC = re.compile(r"(ndcg|precision|recall)@([1-9]\d{0,3})")
_PRIOR_WEIGHT = 4  # judged pairs that the default curve of relevance is worth


@dataclass(frozen=True, slots=True)
class PooledPair:
    """A query and an item with its rank (from 1) in each run, None where a run does not have it in the pool's depth.

    `influence` is how much its label is expected to move the difference of the metric. A judge sees neither.
    """

    query_id: str
    item_id: str
    ranks: tuple[int | None, ...]
    influence: float = 0.0

    @property
    def id(self) -> PairId:
        return self.query_id, self.item_id

    @property
    def best(self) -> int:
        return min(rank for rank in self.ranks if rank is not None)


def pool(runs: Sequence[Run], split: QuerySplit, depth: int, judged: Grades | None = None) -> list[PooledPair]:
    """The unjudged pairs in the top `depth` of any run, by query and item.

    `judged` are the known grades, by default those of the split.
    """
    known = split.grades if judged is None else judged
    return [pair for pair in _pairs(runs, split, depth) if pair.item_id not in known.get(pair.query_id, {})]


def _pairs(runs: Sequence[Run], split: QuerySplit, depth: int) -> Iterator[PooledPair]:
    """Every pair of the pool, judged or not. Below a run's results are its candidates; excluded items have no rank."""
    rankings = [run.lifted for run in runs]
    for query_id in split.queries:
        ranks: dict[str, list[int | None]] = defaultdict(lambda: [None] * len(runs))
        excluded = split.excluded.get(query_id, frozenset())
        for number, ranking in enumerate(each.get(query_id) for each in rankings):
            items = [item for item in (ranking.item_ids if ranking else ()) if item not in excluded]
            for rank, item_id in enumerate(items[:depth], start=1):
                ranks[item_id][number] = rank
        for item_id in sorted(ranks):
            yield PooledPair(query_id, item_id, tuple(ranks[item_id]))


def order_by_depth(pairs: Sequence[PooledPair], seed: int = 0) -> list[PooledPair]:
    """The pairs that any run has first, then those that any has second, and so on. Each round is shuffled."""
    rounds: dict[int, list[PooledPair]] = defaultdict(list)
    for pair in pairs:
        rounds[pair.best].append(pair)
    return [pair for best in sorted(rounds) for pair in shuffled(rounds[best], f"{seed} {best}")]


def shuffled(pairs: Sequence[PooledPair], seed: int | str = 0) -> list[PooledPair]:
    """The same pairs in an order that reveals nothing of runs, ranks and influence."""
    ordered = sorted(pairs, key=lambda pair: pair.id)
    random.Random(str(seed)).shuffle(ordered)  # noqa: S311 - an order to be repeated, no secret
    return ordered


@dataclass(frozen=True, slots=True)
class Prior:
    """How likely a pair is relevant given its best rank in any run, and the mean gain of a relevant one.

    Estimated from the judged pairs of the pool in bands of ranks (1, 2-3, 4-7, 8-15 ...), each drawn to a default curve
    while it has few pairs. Labels without a single 0 list relevant items alone, so the default curve is used.
    """

    chances: Mapping[int, float] = field(default_factory=dict)
    gain: float = 1.0
    square: float = 1.0

    @classmethod
    def of(cls, judged: Sequence[tuple[int, int]]) -> Prior:
        """The prior from (best rank, grade) of judged pairs."""
        gains = [grade for _, grade in judged if grade > 0]
        gain, square = (float(np.mean(gains)), float(np.mean(np.square(gains)))) if gains else (1.0, 1.0)
        bands: dict[int, list[bool]] = defaultdict(list)
        for rank, grade in judged if len(gains) < len(judged) else ():
            bands[_band(rank)].append(grade > 0)
        chances = {
            band: (sum(relevant) + _PRIOR_WEIGHT * _default_chance(band)) / (len(relevant) + _PRIOR_WEIGHT)
            for band, relevant in bands.items()
        }
        return cls(chances, gain, square)

    def chance(self, rank: int) -> float:
        return self.chances.get(_band(rank), _default_chance(_band(rank)))

    def expected(self, rank: int) -> float:
        return self.chance(rank) * self.gain

    def variance(self, rank: int) -> float:
        return max(0.0, self.chance(rank) * self.square - self.expected(rank) ** 2)


def _band(rank: int) -> int:
    return rank.bit_length() - 1


def _default_chance(band: int) -> float:
    """One half at the first rank, and less in each band below; used where labels say nothing else."""
    return 0.5 / (band + 1)


@dataclass(frozen=True, slots=True)
class Outlook:
    """The state of a comparison and what judging would add. Differences are A minus B, the mean over queries.

    `known` counts unjudged pairs as not relevant; `expected` and `deviation` follow from the prior. `enough` is how
    many judgements, the most influential first, make it sure which run is ahead if labels are as expected; None if not
    even all do. It is about these queries; significance tests are about others.
    """

    metric: str
    known: float
    expected: float
    deviation: float
    unjudged: int
    enough: int | None

    @property
    def confidence(self) -> float:
        """The probability that the run that is expected ahead is ahead once everything is judged."""
        if self.deviation == 0:
            return 0.5 if self.expected == 0 else 1.0
        return NormalDist().cdf(abs(self.expected) / self.deviation)

    def sentence(self, a: str, b: str) -> str:
        """What to judge, and why."""
        ahead = a if self.expected > 0 else b
        if not self.unjudged:
            return (
                f"Every pair that tells {a} from {b} by {self.metric} is judged: the difference is {self.known:+.4f}."
            )
        lead = (
            f"{ahead} is expected to be ahead by {abs(self.expected):.4f} {self.metric} on these queries, sure to "
            f"{self.confidence:.0%}"
        )
        if self.enough == 0:
            return (
                f"Judging more would hardly change who is ahead: {lead}. Whether that holds for other queries, only "
                "more queries tell: rankbook compare."
            )
        if self.enough is None:
            return f"{self.unjudged} unjudged pairs tell {a} from {b}, and even all may not be enough: {lead}."
        return (
            f"Judge these {self.enough} to separate {a} from {b}: {lead}. "
            f"{self.unjudged} unjudged pairs tell them apart."
        )


@dataclass(frozen=True, slots=True)
class PoolPlan:
    """Pairs in the order in which to judge them, the most influential first; and the outlook before the first."""

    pairs: tuple[PooledPair, ...]
    outlook: Outlook

    @property
    def needed(self) -> tuple[PooledPair, ...]:
        """The pairs that make the comparison sure."""
        return self.pairs if self.outlook.enough is None else self.pairs[: self.outlook.enough]


def order_by_influence(
    a: Run, b: Run, split: QuerySplit, metric: str = "ndcg@10", judged: Grades | None = None, *, sure: float = SURE
) -> PoolPlan:
    """The unjudged pairs that A and B rank differently, by how much each one's label may move the difference."""
    parsed = _METRIC.fullmatch(metric)
    if parsed is None:
        raise SpecError(
            f"The metric {metric!r} does not add up over ranks, so a label's effect on it is not known beforehand. "
            f"Order by one of {', '.join(FAMILIES)} at a cut-off, such as ndcg@10; or pool by depth."
        )
    family, depth = parsed[1], int(parsed[2])
    known = split.grades if judged is None else judged
    pairs = list(_pairs((a, b), split, depth))
    grades = [
        (pair.best, grade) for pair in pairs if (grade := known.get(pair.query_id, {}).get(pair.item_id)) is not None
    ]
    prior = Prior.of(grades if family == "ndcg" else [(rank, min(grade, 1)) for rank, grade in grades])
    return _PairedRuns(family, depth, known, prior, len(split.queries)).plan(metric, pairs, sure)


@dataclass(frozen=True, slots=True)
class _PairedRuns:
    family: str
    depth: int
    known: Grades
    prior: Prior
    queries: int

    def plan(self, metric: str, pairs: Sequence[PooledPair], sure: float) -> PoolPlan:
        by_query: dict[str, list[PooledPair]] = defaultdict(list)
        for pair in pairs:
            by_query[pair.query_id].append(pair)
        known, unjudged = 0.0, list[tuple[PooledPair, float]]()
        for query_id, several in by_query.items():
            grades = self.known.get(query_id, {})
            scale, in_query = self.queries * self._ideal(grades, several), 0.0
            for pair in several:
                weight = (self._discount(pair.ranks[0]) - self._discount(pair.ranks[1])) / scale
                if pair.item_id in grades:
                    in_query += weight * self._gain(grades[pair.item_id])
                elif weight:
                    influence = abs(weight) * math.sqrt(self.prior.variance(pair.best))
                    unjudged.append((replace(pair, influence=influence), weight))
            known += in_query
        unjudged.sort(key=lambda each: (-each[0].influence, each[0].id))
        expected = known + sum(weight * self.prior.expected(pair.best) for pair, weight in unjudged)
        # The deviation that is left after judging none, one, two ... pairs: independent errors add by their squares.
        squares = np.cumsum(np.square([0.0, *(pair.influence for pair, _ in reversed(unjudged))]))
        left = [float(each) for each in np.sqrt(squares[::-1])]
        margin = NormalDist().inv_cdf(sure)
        enough = next((count for count, rest in enumerate(left) if abs(expected) > margin * rest), None)
        outlook = Outlook(metric, known, expected, left[0], len(unjudged), enough)
        return PoolPlan(tuple(pair for pair, _ in unjudged), outlook)

    def _discount(self, rank: int | None) -> float:
        if rank is None:
            return 0.0
        return 1 / math.log2(rank + 1) if self.family == "ndcg" else 1.0

    def _gain(self, grade: int) -> float:
        """Linear for nDCG, as in `evals.metrics`; the other metrics count relevant items."""
        return float(max(grade, 0) if self.family == "ndcg" else grade > 0)

    def _ideal(self, grades: Mapping[str, int], pairs: Sequence[PooledPair]) -> float:
        """The divisor of the score: the best attainable value, with unjudged pairs at their expectation.

        At least that of one relevant item, so that a query without known relevant items does not outweigh the others.
        """
        if self.family == "precision":
            return float(self.depth)
        gains = [self._gain(grade) for grade in grades.values()]
        gains += [self.prior.expected(pair.best) for pair in pairs if pair.item_id not in grades]
        if self.family == "recall":
            return max(1.0, sum(gains))
        best = sorted(gains, reverse=True)[: self.depth]
        return max(1.0, sum(gain * self._discount(rank) for rank, gain in enumerate(best, start=1)))
