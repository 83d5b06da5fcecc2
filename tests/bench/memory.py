"""What a suite holds in memory: 36 fusion variants over two legs, 1,000 queries x 1,000 hits each.

Some of the runs are made, and what is allocated for them is taken for all; the legs' own rankings are there before.
"""

from __future__ import annotations

import tracemalloc

import numpy as np

from core.fusion.score_based import LinearFusion
from core.legs.bm25 import Bm25Leg
from evals.runs.batch_fusion import FusionArrays, ResultCut, fuse_all
from evals.runs.rankings import LegRankings, Ranking
from tests.bench.figures import Figure

QUERIES, DEPTH, ITEMS = 1000, 1000, 50_000
RUNS, MADE = 36, 6
MOST = 770  # MB: a third of what they took as tuples of Python's numbers and texts


def measure() -> list[Figure]:
    random, ids = np.random.default_rng(0), [f"document-{number:06d}" for number in range(ITEMS)]
    arrays = FusionArrays.of([_leg(name, ids, random) for name in ("one", "two")])
    fusion, cut = LinearFusion(normalize="minmax"), ResultCut(depth=DEPTH)
    runs = [fuse_all(arrays, fusion, (1.0, 0.0), cut)]  # normalised scores are made with the first
    tracemalloc.start()
    runs += [fuse_all(arrays, fusion, (1 - step / MADE, step / MADE), cut) for step in range(MADE)]
    held = tracemalloc.get_traced_memory()[0] / 2**20 / MADE * RUNS
    tracemalloc.stop()
    return [
        Figure(f"{RUNS} runs of {QUERIES:,} queries x {DEPTH:,} hits, MB", f"{held:.0f}", f"<= {MOST}", held <= MOST),
        Figure("bytes a hit", f"{held * 2**20 / (RUNS * QUERIES * DEPTH):.1f}"),
    ]


def _leg(name: str, ids: list[str], random: np.random.Generator) -> LegRankings:
    rankings = {}
    for query in range(QUERIES):
        best = random.choice(ITEMS, DEPTH, replace=False)
        rankings[f"q{query}"] = Ranking([ids[each] for each in best], np.sort(random.random(DEPTH))[::-1])
    return LegRankings(name, Bm25Leg(), DEPTH, rankings)
