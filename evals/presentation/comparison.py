"""The view model of two runs compared: the verdict, every query, the deciding ones, and documents that moved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from evals.display import DisplayModel, Table
from evals.evaluation.board import Board, BoardWarning
from evals.measures import Metric
from evals.presentation.leaderboard import LONGEST_QUERY
from evals.presentation.text import line
from evals.statistics.comparison import GroupFinding, PairComparison
from evals.statistics.verdicts import Finding

TOP, DEEPEST = 10, 20  # first documents that are looked at: where the metric has no cut-off, and at most
RELEVANT = 20  # relevant documents of a query at most
QUERIES = 50  # whose documents are looked at: those of the greatest differences
SHOWN = 10  # queries of a table where none decides
DECIDING = 3  # queries whose relevant documents are listed


class ComparedQuery(DisplayModel):
    """A query's score in both. Without it the mean difference would change by -`influence`."""

    id: str
    text: str
    kind: str
    tags: tuple[str, ...]
    one: float
    other: float
    difference: float
    influence: float


class RankChange(DisplayModel):
    """A document's rank in both runs, None where it is not there. `grade` is None where nobody judged it."""

    item: str
    title: str
    grade: int | None
    one: int | None
    other: int | None

    @property
    def best(self) -> float:
        return min(rank for rank in (self.one, self.other, float("inf")) if rank is not None)

    @property
    def relevant(self) -> bool:
        return (self.grade or 0) > 0


class Comparison(DisplayModel):
    """`one` is the system, `other` the baseline. `queries` are by falling difference; `deciding` are ids.

    `rank_changes` are by query, its relevant documents first.
    """

    system: str
    baseline: str
    metric: str
    formula: str
    level: float
    finding: Finding
    queries: tuple[ComparedQuery, ...]
    groups: tuple[GroupFinding, ...]
    deciding: tuple[str, ...]
    rank_changes: dict[str, tuple[RankChange, ...]]
    warnings: tuple[BoardWarning, ...]

    @property
    def headline(self) -> str:
        return f"{self.metric}: {self.finding.sentence}"

    @property
    def counts(self) -> str:
        known = self.finding.difference
        return f"{self.system} won {known.wins} queries, lost {known.losses}, and {known.ties} were equal."

    def deciding_table(self) -> Table:
        """The deciding queries; where all differ equally, so that none decides, the first ones."""
        decide = set(self.deciding)
        rows = [each for each in self.queries if each.id in decide] or self.queries[:SHOWN]
        by_place = {query: at for at, query in enumerate(self.deciding)}
        cells = [
            (each.id, each.text, f"{each.one:.3f}", f"{each.other:.3f}", signed(each.difference))
            for each in sorted(rows, key=lambda each: by_place.get(each.id, 0))
        ]
        columns = ("query", "text", self.system, self.baseline, "difference")
        return Table.of("The queries that decide", columns, cells, columns[2:])

    def kinds_table(self) -> Table | None:
        """None where there is one kind only: it is the whole again."""
        rows = [
            (each.group or "(none)", str(each.finding.verdict), signed(each.finding.difference.mean))
            for each in self.groups
            if each.by == "kind"
        ]
        return Table.of("By kind", ("kind", "verdict", "difference"), rows, ("difference",)) if len(rows) > 1 else None

    def rank_table(self) -> Table | None:
        """The ranks in both runs of the relevant documents of the most deciding queries."""
        rows = [
            (query, each.title or each.item, each.grade, *("-" if r is None else r for r in (each.one, each.other)))
            for query in self.deciding[:DECIDING]
            for each in self.rank_changes.get(query, ())
            if each.relevant
        ]
        columns = ("query", "relevant document", "grade", f"rank in {self.system}", f"rank in {self.baseline}")
        return Table.of("Where their relevant documents stand", columns, rows, columns[2:]) if rows else None

    def document(self) -> dict[str, Any]:
        """What `--json` prints of it."""
        by_id = {each.id: each for each in self.queries}
        return {
            "sentence": self.finding.sentence,
            "verdict": str(self.finding.verdict),
            "difference": self.finding.difference,
            "groups": self.groups,
            "deciding": [
                {"query": query, "text": by_id[query].text, "difference": by_id[query].difference}
                for query in self.deciding
            ],
            "by query": {each.id: each.difference for each in self.queries},
        }

    def cell_values(self) -> dict[str, Any]:
        """What a compare cell stores beside its blocks. The keys are those of outputs that are kept already."""
        queries = [each.model_dump(mode="json") for each in self.queries]
        return {
            "verdict": str(self.finding.verdict),
            "difference": self.finding.difference.mean,
            "by query": {each.id: each.difference for each in self.queries},
            "metric": self.metric,
            "formula": self.formula,
            "system": self.system,
            "baseline": self.baseline,
            "finding": asdict(self.finding.difference),
            "sentence": self.finding.sentence,
            "level": self.level,
            "queries": [{**each, "text": line(each["text"], LONGEST_QUERY)} for each in queries],
            "groups": [
                {
                    "by": each.by,
                    "name": each.group,
                    "verdict": str(each.finding.verdict),
                    "sentence": each.finding.sentence,
                    "finding": asdict(each.finding.difference),
                }
                for each in self.groups
            ],
            "deciding": list(self.deciding),
            "moved": {
                query: [each.model_dump(mode="json") for each in rows] for query, rows in self.rank_changes.items()
            },
            "notes": [warned.message for warned in self.warnings],
        }


