"""Whether intervals hold what they say, by simulation beside what is usual, and what they cost.

A mean: the lowest coverage over four shapes of scores, where 95% is said, and the mean width. Differences against a
baseline: of how many tables of set-ups that do not differ an interval misses 0 anywhere, where 5% is said; and how
often a gain of 0.05 of one of them is found. The same for all pairs. With --markdown, the tables of docs/measuring.md.
"""

# mypy: disable-error-code="attr-defined"

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from scipy import stats

from evals.statistics.bootstrap import intervals
from evals.statistics.comparison import all_pairs
from evals.statistics.mean_intervals import mean_intervals
from evals.statistics.simultaneous import simultaneous, simultaneous_pairs
from tests.bench.figures import Figure, below, seconds

Array = np.ndarray
Random = np.random.Generator
Ends = tuple[Array, Array]

SAID = 0.95
MEANS, TABLES = 1000, 400  # trials of a cell
GAIN = 0.05


def measure() -> list[Figure]:
    return [*_costs(), *_means(), *_tables(), *_pairs()]


# -- one mean ----------------------------------------------------------------------------------------------------------


def _binary(level: float, shape: tuple[int, int], random: Random) -> Array:
    return (random.random(shape) < level).astype(float)


def _recall(level: float, shape: tuple[int, int], random: Random) -> Array:
    """1, a half or nothing."""
    missed = (1 - level) / 0.75
    return random.choice([1.0, 0.5, 0.0], p=[1 - missed, missed / 2, missed / 2], size=shape)


def _ndcg(level: float, shape: tuple[int, int], random: Random) -> Array:
    """Nothing, 1, or something between."""
    between = min(level, 1 - level)
    drawn = random.random(shape)
    graded = random.beta(2, 2, shape)
    return np.where(drawn < level - between / 2, 1.0, np.where(drawn < level + between / 2, graded, 0.0))


def _rank(level: float, shape: tuple[int, int], random: Random) -> Array:
    """1 over the rank of the first right answer."""
    far = (1 - level) / (1 - (1 / 2 + 1 / 3 + 1 / 5 + 0) / 4)
    return random.choice([1.0, 1 / 2, 1 / 3, 1 / 5, 0.0], p=[1 - far, *[far / 4] * 4], size=shape)


SHAPES: tuple[Callable[..., Array], ...] = (_binary, _recall, _ndcg, _rank)


def _student(rows: Array) -> Ends:
    half = stats.t.ppf((1 + SAID) / 2, rows.shape[1] - 1) * stats.sem(rows, axis=1)
    return rows.mean(axis=1) - half, rows.mean(axis=1) + half


WAYS: dict[str, Callable[[Array], Ends]] = {
    "this": mean_intervals,
    "BCa, widened": lambda rows: intervals(rows, samples=500),
    "Student's t": _student,
}


def _means() -> Iterator[Figure]:
    for queries, level in ((20, 0.5), (20, 0.96), (50, 0.8), (50, 0.96), (100, 0.96), (300, 0.96)):
        found = {way: _held(interval, queries, level) for way, interval in WAYS.items()}
        cells = [(way, f"{covered:.1%}, {width:.3f}") for way, (covered, width) in found.items()]
        (_, own), *others = cells
        yield Figure(
            f"a mean of {level} over {queries} queries: lowest coverage and width; {', '.join(map(': '.join, others))}",
            own,
            ">= 94%",
            found["this"][0] >= 0.94,
            "Lowest coverage of 95% intervals of a mean, and their mean width",
            (("queries, mean", f"{queries}, {level}"), *cells),
        )


def _held(interval: Callable[[Array], Ends], queries: int, level: float) -> tuple[float, float]:
    covered, widths = [], []
    for at, shape in enumerate(SHAPES):
        random = np.random.default_rng(at)
        true = float(shape(level, (1, 2_000_000), random).mean())
        low, high = interval(shape(level, (MEANS, queries), random))
        covered.append(((low <= true) & (true <= high)).mean())
        widths.append((high - low).mean())
    return min(covered), float(np.mean(widths))


# -- differences that are looked at together ---------------------------------------------------------------------------


