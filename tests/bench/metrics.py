"""Ten metrics over 1,000 queries at depth 1,000, against ranx on Run and Qrels objects that are there already."""

from __future__ import annotations

import random
import warnings

from evals.metrics import scoring
from evals.types import Grades
from tests.bench.figures import Figure, seconds

QUERIES, DEPTH, JUDGED, ROUNDS = 1000, 1000, 40, 5
THEIRS = (
    *("ndcg@10", "ndcg_burges@10", "map@100", "mrr@10", "recall@100"),
    *("precision@10", "f1@10", "hit_rate@10", "r-precision", "bpref"),
)
OURS = tuple(name.replace("_burges", "_exp") for name in THEIRS)


def measure() -> list[Figure]:
    grades, ranked = labels_and_rankings()
    theirs = ready_made(grades, ranked)
    best: dict[str, float] = {}
    for _ in range(ROUNDS):  # in turns: a busy machine slows both
        for name, work in (("ours", lambda: scoring.score_rankings(grades, ranked, OURS)), ("ranx", theirs)):
            best[name] = min(best.get(name, float("inf")), seconds(work))
    ratio = best["ours"] / best["ranx"]
    what = f"10 metrics, {QUERIES:,} queries x depth {DEPTH:,}: time from ids / ranx's on ready-made Run objects"
    shown = f"{ratio:.2f} ({best['ours'] * 1000:.0f} / {best['ranx'] * 1000:.0f} ms)"
    return [Figure(what, shown, "<= 1.10", ratio <= 1.1)]


def labels_and_rankings() -> tuple[Grades, dict[str, list[str]]]:
    chance = random.Random(0)
    corpus = [f"document-{number:06}" for number in range(20_000)]
    ranked = {f"q{number}": chance.sample(corpus, DEPTH) for number in range(QUERIES)}
    # Half of what is judged was returned: labels come from pooling.
    judged = {
        query: chance.sample(ids, JUDGED // 2) + chance.sample(corpus, JUDGED // 2) for query, ids in ranked.items()
    }
    grades = {query: {item: chance.randint(0, 3) for item in items} for query, items in judged.items()}
    return grades, ranked


def ready_made(grades: Grades, ranked: dict[str, list[str]]):
    """ranx's evaluate on objects that it has already sorted, with the metrics above."""
    from ranx import Qrels, Run, evaluate

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        qrels = Qrels({query: dict(given) for query, given in grades.items()})
        run = Run({query: {item: float(-rank) for rank, item in enumerate(ids)} for query, ids in ranked.items()})
        evaluate(qrels, run, list(THEIRS))

    def work() -> None:
        evaluate(qrels, run, list(THEIRS))

    return work
