"""Which documents have another rank in one run than in the other, query by query: what makes their scores differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from evals.evaluation.board import Board
from evals.evaluation.context import EvalContext
from evals.measures import Metric
from evals.statistics.comparison import PairComparison
from workbench.notebooks.output import Table
from workbench.services import weight_payload

TOP = 10  # first documents that are compared, where the metric has no cut-off
DEEPEST = 20  # of those, where its cut-off is deeper
RELEVANT = 20  # relevant documents of a query at most
QUERIES = 50  # whose documents are listed: those of the greatest differences
SHOWN = 3  # deciding queries in the table


@dataclass(frozen=True, slots=True)
class RankChange:
    """A document's rank in both runs, None where it is not there at all. `grade` is None where nobody judged it."""

    item: str
    title: str
    grade: int | None
    one: int | None
    other: int | None

    @property
    def is_relevant(self) -> bool:
        return (self.grade or 0) > 0


async def rank_changes(
    opened: EvalContext, board: Board, comparison: PairComparison
) -> dict[str, tuple[RankChange, ...]]:
    """By query, the deciding ones first: its relevant documents, found or not, then what else is near the top."""
    furthest = sorted(comparison.queries, key=lambda each: (-abs(each.difference), each.query))
    queries = dict.fromkeys(each.query for each in (*comparison.deciding, *furthest[:QUERIES]))
    found = {query: _changes(board, comparison, query) for query in queries}
    items = list(dict.fromkeys(each.item for rows in found.values() for each in rows))
    titles = dict(zip(items, await weight_payload.titles(opened, items), strict=True))
    return {query: tuple(replace(each, title=titles[each.item]) for each in rows) for query, rows in found.items()}


def _changes(board: Board, comparison: PairComparison, query: str) -> list[RankChange]:
    rankings = (board.run(name).rankings.get(query) for name in (comparison.system, comparison.baseline))
    one, other = ({item: rank for rank, item in enumerate(each.item_ids if each else (), 1)} for each in rankings)
    grades = board.split.grades.get(query, {})
    top = min(DEEPEST, Metric.parse(board.metrics[0]).cutoff or TOP)

    def best(each: RankChange) -> tuple[float, str]:
        return min(rank for rank in (each.one, each.other, float("inf")) if rank is not None), each.item

    items = {**one, **other, **grades}
    every = [RankChange(item, "", grades.get(item), one.get(item), other.get(item)) for item in items]
    relevant = sorted((each for each in every if each.is_relevant), key=lambda each: (-(each.grade or 0), *best(each)))
    others = sorted((each for each in every if not each.is_relevant and best(each)[0] <= top), key=best)
    return [*relevant[:RELEVANT], *others]


def relevant_table(comparison: PairComparison, changes: Mapping[str, Sequence[RankChange]]) -> Table | None:
    """The ranks of relevant documents in both runs, for the queries that decide most."""
    queries = [each.query for each in comparison.deciding[:SHOWN]]
    rows = [
        (
            query,
            each.title or each.item,
            each.grade,
            each.one or "-",
            each.other or "-",
        )
        for query in queries
        for each in changes.get(query, ())
        if each.is_relevant
    ]
    ranks = (f"rank in {comparison.system}", f"rank in {comparison.baseline}")
    columns = ("query", "relevant document", "grade", *ranks)
    return Table.made("Where their relevant documents stand", columns, rows, columns[2:]) if rows else None