def signed(value: float | None) -> str:
    return "-" if value is None else f"{value:+.3f}"


def comparison(
    board: Board, pair: PairComparison, metric: str, changes: Mapping[str, Sequence[RankChange]] | None = None
) -> Comparison:
    one, other = board.of(pair.system, metric), board.of(pair.baseline, metric)
    queries = []
    for each in pair.queries:
        labelled = board.split.queries[each.query]
        queries.append(
            ComparedQuery(
                id=each.query,
                text=labelled.text,
                kind=labelled.kind,
                tags=tuple(labelled.tags),
                one=one[each.query],
                other=other[each.query],
                difference=each.difference,
                influence=each.influence,
            )
        )
    return Comparison(
        system=pair.system,
        baseline=pair.baseline,
        metric=metric,
        formula=Metric.parse(metric).explanation,
        level=board.rules.level,
        finding=pair.finding,
        queries=tuple(queries),
        groups=pair.groups,
        deciding=tuple(each.query for each in pair.deciding),
        rank_changes={query: tuple(rows) for query, rows in (changes or {}).items()},
        warnings=board.warnings,
    )


def rank_changes(board: Board, pair: PairComparison, metric: str) -> dict[str, list[RankChange]]:
    """By query, the deciding ones first: its relevant documents, found or not, then others near the top. No titles."""
    furthest = sorted(pair.queries, key=lambda each: (-abs(each.difference), each.query))
    top = min(DEEPEST, Metric.parse(metric).cutoff or TOP)
    changes = {}
    for query in dict.fromkeys(each.query for each in (*pair.deciding, *furthest[:QUERIES])):
        rankings = [board.run(name).rankings.get(query) for name in (pair.system, pair.baseline)]
        one, other = (
            {item: rank for rank, item in enumerate(each.item_ids if each else (), start=1)} for each in rankings
        )
        grades = board.split.grades.get(query, {})
        every = [
            RankChange(item=item, title="", grade=grades.get(item), one=one.get(item), other=other.get(item))
            for item in {**one, **other, **grades}
        ]
        every.sort(key=lambda each: (each.best, each.item))
        relevant = sorted((each for each in every if each.relevant), key=lambda each: -(each.grade or 0))
        changes[query] = [*relevant[:RELEVANT], *(each for each in every if not each.relevant and each.best <= top)]
    return changes
