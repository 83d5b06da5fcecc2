"""Runs and what they were made over, as values; and the results of a leg or a variant, query by query.

Field names of runs and latencies are the keys of stored ones, and must not change.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any, Protocol

import numpy as np

from core.variant import Variant
from evals.measures import Metric
from evals.runs.rankings import Ranking, Rankings, decode_rankings, encode_rankings

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


def unlike(one: RunSubject, other: RunSubject) -> str:
    """In what two subjects differ, empty where they are equal."""
    differences = [
        (one.collection, other.collection, "collection {} and {}"),
        (one.split, other.split, "split {} and {}"),
        (one.query_set, other.query_set, "query set {} and {}"),
        (one.digest.hex()[:8], other.digest.hex()[:8], "the queries or labels changed ({} and {})"),
        (one.version, other.version, "the collection changed (version {} and {})"),
        (one.content[:8], other.content[:8], "the collection's content changed ({} and {})"),
    ]
    return "; ".join(words.format(first, second) for first, second, words in differences if first != second)


def way_out(one: RunSubject, other: RunSubject) -> str:
    """What makes runs over these two comparable."""
    for first, second, what in (
        (one.collection, other.collection, "collection"),
        (one.query_set, other.query_set, "query set"),
        (one.split, other.split, "split"),
    ):
        if first != second:
            return f"Take two runs over one {what}: evaluate both variants there."
    return "Evaluate both anew: what legs found is kept, so that it is quick."


@dataclass(frozen=True, slots=True)
class Latency:
    """Milliseconds a query, of whole searches made one at a time, with everything loaded."""

    p50: float
    p95: float
    queries: int


@dataclass(frozen=True, slots=True)
class Run:
    """One variant, or another engine, over the queries of a split. A query that failed has a reason in `failures`, an
    empty ranking, and a score of 0.

    `rankings` are what ships, and `beyond` the candidates that only the variant's `top_k` keeps out. A deep run is of
    the variant asked for `depth` results, whose first ones may be others than those that ship; else `depth` is 0.
    `milliseconds` are whole searches by query, `stages` the same by stage and query. Of the queries in `timed` they are
    of live searches, one at a time, of the variant as it ships; all others were taken while several queries were under
    way: of a variant computed from leg runs its slowest leg and the fusing.
    `environment` is the code's version, the machine, the server and the like; `notes` what a reader should know.
    `without` are legs that could not be used, each with the reason: the rankings are then of the others alone.
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
        return {query: ranking.then(self.beyond.get(query, NOTHING)) for query, ranking in self.rankings.items()}

    def looks_beyond(self, metric: Metric | str) -> bool:
        """Whether the metric counts results that the variant does not ship."""
        return looks_beyond(self.variant, metric)

    def seen_by(self, metric: Metric | str) -> Rankings:
        """The rankings that the metric scores: what ships, and for one that looks deeper all candidates."""
        return self.lifted if self.looks_beyond(metric) else self.rankings

    @property
    def index_bytes(self) -> int | None:
        """The size of the indexes that serve the variant; None where the run does not say which they are."""
        sizes: Mapping[str, int] = self.environment.get("indexes", {})
        own = [sizes[name] for name in self.environment.get("own indexes", ()) if name in sizes]
        return sum(own) if own else None

    @property
    def latency(self) -> Latency | None:
        """Of the queries that were timed alone; None where none was. Times under load are no latency."""
        return _latency(self.milliseconds, self.timed)

    @property
    def stage_latencies(self) -> dict[str, Latency]:
        """The same of every stage."""
        of_stages = {stage: _latency(spent, self.timed) for stage, spent in self.stages.items()}
        return {stage: latency for stage, latency in of_stages.items() if latency is not None}


@dataclass(frozen=True, slots=True)
class CandidateRun:
    """A candidate that is not in a table, and among which its verdicts must hold: scores by metric and query."""

    name: str
    variant: Variant | None
    scores: Mapping[str, Mapping[str, float] | None] = field(repr=False)

    def has(self, metric: Metric | str) -> bool:
        """Whether it was scored by a metric that counts no more than it ships."""
        return not looks_beyond(self.variant, metric) and bool(self.scores.get(str(metric)))


@dataclass(frozen=True, slots=True)
class CandidateSet:
    """The other candidates of a place, and the set-ups of a grid that were not chosen (`cells`).

    `aside` counts set-ups that were set aside, `deleted` those whose runs are all in the trash; `seen` counts how many
    of both had scores by then.
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
    how = f"was asked for {rest.depth}" if rest.depth else "is of what ships"
    return (
        f"{deep.name!r} is a deep run, asked for {deep.depth} results, and {rest.name!r} {how}: the first results of "
        "a deep run may be others. Evaluate both anew, as they ship."
    )


@dataclass(slots=True)
class QueryResults:
    """What a leg or a variant found, by query. A leg's queries that failed have no ranking, a variant's an empty one.

    `remarks` are what stages passed over, each with its queries. `unavailable` are legs that could not be used: by leg,
    each query with the reason.
    """

    rankings: dict[str, Ranking] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    milliseconds: dict[str, float] = field(default_factory=dict)
    stages: dict[str, dict[str, float]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    remarks: dict[str, list[str]] = field(default_factory=dict)
    unavailable: dict[str, dict[str, str]] = field(default_factory=dict)

    def add(self, more: QueryResults) -> None:
        """Everything of `more`; where both say something of a query, in the place of what was there."""
        self.rankings |= more.rankings
        self.failures |= more.failures
        self.milliseconds |= more.milliseconds
        self.notes = tuple(dict.fromkeys((*self.notes, *more.notes)))
        for stage, spent in more.stages.items():
            self.stages.setdefault(stage, {}).update(spent)
        for remark, queries in more.remarks.items():
            self.remarks.setdefault(remark, []).extend(queries)
        for leg, reasons in more.unavailable.items():
            self.unavailable.setdefault(leg, {}).update(reasons)

    def lacks(self, query: str) -> bool:
        """Whether nothing is known of the query yet."""
        return not (query in self.rankings or query in self.failures or self.missing(query))

    def missing(self, query: str) -> str:
        """Why a leg could not be used for the query; empty where none was missing."""
        return next((reasons[query] for reasons in self.unavailable.values() if query in reasons), "")

    def to_bytes(self) -> bytes:
        more = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "rankings"}
        return encode_rankings(self.rankings, **more)

    @classmethod
    def from_bytes(cls, content: bytes) -> QueryResults:
        read = decode_rankings(content)
        return cls(read.rankings, **{**read.more, "notes": tuple(read.more.get("notes", ()))})
