"""The weight surface: a metric for every query at every point of the legs' simplex, all at once.

Owns the ranks of relevant items at each point, which is all that a metric needs; they are counted, nothing is sorted.
Scores are added as `core.fusion` adds them, so that a point's ranks are those of a search with its weights. Of what
comes after fusion, the cuts are honoured: roll-up by the best unit, depth, least score. Reranking is not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from core.errors import InputError, SpecError
from core.fusion import Fusion, LegRanking, fusions
from evals.measures import DEFAULT_METRIC, Metric, Relevant, RelevantRanks, cut_off
from evals.runs.batch_fusion import EVERYTHING, Floats, FusionArrays, Ints, ResultCut, before, separable, table
from evals.runs.rankings import LegRankings
from evals.tuning import surface as tuning_surface
from evals.tuning.surface import Surface
from evals.types import QuerySplit

Bools = NDArray[np.bool_]
STEPS = 20  # 1/20: finer differences no label set of some hundred queries can tell apart
QUERIES = 128  # scored together: for each, what each leg adds at each weight, which is 0.6 MB at 1,000 deep
CELLS = 1 << 21  # of scores held at a time, 16 MB; points are taken in blocks where a query has many candidates


def sweep(
    legs: Sequence[LegRankings] | FusionArrays,
    split: QuerySplit,
    fusion: Fusion,
    *,
    metric: str = DEFAULT_METRIC,
    steps: int = STEPS,
    cut: ResultCut = EVERYTHING,
) -> Surface:
    """The surface of one metric. For several metrics of the same fusion, make `surface_ranks` once."""
    return surface_ranks(legs, split, fusion, steps=steps, cut=cut, deepest=cut_off(metric)).surface(metric)


@dataclass(frozen=True, eq=False)
class SurfaceRanks:
    """The rank of every relevant item at every point, and with equal weights: any metric follows from these."""

    arrays: FusionArrays
    split: QuerySplit
    fusion: Fusion
    steps: int
    grid: Ints
    places: RelevantRanks

    def surface(self, metric: str) -> Surface:
        values = self.places.values(metric)
        return Surface(
            legs=self.arrays.names,
            fusion=self.fusion,
            steps=self.steps,
            grid=self.grid,
            queries=self.places.relevant.queries,
            weights=np.array([self.split.queries[each].weight for each in self.places.relevant.queries]),
            kinds=tuple(self.split.queries[each].kind for each in self.places.relevant.queries),
            metric=str(Metric.of(metric)),
            values=values[:-1],
            untuned=values[-1],
            texts=tuple(self.split.queries[each].text for each in self.places.relevant.queries),
        )


def surface_ranks(
    legs: Sequence[LegRankings] | FusionArrays,
    split: QuerySplit,
    fusion: Fusion,
    *,
    steps: int = STEPS,
    cut: ResultCut = EVERYTHING,
    deepest: int | None = None,
    points: Ints | None = None,
    cells: int = CELLS,
) -> SurfaceRanks:
    """Queries without a relevant item are left out; one that a leg failed to answer counts with 0 at every point.

    `points` are those of the simplex that are scored, each leg's share in whole steps; by default all.

    Ranks beyond `deepest` are not told apart, which saves time where no metric looks further. `cells` bounds the
    memory: so many scores are held at a time.
    """
    arrays = legs if isinstance(legs, FusionArrays) else FusionArrays.of(legs)
    relevant = Relevant.of(split)
    _refuse_unfit(fusion, cut)
    known = set(relevant.queries).intersection(*({*leg.rankings, *leg.failures} for leg in arrays.legs))
    if not_run := sorted({*relevant.queries} - known):  # neither answered nor failed: it must not count as a failure
        raise InputError(
            f"{len(not_run)} of {len(relevant.queries)} labelled queries were not run, {not_run[0]!r} among them. Run "
            "every leg over the whole split, or sweep over a part with `split.only`."
        )
    grid = tuning_surface.points(len(arrays.legs), steps) if points is None else points
    weights = np.vstack([grid / steps, np.ones(len(arrays.legs))])
    ranks = np.zeros((len(weights), len(relevant.items)), dtype=np.int32)
    sought = {query: (begin, end) for query, begin, end in relevant.rows()}
    rows = [row for row, query in enumerate(arrays.queries) if query in sought]
    for at in range(0, len(rows), QUERIES):
        _Sweep(arrays.rows(rows[at : at + QUERIES]), fusion, cut, weights, deepest).fill(ranks, relevant, sought, cells)
    return SurfaceRanks(arrays, split, fusion, steps, grid, RelevantRanks(relevant, ranks, deepest))


def _refuse_unfit(fusion: Fusion, cut: ResultCut) -> None:
    name = fusions.name_of(type(fusion))
    if not separable(fusion) or not fusion.uses_weights:
        known = [each for each in fusions if separable(fusions[each]()) and fusions[each]().uses_weights]
        why = "is told to ignore weights" if name in known else "is none of them"
        raise SpecError(f"There is a weight surface for {', '.join(sorted(known))}, and this fusion, {name}, {why}.")
    if cut.rollup is not None and cut.rollup.method != "best":
        raise SpecError("The weight surface rolls chunks up by their best one. Set rollup.method = 'best' to tune.")


class _Sweep:
    """One fusion over some queries of a split at some weights."""

    def __init__(
        self, arrays: FusionArrays, fusion: Fusion, cut: ResultCut, weights: Floats, deepest: int | None
    ) -> None:
        self.arrays, self.fusion, self.cut, self.weights, self.deepest = arrays, fusion, cut, weights, deepest
        hollow = [arrays.hollow(point.tolist()) for point in weights]
        self.tables, self.levels = self._tables()
        # What scores are divided by before they are held against the least score.
        ceilings = [fusion.ceiling(point) for point in hollow]
        self.ceilings = None if None in ceilings else np.array(ceilings, dtype=np.float64)
        orders = [tuple(fusion.tie_order(point)) for point in hollow]
        known = list(dict.fromkeys(orders))
        self.pattern = np.array([known.index(order) for order in orders])
        self.before = np.stack([before(arrays, order) for order in known])
        codes = {item: at for at, item in enumerate(dict.fromkeys(arrays.items))}
        self.codes = codes
        self.item_of: Ints = np.array([codes[item] for item in arrays.items], dtype=np.int64)

    def _tables(self) -> tuple[list[Floats], list[Ints]]:
        """For each leg what each of its weights adds, queries x (1 + depth) x weights; and each point's weight."""
        made, levels = [], []
        mute = np.zeros((len(self.arrays.queries), self.arrays.scores.shape[2] + 1))
        for leg, each in enumerate(self.arrays.legs):
            values, level = np.unique(self.weights[:, leg], return_inverse=True)
            rankings = [LegRanking(each.name, float(value), (), each.leg.bounds) for value in values]
            with np.errstate(over="ignore", invalid="ignore"):
                parts = [
                    table(self.arrays, self.fusion, leg, ranking) if ranking.weight > 0 else mute
                    for ranking in rankings
                ]
            made.append(np.stack(parts, axis=-1))
            levels.append(np.asarray(level, dtype=np.int64))
        if not np.isfinite(sum(np.abs(each).max(initial=0.0) for each in made)):
            raise SpecError("Scores of these legs are too large to add up. Normalise them.")
        return made, levels

    def fill(
        self, ranks: NDArray[np.int32], relevant: Relevant, sought: Mapping[str, tuple[int, int]], cells: int
    ) -> None:
        """The places of the queries' relevant items, in the columns that `sought` says."""
        for row, query in enumerate(self.arrays.queries):
            begin, end = sought[query]
            codes = [self.codes.get(item, -1) for item in relevant.items[begin:end]]
            columns = np.flatnonzero(self.arrays.candidates[row] >= 0)
            items = self.item_of[self.arrays.candidates[row, columns]]
            order = np.argsort(items, kind="stable")
            columns, items = columns[order], items[order]
            found = set(items.tolist())
            present = [(begin + at, code) for at, code in enumerate(codes) if code in found]
            size = max(1, cells // max(1, len(columns)))
            for first in range(0, len(self.weights), size):
                block = slice(first, min(first + size, len(self.weights)))
                candidates = _Candidates(self, row, columns, items, block)
                for column, code in present:
                    ranks[block, column] = candidates.ranks(code)


class _Candidates:
    """One query's candidates at a block of points: candidates x points, those of an item side by side."""

    def __init__(self, sweep: _Sweep, row: int, columns: Ints, items: Ints, block: slice) -> None:
        self.sweep, self.items, self.block, self.deepest = sweep, items, block, sweep.deepest
        self.starts = np.flatnonzero(np.diff(items, prepend=-1))
        self.before = sweep.before[:, row, columns]
        self.units = sweep.arrays.candidates[row, columns]
        self.scores: Floats = np.zeros((len(columns), len(sweep.weights[block])))
        for leg, (made, levels) in enumerate(zip(sweep.tables, sweep.levels, strict=True)):
            self.scores += made[row][sweep.arrays.ranks[leg, row, columns]].take(levels[block], axis=1)
        if sweep.fusion.absent == "drop":
            missing = (sweep.arrays.ranks[:, row, columns] == 0).T.astype(np.int64)
            self.scores[missing @ (sweep.weights[block] > 0).T.astype(np.int64) > 0] = -np.inf
        self.single = len(self.starts) == len(items)
        self.of_units = sweep.cut.rollup is None and not self.single  # what depths count; an item has several
        self.best = self.scores if self.single else np.maximum.reduceat(self.scores, self.starts, axis=0)

    def ranks(self, code: int) -> Ints:
        """The item's place at each point, from 1; 0 where it does not come out."""
        item = int(np.searchsorted(self.items[self.starts], code))
        own = self.best[item]
        ahead, level = _count(self.best > own), _count(self.best >= own)
        matters = True if self.deepest is None else ahead < self.deepest
        tied = np.flatnonzero((level > ahead + 1) & matters)
        if tied.size:
            ahead[tied] += self._ahead_among_equals(item, tied)
        return np.where(self._comes_out(item, own, ahead), ahead + 1, 0)

    def _ahead_among_equals(self, item: int, points: Ints) -> Ints:
        """How many items of equal score have a unit that comes before this item's first one."""
        place = self._place(points)
        equal = self.scores[:, points] == self.best[item, points]
        own = self._units_of(item)
        first = np.where(equal[own], place[own], np.iinfo(np.int64).max).min(axis=0)
        earlier = equal & (place < first)
        if self.single:
            return _count(earlier)
        level = self.best[:, points] == self.best[item, points]
        return _count(np.logical_or.reduceat(earlier, self.starts, axis=0) & level)

    def _place(self, points: Ints) -> Ints:
        """What decides between equal scores, as one number: the rank, then the unit."""
        ranks = self.before[self.sweep.pattern[self.block][points]].T
        places: Ints = ranks * len(self.sweep.arrays.units) + self.units[:, None]
        return places

    def _units_of(self, item: int) -> slice:
        end = self.starts[item + 1] if item + 1 < len(self.starts) else len(self.items)
        return slice(int(self.starts[item]), int(end))

    def _comes_out(self, item: int, own: Floats, ahead: Ints) -> Bools:
        """Past the least score and every cut."""
        cut, ceilings = self.sweep.cut, self.sweep.ceilings
        there = own > -np.inf
        if self.deepest is not None:
            there &= ahead < self.deepest
        if cut.min_score > -np.inf:
            there &= (own if ceilings is None else np.minimum(own / ceilings[self.block], 1.0)) >= cut.min_score
        if cut.depth is not None and not self.of_units:
            there &= ahead < cut.depth
        limits = [cut.fused_depth, cut.depth if self.of_units else None]
        limit = min((each for each in limits if each is not None), default=None)
        return there if limit is None else there & (_count(self._before(item, own)) < limit)

    def _before(self, item: int, own: Floats) -> Bools:
        """The units that stand before this item's first one."""
        place = self._place(np.arange(len(own)))
        own_units = self._units_of(item)
        equal = self.scores == own
        first = np.where(equal[own_units], place[own_units], np.iinfo(np.int64).max).min(axis=0)
        return np.asarray((self.scores > own) | (equal & (place < first)))


def _count(where: Bools) -> Ints:
    """How many are true in each column. Bytes added 255 rows at a time: five times as quick as `count_nonzero`."""
    counts: Ints = np.zeros(where.shape[1], dtype=np.int64)
    for begin in range(0, len(where), 255):
        counts += np.add.reduce(where[begin : begin + 255].view(np.uint8), axis=0, dtype=np.uint8)
    return counts
