"""Which unjudged pairs to judge next: pooled from runs, ordered by depth or by what would settle A against B soonest.

Owns the pool, its orders and the outlook of a comparison. It must not know who judges or where judgements are kept.

The second order is that of Carterette, Allan & Sitaraman, "Minimal test collections for retrieval evaluation" (SIGIR
2006): a metric that adds up over ranks makes each label's effect on the difference of two systems known beforehand,
but for the grade; and a prior for that gives the difference an expectation and a deviation before anything is judged.
"""

from __future__ import annotations

import math
import random
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import NormalDist

import numpy as np

from core.errors import SpecError
from evals.judging.agreement import PairId
from evals.runs.rankings import Ranking
from evals.runs.types import Run
from evals.types import Grades, QuerySplit

SURE = 0.95
FAMILIES = ("ndcg", "precision", "recall")
_METRIC = re.compile(r"(ndcg|precision|recall)@([1-9]\d{0,3})")
_STANDING = 4  # judged pairs that the default curve of relevance weighs as much as


@dataclass(frozen=True, slots=True)
class PooledPair:
    """A query and an item, with the rank (from 1) that each run gives it, None where a run does not have it so high.

    `influence` is by how much its label may be expected to move the difference of the metric. A judge sees neither.
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
    """The pairs in the top `depth` of any run that nobody has judged, by query and item.

    `judged` takes the place of the split's own grades, where judgements have come to them.
    """
    known = split.grades if judged is None else judged
    return [pair for pair in _pairs(runs, split, depth) if pair.item_id not in known.get(pair.query_id, {})]


def _pairs(runs: Sequence[Run], split: QuerySplit, depth: int) -> Iterator[PooledPair]:
    """Every pair of the pool, judged or not: of what ships, and further down of the candidates behind it. What a query
    excludes takes no rank.
    """
    rankings = [run.lifted for run in runs]
    for query_id in split.queries:
        ranks: dict[str, list[int | None]] = defaultdict(lambda: [None] * len(runs))
        for number, found in enumerate(rankings):
            for rank, item_id in enumerate(_top(found.get(query_id), split, query_id, depth), start=1):
                ranks[item_id][number] = rank
        for item_id in sorted(ranks):
            yield PooledPair(query_id, item_id, tuple(ranks[item_id]))


def _top(found: Ranking | None, split: QuerySplit, query_id: str, depth: int) -> list[str]:
    left_out = split.excluded.get(query_id, frozenset())
    return [item for item in (found.item_ids if found else ()) if item not in left_out][:depth]


def by_depth(pairs: Sequence[PooledPair], seed: int = 0) -> list[PooledPair]:
    """Round by round: what any run has first, then what any has second. Shuffled within a round, runs being hidden."""
    rounds: dict[int, list[PooledPair]] = defaultdict(list)
    for pair in pairs:
        rounds[pair.best].append(pair)
    return [pair for best in sorted(rounds) for pair in hidden(rounds[best], f"{seed} {best}")]


def hidden(pairs: Sequence[PooledPair], seed: int | str = 0) -> list[PooledPair]:
    """The same in an order that tells nothing of runs, ranks and influence."""
    shuffled = sorted(pairs, key=lambda pair: pair.id)
    random.Random(str(seed)).shuffle(shuffled)  # noqa: S311 - an order to be repeated, no secret
    return shuffled


@dataclass(frozen=True, slots=True)
class Prior:
    """How likely a pair is relevant by the best rank it has in any run, and what grade it has then.

    Learned from the judged pairs of the pool in bands of ranks (1, 2-3, 4-7, 8-15 ...), each held near a default curve
    until it has pairs of its own. Labels without a single 0 only list what is relevant: they say nothing of chances.
    """

    chances: Mapping[int, float] = field(default_factory=dict)
    gain: float = 1.0
    square: float = 1.0

    @classmethod
    def of(cls, judged: Sequence[tuple[int, int]]) -> Prior:
        """From pairs of best rank and grade."""
        gains = [grade for _, grade in judged if grade > 0]
        gain, square = (float(np.mean(gains)), float(np.mean(np.square(gains)))) if gains else (1.0, 1.0)
        bands: dict[int, list[bool]] = defaultdict(list)
        for rank, grade in judged if len(gains) < len(judged) else ():
            bands[_band(rank)].append(grade > 0)
        chances = {
            band: (sum(seen) + _STANDING * _usual(band)) / (len(seen) + _STANDING) for band, seen in bands.items()
        }
        return cls(chances, gain, square)

    def chance(self, rank: int) -> float:
        return self.chances.get(_band(rank), _usual(_band(rank)))

    def expected(self, rank: int) -> float:
        return self.chance(rank) * self.gain

    def variance(self, rank: int) -> float:
        return max(0.0, self.chance(rank) * self.square - self.expected(rank) ** 2)


def _band(rank: int) -> int:
    return rank.bit_length() - 1


def _usual(band: int) -> float:
    """Half of what stands first, and less and less below; only where no label says otherwise."""
    return 0.5 / (band + 1)


@dataclass(frozen=True, slots=True)
class Outlook:
    """How a comparison stands, and what judging would do for it. Differences are A minus B, the mean over queries.

    `known` counts unjudged pairs as not relevant; `expected` and `deviation` are what the prior makes of them.
    `enough` is how many judgements, best first, would make it sure who is ahead if labels come as expected; None where
    not even all would. It is about these queries: whether others would say the same is for significance tests.
    """

    metric: str
    known: float
    expected: float
    deviation: float
    unjudged: int
    enough: int | None

    @property
    def confidence(self) -> float:
        """That the run ahead in expectation stays ahead once everything is judged."""
        if self.deviation == 0:
            return 0.5 if self.expected == 0 else 1.0
        return NormalDist().cdf(abs(self.expected) / self.deviation)

    def sentence(self, a: str, b: str) -> str:
        """What to do, and why."""
        ahead = a if self.expected > 0 else b
        if not self.unjudged:
            return (
                f"Every pair that tells {a} from {b} by {self.metric} is judged: the difference is {self.known:+.4f}."
            )
        stand = (
            f"{ahead} is expected to be ahead by {abs(self.expected):.4f} {self.metric} on these queries, sure to "
            f"{self.confidence:.0%}"
        )
        if self.enough == 0:
            return (
                f"Judging more would hardly change who is ahead: {stand}. Whether that holds for other queries, only "
                "more queries tell: rankbook compare."
            )
        if self.enough is None:
            return f"{self.unjudged} unjudged pairs tell {a} from {b}, and even all may not be enough: {stand}."
        return (
            f"Judge these {self.enough} to separate {a} from {b}: {stand}. "
            f"{self.unjudged} unjudged pairs tell them apart."
        )


@dataclass(frozen=True, slots=True)
class PoolPlan:
    """Pairs in the order in which to judge them, the most telling first; and the outlook before the first of them."""

    pairs: tuple[PooledPair, ...]
    outlook: Outlook

    @property
    def needed(self) -> tuple[PooledPair, ...]:
        """Those that the outlook asks for."""
        return self.pairs if self.outlook.enough is None else self.pairs[: self.outlook.enough]


def order_by_influence(
    a: Run, b: Run, split: QuerySplit, metric: str = "ndcg@10", judged: Grades | None = None, *, sure: float = SURE
) -> PoolPlan:
    """The unjudged pairs that A and B rank differently, by how much each one's label may move the difference."""
    family, depth = _parsed(metric)
    known = split.grades if judged is None else judged
    pairs = list(_pairs((a, b), split, depth))
    seen = [
        (pair.best, grade) for pair in pairs if (grade := known.get(pair.query_id, {}).get(pair.item_id)) is not None
    ]
    prior = Prior.of(seen if family == "ndcg" else [(rank, min(grade, 1)) for rank, grade in seen])
    return _PairedRuns(family, depth, known, prior, len(split.queries)).plan(metric, pairs, sure)


