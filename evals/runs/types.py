"""A run and what it was made over, as values; and the results of a leg or a variant, query by query.

Keys of stored runs hang on these field names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

import numpy as np

from core.variant import Variant
from evals.measures import Metric
from evals.runs.rankings import Ranking, Rankings

NOTHING = Ranking()


def looks_beyond(variant: Variant | None, metric: Metric | str) -> bool:
    """Whether the metric counts results that the variant does not ship."""
    return variant is not None and (Metric.of(metric).cutoff or 0) > variant.top_k


@dataclass(frozen=True, slots=True)
class RunSubject:
    """What a run was made over. Two runs are comparable where these are equal.

    `content` is a digest of what stood in the collection; a version alone may come again, in a collection made anew.
    """

    collection: str
    version: int
    query_set: str
    digest: bytes
    split: str
    content: str = ""


def unlike(mine: RunSubject, theirs: RunSubject) -> str:
    """In what two subjects differ, empty where they are equal."""
    differences = [
        (mine.collection, theirs.collection, "collection {} and {}"),
        (mine.split, theirs.split, "split {} and {}"),
        (mine.query_set, theirs.query_set, "query set {} and {}"),
        (mine.digest.hex()[:8], theirs.digest.hex()[:8], "the queries or labels changed ({} and {})"),
        (mine.version, theirs.version, "the collection changed (version {} and {})"),
        (mine.content[:8], theirs.content[:8], "the collection's content changed ({} and {})"),
    ]
    return "; ".join(says.format(one, other) for one, other, says in differences if one != other)


def way_out(mine: RunSubject, theirs: RunSubject) -> str:
    """What makes runs over these two comparable."""
    for one, other, what in (
        (mine.collection, theirs.collection, "collection"),
        (mine.query_set, theirs.query_set, "query set"),
        (mine.split, theirs.split, "split"),
    ):
        if one != other:
            return f"Take two runs over one {what}: evaluate both variants there."
    return "Evaluate both anew: what legs found is kept, so that it is quick."


@dataclass(frozen=True, slots=True)
class Latency:
    """Milliseconds a query, of whole searches that were asked alone, one at a time, with everything loaded."""

    p50: float
    p95: float
    queries: int


@dataclass(frozen=True, slots=True)
class Run:
    """What came of it. A query that failed has a reason in `failures`, an empty ranking, and a score of 0.

    `rankings` are what ships, and `beyond` the candidates that only the variant's `top_k` keeps out. A deep run is of
    the variant asked for `depth` results, at which its first ones may be others; its `depth` is 0 where it is asked for
    what it ships. `milliseconds` are whole
    searches by query; `stages` the same by stage and query, where they were seen one by one. Those of the queries in
    `timed` are of live searches, one at a time, of the variant as it ships; all others were taken while
    several queries were under way: of a variant computed from leg runs its slowest leg and the fusing.
    `environment` is the code's version, the machine, the server and the like; `notes` what a reader should know.
    `without` are legs that could not be asked, each with the reason: what was found is then of the others alone.
    """

    name: str
    subject: RunSubject
    rankings: Rankings = field(repr=False)
    variant: Variant | None = None
    failures: Mapping[str, str] = field(default_factory=dict, repr=False)
    milliseconds: Mapping[str, float] = field(default_factory=dict, repr=False)
    stages: Mapping[str, Mapping[str, float]] = field(default_factory=dict, repr=False)
    environment: Mapping[str, Any] = field(default_factory=dict, repr=False)
    made_at: datetime | None = None
    id: str = ""
    depth: int = 0
    timed: tuple[str, ...] = field(default=(), repr=False)
    notes: tuple[str, ...] = ()
    without: Mapping[str, str] = field(default_factory=dict)
    beyond: Rankings = field(default_factory=dict, repr=False)

    @property
    def lifted(self) -> Rankings:
        """All candidates, as though `top_k` were not there."""
        if not self.beyond:
            return self.rankings
        return {query: ranked.then(self.beyond.get(query, NOTHING)) for query, ranked in self.rankings.items()}

    def looks_beyond(self, metric: Metric | str) -> bool:
        """Whether the metric counts results that the variant does not ship."""
        return looks_beyond(self.variant, metric)

    def seen_by(self, metric: Metric | str) -> Rankings:
        """What the metric is told of: what ships, and for one that looks deeper all candidates."""
        return self.lifted if self.looks_beyond(metric) else self.rankings

    @property
    def index_bytes(self) -> int | None:
        """What the indexes take that the variant is served by; None where nobody wrote down which they are."""
        sizes: Mapping[str, int] = self.environment.get("indexes", {})
        own = [sizes[name] for name in self.environment.get("own indexes", ()) if name in sizes]
        return sum(own) if own else None

    @property
    def latency(self) -> Latency | None:
        """Of the queries that were timed alone; None where none was. What was taken under load is no latency."""
        return _latency(self.milliseconds, self.timed)

    @property
    def stage_latencies(self) -> dict[str, Latency]:
        """The same of every stage."""
        found = {stage: _latency(spent, self.timed) for stage, spent in self.stages.items()}
        return {stage: latency for stage, latency in found.items() if latency is not None}


@dataclass(frozen=True, slots=True)
class CandidateRun:
    """A set-up that is not in a table, and is looked at together with those that are: scores by metric and query."""

    name: str
    variant: Variant | None
    scores: Mapping[str, Mapping[str, float] | None] = field(repr=False)

    def has(self, metric: Metric | str) -> bool:
        """Whether it was scored by a metric that counts no more than it ships."""
        return not looks_beyond(self.variant, metric) and bool(self.scores.get(str(metric)))


@dataclass(frozen=True, slots=True)
class CandidateSet:
    """What else was evaluated over the same: other candidates, and set-ups of a grid that nobody chose (`cells`).

    `aside` set-ups were set aside, `deleted` ones have runs in the trash alone; `seen` of them all had scores by then.
    """

    candidates: tuple[CandidateRun, ...] = ()
    cells: frozenset[str] = frozenset()
    aside: int = 0
    deleted: int = 0
    seen: int = 0


def _latency(milliseconds: Mapping[str, float], timed: tuple[str, ...]) -> Latency | None:
    times = [milliseconds[query] for query in timed if query in milliseconds]
    if not times:
        return None
    p50, p95 = np.percentile(times, [50, 95]).tolist()
    return Latency(p50, p95, len(times))


class Comparable(Protocol):
    """A run, or what a list says of it."""

    @property
    def name(self) -> str: ...
    @property
    def subject(self) -> RunSubject: ...
    @property
    def variant(self) -> Variant | None: ...
    @property
    def depth(self) -> int: ...


def not_comparable(one: Comparable, other: Comparable) -> str:
    """Why a difference of their scores would say nothing of the variants, and what would; empty where it does."""
    if differs := unlike(one.subject, other.subject):
        return (
            f"{one.name!r} and {other.name!r} are not over the same data: {differs}. "
            f"{way_out(one.subject, other.subject)}"
        )
    if one.depth == other.depth or one.variant is None or other.variant is None:
        return ""
    deep, rest = (one, other) if one.depth > other.depth else (other, one)
    asked = f"was asked for {rest.depth}" if rest.depth else "is of what ships"
    return (
        f"{deep.name!r} is a deep run, asked for {deep.depth} results, and {rest.name!r} {asked}: the first results of "
        "a deep run may be others. Evaluate both anew, as they ship."
    )


@dataclass(slots=True)
class QueryResults:
    """By query, as in a run. `remarks` are what stages passed over, each with its queries.

    `without` are legs that could not be asked, each with its queries and why.
    """

    rankings: dict[str, Ranking] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    milliseconds: dict[str, float] = field(default_factory=dict)
    stages: dict[str, dict[str, float]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    remarks: dict[str, list[str]] = field(default_factory=dict)
    without: dict[str, dict[str, str]] = field(default_factory=dict)

    def add(self, more: QueryResults) -> None:
        """Everything of `more`, where both say something of a query in the place of what was there."""
        self.rankings |= more.rankings
        self.failures |= more.failures
        self.milliseconds |= more.milliseconds
        self.notes = tuple(dict.fromkeys((*self.notes, *more.notes)))
        for stage, spent in more.stages.items():
            self.stages.setdefault(stage, {}).update(spent)
        for remark, queries in more.remarks.items():
            self.remarks.setdefault(remark, []).extend(queries)
        for leg, told in more.without.items():
            self.without.setdefault(leg, {}).update(told)
