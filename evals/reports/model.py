"""A report as data, and the texts that all its formats share."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from evals.evaluation.board import Board, BoardWarning
from evals.statistics.verdicts import Finding
from evals.suites.gate import Check
from evals.tuning.surface import Surface
from evals.tuning.tuner import TuningResult

DASH = "\N{EN DASH}"
_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]+")
_BREAKS = re.compile("[\n\u2028\u2029]+")
# Halves of characters, what is none, and what would turn the words around it back to front.
_REFUSED = re.compile("[\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff\u202a-\u202e\u2066-\u2069]")


def code(text: str) -> str:
    """In full, line breaks and tabs kept."""
    return _CONTROL.sub(" ", _REFUSED.sub("\N{REPLACEMENT CHARACTER}", text.replace("\r\n", "\n").expandtabs(4)))


def lines(text: str, most: int) -> str:
    """Cut to so many characters, line breaks kept."""
    clean = code(text).strip()
    return clean if len(clean) <= most else f"{clean[: most - 1].rstrip()}…"


def line(text: str, most: int) -> str:
    """The same in one line."""
    return lines(_BREAKS.sub(" ", text), most)


def number(value: float | None, form: str = ".3f") -> str:
    return DASH if value is None else f"{value:{form}}"


def span(low: float | None, high: float | None) -> str:
    """An interval; empty where it is not known."""
    return "" if low is None or high is None else f"{low:.3f} to {high:.3f}"


def counted(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"


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
    name: int = Field(160, ge=20, description="Characters of a name, a title, an id or a reason.")
    labels: int = Field(20, ge=1, description="Relevant items that are listed for a query.")
    groups: int = Field(30, ge=1, description="Kinds and tags that are shown, those of most queries first.")


@dataclass(frozen=True, slots=True)
class Document:
    """What an item is called and what it says, for those who read about queries."""

    title: str
    text: str


@dataclass(frozen=True, slots=True)
class Part:
    """One collection's share of a report: its table, and what else is known. `documents` are by item id.

    `tunings` are weight surfaces by the name of what they are for, swept or tuned; `plan` is the line that says what
    the variants took.
    """

    board: Board
    tunings: Mapping[str, Surface | TuningResult] = field(default_factory=dict)
    documents: Mapping[str, Document] = field(default_factory=dict)
    notes: Sequence[str] = ()
    plan: str = ""


@dataclass(frozen=True, slots=True)
class ReportColumn:
    """A metric with its formula, how sure its means are, and the runs that the best is not better than."""

    metric: str
    explanation: str
    top: tuple[str, ...]
    front: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Value:
    """A run's mean of a metric. `doubts` are sentences to read before it is believed; `judged` a share of hits.

    `finding` is against the baseline; None of the baseline itself. Without a mean no query could be weighed. `badge`
    is said beside a score that is not one of what ships, or where often nothing was found.
    """

    mean: float | None
    low: float | None = None
    high: float | None = None
    judged: float | None = None
    finding: Finding | None = None
    doubts: tuple[str, ...] = ()
    badge: str = ""


@dataclass(frozen=True, slots=True)
class ReportLine:
    """A run: its row of the table. `style` is the number of its colour and mark, the same in every part.

    `p50` and `p95` are milliseconds of searches asked alone; `toml` is empty for a foreign run.
    """

    name: str
    style: int
    baseline: bool
    values: Mapping[str, Value]
    p50: float | None
    p95: float | None
    megabytes: float | None
    failed: int
    toml: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Group:
    """The means over the queries of one kind, or with one tag: `means[metric][name]`. `few`: too few for a tie."""

    by: str
    name: str
    queries: int
    few: bool
    means: Mapping[str, Mapping[str, float]]


@dataclass(frozen=True, slots=True)
class Queries:
    """What can be looked at query by query, numbered instead of named so that it stays small.

    `rows` are plain values fit for JSON; `items` are [id, title], `passages` [number of the item, excerpt].
    """

    rows: tuple[Mapping[str, Any], ...]
    items: tuple[tuple[str, str], ...]
    passages: tuple[tuple[int, str], ...]


@dataclass(frozen=True, slots=True)
class FusionWeights:
    """One fusion's means over the simplex: points x legs in whole shares of `steps`."""

    fusion: str
    grid: tuple[tuple[int, ...], ...]
    means: tuple[float, ...]
    tied: tuple[bool, ...]
    best: int
    votes: int | None = None


@dataclass(frozen=True, slots=True)
class Weights:
    """What is known of a hybrid's weights. What tuning is worth is None where nobody tuned.

    `chosen` is the number of the fusion with the best point of all; `folds` are the points chosen on it by parts of the
    queries.
    """

    name: str
    metric: str
    legs: tuple[str, ...]
    steps: int
    queries: int
    fusions: tuple[FusionWeights, ...]
    chosen: int
    untuned: float
    in_sample: float
    oracle: float
    cross_fitted: float | None = None
    gain: tuple[float, float, float] | None = None
    folds: tuple[int, ...] = ()
    verdict: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """Everything about one collection and split. `facts` say what was measured, each a name and a value."""

    title: str
    headline: str
    facts: tuple[tuple[str, str], ...]
    rules: str
    warnings: tuple[BoardWarning, ...]
    notes: tuple[str, ...]
    columns: tuple[ReportColumn, ...]
    lines: tuple[ReportLine, ...]
    baseline: str
    tie: float
    groups: tuple[Group, ...]
    queries: Queries
    weights: tuple[Weights, ...]

    @property
    def findings(self) -> dict[str, list[tuple[ReportLine, Finding]]]:
        """By metric, each run against the baseline."""
        return {
            column.metric: [
                (line, finding) for line in self.lines if (finding := line.values[column.metric].finding) is not None
            ]
            for column in self.columns
        }


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
