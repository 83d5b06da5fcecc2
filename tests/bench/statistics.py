"""What certainty costs: the bootstrap of a table, and every pair of a suite."""

from __future__ import annotations

import tracemalloc

import numpy as np

from evals.statistics.bootstrap import intervals
from evals.statistics.comparison import all_pairs
from tests.bench.figures import Figure, below, seconds


def measure() -> list[Figure]:
    scores = np.random.default_rng(4).beta(0.6, 0.5, (36, 300))
    intervals(scores[:2], samples=100)  # scipy is imported
    bootstrap = min(seconds(lambda: intervals(scores[:12], samples=10_000)) for _ in range(3))
    names = [f"variant {row}" for row in range(len(scores))]
    pairs = seconds(lambda: all_pairs(names, scores))
    return [
        below("10,000 bootstrap samples x 12 systems x 300 queries, seconds (best of 3)", bootstrap, 1.0, "{:.2f}"),
        below("  memory it takes at most, MB", _megabytes(scores[:12]), 100, "{:.0f}"),
        Figure("all 630 pairs of 36 systems x 300 queries, tested and judged, seconds", f"{pairs:.2f}"),
    ]


def _megabytes(scores: np.ndarray) -> float:
    tracemalloc.start()
    try:
        intervals(scores, samples=10_000)
        return tracemalloc.get_traced_memory()[1] / 1e6
    finally:
        tracemalloc.stop()
