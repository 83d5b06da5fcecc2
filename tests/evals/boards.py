"""Runs and boards made by hand: three systems of known quality over twenty labelled queries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from core.types import Query
from evals.evaluation.board import Board
from evals.runs.rankings import Ranking
from evals.runs.types import Run, RunSubject
from evals.types import QuerySplit, Span

QUERIES = [f"q{number:02}" for number in range(40)]
SUBJECT = RunSubject("docs", 3, "default", b"labels", "test", "content")
SPLIT = QuerySplit(
    "test",
    {each: Query(each, f"text {each}", "odd" if at % 2 else "even", ("all",)) for at, each in enumerate(QUERIES)},
    {each: {"right": 2, "half": 1, "wrong": 0} for each in QUERIES},
    {each: (Span(each, "right", 0, 10, "x" * 10),) for each in QUERIES[:4]},
    digest=b"labels",
)
ORDERS = {
    "good": ("right", "half", "wrong"),
    "poor": ("wrong", "half", "right"),
    "bare": ("unseen", "right"),
}


def run(name: str, order: Sequence[str] | None = None, **options: Any) -> Run:
    """Every query is answered alike, with chunks that hold the first eight characters of their items."""
    ids = tuple(order if order is not None else ORDERS[name])
    ranked = Ranking(
        tuple(f"{each}#1" for each in ids), tuple(map(float, range(len(ids), 0, -1))), ids, ((0, 8),) * len(ids)
    )
    options = {"id": f"id of {name}", **options}
    return Run(name, options.pop("subject", SUBJECT), dict.fromkeys(QUERIES, ranked), **options)


def board(*names: str, **options: Any) -> Board:
    return Board(
        SPLIT, [run(name) for name in names or ORDERS], options.pop("wanted", ("ndcg@10", "mrr@10")), **options
    )
