"""Which documents moved between two runs, query by query: what makes one score of a query another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from evals.evaluation.board import Board
from evals.evaluation.context import EvalContext
from evals.measures import Metric
from evals.runs.rankings import Ranking
from evals.statistics.comparison import PairComparison
from workbench.notebooks.output import Table
from workbench.services import weight_payload

TOP = 10  # first documents that are looked at, where the metric has no cut-off
DEEPEST = 20  # of those, where its cut-off is deeper
RELEVANT = 20  # relevant documents of a query at most
QUERIES = 50  # whose documents are told: those of the greatest differences
TOLD = 3  # deciding queries in the table


@dataclass(frozen=True, slots=True)
class HistoryStep:
    """A document's rank in both runs, None where it is not there at all. `grade` is None where nobody judged it."""

    item: str
    title: str
    grade: int | None
    one: int | None
    other: int | None


async def rank_changes(ground: EvalContext, board: Board, made: PairComparison) -> dict[str, tuple[HistoryStep, ...]]:
    """By query, those that decide first: its relevant documents, found or not, then what else is near the top."""
    furthest = sorted(made.queries, key=lambda each: (-abs(each.difference), each.query))
    queries = dict.fromkeys(each.query for each in (*made.deciding, *furthest[:QUERIES]))
    found = {query: _of(board, made, query) for query in queries}
    items = list(dict.fromkeys(each.item for rows in found.values() for each in rows))
    titles = dict(zip(items, await weight_payload.titles(ground, items), strict=True))
    return {query: tuple(replace(each, title=titles[each.item]) for each in rows) for query, rows in found.items()}


def _of(board: Board, made: PairComparison, query: str) -> list[HistoryStep]:
    one, other = (_ranks(board.run(name).rankings.get(query)) for name in (made.system, made.baseline))
    grades = board.split.grades.get(query, {})
    top = min(DEEPEST, Metric.parse(board.metrics[0]).cutoff or TOP)
    every = [
        HistoryStep(item, "", grades.get(item), one.get(item), other.get(item)) for item in {**one, **other, **grades}
    ]
    relevant = sorted((each for each in every if _relevant(each)), key=lambda each: (-(each.grade or 0), *_order(each)))
    others = [each for each in every if not _relevant(each) and _best(each) <= top]
    return [*relevant[:RELEVANT], *sorted(others, key=_order)]


def _ranks(ranked: Ranking | None) -> Mapping[str, int]:
    return {item: rank for rank, item in enumerate(ranked.item_ids if ranked else (), start=1)}


def _relevant(each: HistoryStep) -> bool:
    return (each.grade or 0) > 0


def _best(each: HistoryStep) -> float:
    return min(rank for rank in (each.one, each.other, float("inf")) if rank is not None)


def _order(each: HistoryStep) -> tuple[float, str]:
    return _best(each), each.item


def table(made: PairComparison, found: Mapping[str, Sequence[HistoryStep]]) -> Table | None:
    """Where the relevant documents of the queries that decide most stand in both."""
    queries = [each.query for each in made.deciding[:TOLD]]
    rows = [
        (query, each.title or each.item, each.grade, _rank(each.one), _rank(each.other))
        for query in queries
        for each in found.get(query, ())
        if _relevant(each)
    ]
    columns = ("query", "relevant document", "grade", f"rank in {made.system}", f"rank in {made.baseline}")
    return Table.made("Where their relevant documents stand", columns, rows, columns[2:]) if rows else None


def _rank(rank: int | None) -> str:
    return "-" if rank is None else str(rank)
