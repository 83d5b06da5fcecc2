"""Scores of rankings against labels. The only importer of ranx, which is handed what it scores right.

ranx does not align queries, breaks ties by chance and compiles on its first call; so it gets one entry for each
labelled query, strictly decreasing scores, and a warm-up when Rankbook is set up.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

Grades = Mapping[str, Mapping[str, int]]
Ranked = Mapping[str, Sequence[str]]

DEFAULT_METRIC = "ndcg@10"


def scores(grades: Grades, ranked: Ranked, metric: str = DEFAULT_METRIC) -> dict[str, float]:
    """The metric for each query that has a relevant item; one without hits scores 0.

    `ranked` holds ids, best first. ranx's `ndcg` takes the grade itself as the gain (linear).
    """
    relevant = {query: dict(given) for query, given in grades.items() if any(grade > 0 for grade in given.values())}
    if not relevant:
        return {}
    runs = {query: _decreasing(ranked.get(query, ())) for query in relevant}
    per_query = _evaluate(relevant, runs, metric)
    return dict(zip(sorted(relevant), map(float, per_query), strict=True))


def _evaluate(relevant: dict[str, dict[str, int]], runs: dict[str, dict[str, float]], metric: str) -> Any:
    from ranx import Qrels, Run, evaluate

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="unsafe cast from uint64 to int64")  # ranx's, on compiling
        return evaluate(Qrels(relevant), Run(runs), metric, return_mean=False)


def mean(per_query: Mapping[str, float]) -> float:
    return sum(per_query.values()) / len(per_query) if per_query else 0.0


def _decreasing(ids: Sequence[str]) -> dict[str, float]:
    """Scores that say nothing but the order. A query without hits gets one that no label knows: ranx wants an entry."""
    once = list(dict.fromkeys(ids))
    return {item: float(len(once) - rank) for rank, item in enumerate(once)} or {"": 1.0}


def warm_up() -> None:
    """Have ranx compile what it needs and keep it on disk; the first call takes half a minute on a new machine."""
    scores({"q": {"a": 1}}, {"q": ["a", "b"]})


if __name__ == "__main__":
    warm_up()
