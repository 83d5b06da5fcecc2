"""A report as data: what goes in, how much of it is kept, and the sections that every format renders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from core.store.passages import ItemText
from evals.evaluation.board import Board, BoardWarning
from evals.presentation.leaderboard import LONGEST_NAME, MOST_GROUPS, Leaderboard, LeaderboardRow
from evals.presentation.weight_surface import WeightSurface
from evals.suites.gate import Check
from evals.tuning.surface import Surface
from evals.tuning.tuner import TuningResult


class Limits(BaseModel):
    """How much goes into a report, so that a page of 36 variants over 1,000 queries stays below 20 MB.

    What is left out is said in the report. Scores and verdicts are always over all queries.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    hits: int = Field(10, ge=1, le=100, description="Hits a variant and query.")
    rankings: int = Field(36_000, ge=1, description="Variants times queries that can be looked at one by one.")
    query: int = Field(600, ge=20, description="Characters of a query's text.")
    excerpt: int = Field(180, ge=20, description="Characters of a hit's passage.")
    texts: int = Field(5_000_000, ge=0, description="Bytes of passages in all; the first ranks come first.")
    name: int = Field(LONGEST_NAME, ge=20, description="Characters of a name, a title, an id or a reason.")
    labels: int = Field(20, ge=1, description="Relevant items that are listed for a query.")
    groups: int = Field(MOST_GROUPS, ge=1, description="Kinds and tags that are shown, those of most queries first.")


@dataclass(frozen=True, slots=True)
class Part:
    """One collection's share of a report: its board, and what else is known. `documents` are by item id.

    `tunings` are weight surfaces by the name of what they are for, swept or tuned; `plan` is the line that says what
    the variants took.
    """

    board: Board
    tunings: Mapping[str, Surface | TuningResult] = field(default_factory=dict)
    documents: Mapping[str, ItemText] = field(default_factory=dict)
    notes: Sequence[str] = ()
    plan: str = ""


@dataclass(frozen=True, slots=True)
class QueryDetails:
    """What can be looked at query by query, numbered instead of named so that it stays small.

    `rows` are plain values fit for JSON; `items` are [id, title], `passages` [number of the item, excerpt].
    """

    rows: tuple[Mapping[str, Any], ...]
    items: tuple[tuple[str, str], ...]
    passages: tuple[tuple[int, str], ...]


@dataclass(frozen=True, slots=True)
class Section:
    """Everything about one collection and split. `facts` say what was measured, each a name and a value."""

    board: Leaderboard
    facts: tuple[tuple[str, str], ...]
    warnings: tuple[BoardWarning, ...]
    notes: tuple[str, ...]
    queries: QueryDetails
    weights: tuple[WeightSurface, ...]


@dataclass(frozen=True, slots=True)
class Report:
    """All of it. `command` repeats it, with `files` beside it by name; `cut` says what was left out."""

    title: str
    description: str
    sections: tuple[Section, ...]
    checks: tuple[Check, ...] = ()
    command: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    cut: tuple[str, ...] = ()

    def distinct_rows(self) -> list[LeaderboardRow]:
        """Each run once, by its name, whatever sections it is in."""
        rows: dict[str, LeaderboardRow] = {}
        for section in self.sections:
            for row in section.board.rows:
                rows.setdefault(row.name, row)
        return list(rows.values())