def _differences(systems: int, queries: int, random: Random) -> Array:
    """Of set-ups that truly do not differ: mostly 0, or many small gains and a few large losses, or the reverse."""
    drawn = random.random((systems, queries))
    skewed = np.where(drawn < 0.27, 0.1, np.where(drawn < 0.3, -0.9, 0.0))
    twins = np.where(drawn < 0.3, random.normal(0, 0.25, drawn.shape), 0.0)
    return np.where((np.arange(systems) % 3 == 0)[:, None], twins, skewed * (-1.0) ** np.arange(systems)[:, None])


def _this(rows: Array) -> Ends:
    queries = rows.shape[1]
    found = simultaneous(rows / queries, np.full(len(rows), float(queries)), samples=1000)
    return found.low, found.high


def _bonferroni(rows: Array) -> Ends:
    """Student's t at the level of one of so many."""
    half = stats.t.ppf(1 - (1 - SAID) / 2 / len(rows), rows.shape[1] - 1) * stats.sem(rows, axis=1)
    return rows.mean(axis=1) - half, rows.mean(axis=1) + half


TOGETHER: dict[str, Callable[[Array], Ends]] = {
    "this": _this,
    "BCa, each alone": lambda rows: intervals(rows, samples=500),
    "t, Bonferroni": _bonferroni,
}


def _tables() -> Iterator[Figure]:
    for systems, queries in ((3, 50), (3, 200), (9, 50), (9, 100), (9, 300), (20, 200)):
        found = {way: _missed(interval, systems, queries) for way, interval in TOGETHER.items()}
        cells = [(way, f"{missed:.1%}, {power:.0%}") for way, (missed, power) in found.items()]
        (_, own), *others = cells
        yield Figure(
            f"{systems} set-ups, {queries} queries: missed anywhere, gain found; {', '.join(map(': '.join, others))}",
            own,
            "<= 12%",
            found["this"][0] <= 0.12,
            "Tables of set-ups that do not differ of which an interval misses 0 anywhere; a gain of 0.05 found",
            (("set-ups, queries", f"{systems}, {queries}"), *cells),
        )


def _missed(interval: Callable[[Array], Ends], systems: int, queries: int) -> tuple[float, float]:
    random, missed, power = np.random.default_rng(7), 0, 0
    for _ in range(TABLES):
        rows = _differences(systems, queries, random)
        low, high = interval(rows)
        missed += bool(((low > 0) | (high < 0)).any())
        rows[0] += GAIN * 2 * (random.random(queries) < 0.5)
        power += bool(interval(rows)[0][0] > 0)
    return missed / TABLES, power / TABLES


def _pairs() -> Iterator[Figure]:
    for systems, queries in ((4, 50), (9, 100), (9, 300)):
        random, missed = np.random.default_rng(8), 0
        for _ in range(TABLES):
            scores = _differences(systems, queries, random) / queries
            found = simultaneous_pairs(scores, float(queries), samples=1000)
            missed += bool(((found.low > 0) | (found.high < 0)).any())
        yield below(f"all pairs of {systems} set-ups, {queries} queries: missed anywhere, %", 100 * missed / TABLES, 12)


# -- what it costs -----------------------------------------------------------------------------------------------------


def _costs() -> Iterator[Figure]:
    scores = np.random.default_rng(4).beta(0.6, 0.5, (36, 300))
    mean_intervals(scores[:2])  # scipy is imported
    means = min(seconds(lambda: mean_intervals(scores[:12])) for _ in range(3))
    bootstrap = min(seconds(lambda: intervals(scores[:12], samples=10_000)) for _ in range(3))
    rows = (scores[1:21] - scores[0]) / 300
    table = min(seconds(lambda: simultaneous(rows, np.full(20, 300.0))) for _ in range(3))
    names = [f"variant {row}" for row in range(len(scores))]
    pairs = seconds(lambda: all_pairs(names, scores))
    yield below("intervals of 12 means over 300 queries, ms", 1000 * means, 5)
    yield Figure("  the bootstrap's, 10,000 samples, takes times as long", f"{bootstrap / means:,.0f} x")
    yield below("20 set-ups against a baseline over 300 queries, 10,000 draws, ms", 1000 * table, 200)
    yield Figure("all 630 pairs of 36 set-ups x 300 queries, seconds", f"{pairs:.2f}")