def _parsed(metric: str) -> tuple[str, int]:
    found = _METRIC.fullmatch(metric)
    if found is None:
        raise SpecError(
            f"The metric {metric!r} does not add up over ranks, so a label's effect on it is not known beforehand. "
            f"Order by one of {', '.join(FAMILIES)} at a cut-off, such as ndcg@10; or pool by depth."
        )
    return found[1], int(found[2])


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
        known, weighed = 0.0, []
        for query_id, several in by_query.items():
            here, there = self._of_query(self.known.get(query_id, {}), several)
            known += here
            weighed += there
        ordered = sorted(weighed, key=lambda each: (-each[0].influence, each[0].id))
        return PoolPlan(tuple(pair for pair, _ in ordered), self._outlook(metric, known, ordered, sure))

    def _of_query(
        self, grades: Mapping[str, int], pairs: Sequence[PooledPair]
    ) -> tuple[float, list[tuple[PooledPair, float]]]:
        """The difference that labels make in one query, and its unjudged pairs with the weight of each one's gain."""
        scale = self.queries * self._ideal(grades, pairs)
        weights = {pair: (self._discount(pair.ranks[0]) - self._discount(pair.ranks[1])) / scale for pair in pairs}
        known = sum(weight * self._gain(grades.get(pair.item_id, 0)) for pair, weight in weights.items())
        unjudged = [(pair, weight) for pair, weight in weights.items() if weight and pair.item_id not in grades]
        return known, [(self._with_influence(pair, weight), weight) for pair, weight in unjudged]

    def _with_influence(self, pair: PooledPair, weight: float) -> PooledPair:
        return PooledPair(*pair.id, pair.ranks, abs(weight) * math.sqrt(self.prior.variance(pair.best)))

    def _discount(self, rank: int | None) -> float:
        if rank is None:
            return 0.0
        return 1 / math.log2(rank + 1) if self.family == "ndcg" else 1.0

    def _gain(self, grade: int) -> float:
        """Linear, as nDCG's is in `evals.metrics`; the others count what is relevant."""
        return float(max(grade, 0) if self.family == "ndcg" else grade > 0)

    def _ideal(self, grades: Mapping[str, int], pairs: Sequence[PooledPair]) -> float:
        """What the score is divided by: the best that can be attained, unjudged pairs counting by expectation.

        Not below one relevant item: a query where nothing is known to be relevant must not outweigh all others.
        """
        if self.family == "precision":
            return float(self.depth)
        gains = [self._gain(grade) for grade in grades.values()]
        gains += [self.prior.expected(pair.best) for pair in pairs if pair.item_id not in grades]
        if self.family == "recall":
            return max(1.0, sum(gains))
        best = sorted(gains, reverse=True)[: self.depth]
        return max(1.0, sum(gain * self._discount(rank) for rank, gain in enumerate(best, start=1)))

    def _outlook(self, metric: str, known: float, ordered: Sequence[tuple[PooledPair, float]], sure: float) -> Outlook:
        expected = known + sum(weight * self.prior.expected(pair.best) for pair, weight in ordered)
        left = _left_over([pair.influence for pair, _ in ordered])
        margin = NormalDist().inv_cdf(sure)
        enough = next((n for n, rest in enumerate(left) if abs(expected) > margin * rest), None)
        return Outlook(metric, known, expected, left[0], len(ordered), enough)


def _left_over(deviations: Sequence[float]) -> list[float]:
    """The deviation that is left after judging none, one, two ... of them: independent errors add by their squares."""
    rest = np.cumsum(np.square([0.0, *reversed(deviations)]))
    return [float(each) for each in np.sqrt(rest[::-1])]
