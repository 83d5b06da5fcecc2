"""Values that every stage of a search shares: items, chunks, queries, hits, candidates and traces.

Plain data without behaviour of a stage; nothing here knows a store or a model.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar

T = TypeVar("T")
Metadata = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Item:
    """A source document. A form feed in `text` ends a page, as it does in what PDF converters print."""

    id: str
    text: str
    title: str = ""
    metadata: Metadata = field(default_factory=dict)

    @property
    def full_text(self) -> str:
        """Title and text as one, the form in which whole items are embedded and compared."""
        return f"{self.title} {self.text}".strip() if self.title else self.text


@dataclass(frozen=True, slots=True)
class Chunk:
    """A passage of an item: `item.text[start:end] == text`, offsets in Unicode code points.

    `level` is "passage", or "parent" and "child" where a chunker makes both; `parent` is the ordinal of the parent
    chunk. Pages count from 1 and are None where the item has no page breaks.
    """

    ordinal: int
    start: int
    end: int
    text: str
    heading_path: tuple[str, ...] = ()
    page_first: int | None = None
    page_last: int | None = None
    level: str = "passage"
    parent: int | None = None
    metadata: Metadata = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Query:
    """A question as somebody asked it. `weight` says how often; scores are broken down by `kind` and `tags`."""

    id: str
    text: str
    kind: str = ""
    tags: tuple[str, ...] = ()
    weight: float = 1.0
    metadata: Metadata = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a row stands, so that a complaint about it can be acted on."""

    file: str
    line: int | None = None

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}" if self.line is not None else self.file


@dataclass(frozen=True, slots=True)
class Row(Generic[T]):
    """A value together with the place it was read from."""

    value: T
    place: Place


@dataclass(frozen=True, slots=True)
class Flaw:
    """A row that was left out ("quarantined"), repaired ("cleaned"), or kept with a warning ("noted"), and why."""

    place: Place
    message: str
    outcome: Literal["quarantined", "cleaned", "noted"] = "quarantined"
    subject: str = ""


@dataclass(frozen=True, slots=True)
class LegScore:
    """What one leg says of a hit. `normalised` is the raw score normalised, where that was done before weighting."""

    leg: str
    rank: int
    raw: float
    contribution: float
    normalised: float | None = None


@dataclass(frozen=True, slots=True)
class Hit:
    """One entry of a ranking. Higher scores are better.

    After a fusion `score` is divided by the most that could be attained, so that thresholds mean something; `raw_score`
    is what the formula gave. `start` and `end` are offsets into the item's text, where the hit is a chunk.
    """

    id: str
    item_id: str
    score: float
    rank: int
    title: str
    text: str
    metadata: Metadata = field(default_factory=dict)
    heading_path: tuple[str, ...] = ()
    page_first: int | None = None
    page_last: int | None = None
    raw_score: float | None = None
    legs: tuple[LegScore, ...] = ()
    rerank_score: float | None = None
    level: str = "passage"
    parent_id: str | None = None
    section: str | None = None
    start: int | None = None
    end: int | None = None


@dataclass(frozen=True, slots=True)
class EvidenceChunk:
    """A passage of a retrieved item, on which an answer can be based. `anchors` are pages, rows or items it covers."""

    item_id: str
    chunk_id: str
    text: str
    start_idx: int
    end_idx: int
    token_count: int
    score: float
    score_text: float
    score_vec: float
    heading_path: tuple[str, ...] = ()
    anchors: Metadata = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Candidate:
    """What a leg found: the unit's id and the leg's own score, higher is better."""

    id: str
    score: float


@dataclass(frozen=True, slots=True)
class RelevanceRating:
    """What a language model says of one candidate, in the rubric's own scale."""

    chunk_id: str
    relevance_score: float
    answerable: bool | None = None
    key_evidence: str = ""


@dataclass(frozen=True, slots=True)
class Dropped:
    """A document that a stage left out, and why: as a sentence, and as a code with the limit that it mentions."""

    id: str
    reason: str
    code: str = ""
    limit: str = ""


@dataclass(frozen=True, slots=True)
class StageResult:
    """What a stage makes of the hits it is given. `notes` are what a reader of the result should know of it."""

    hits: tuple[Hit, ...] = ()
    dropped: tuple[Dropped, ...] = ()
    notes: tuple[str, ...] = ()
    ratings: tuple[RelevanceRating, ...] = ()
    evidence: tuple[EvidenceChunk, ...] = ()

    @classmethod
    def unchanged(cls, hits: Sequence[Hit], *notes: str) -> StageResult:
        """Results passed through, and why."""
        return cls(tuple(hits), notes=notes)


@dataclass(frozen=True, slots=True)
class Stage:
    """One step of a search, as its trace keeps it.

    `ranking` is what the step handed on: ids with their scores, best first. `unavailable` says why a leg could not be
    asked.
    """

    name: str
    milliseconds: float
    ranking: tuple[tuple[str, float], ...] = ()
    dropped: tuple[Dropped, ...] = ()
    notes: tuple[str, ...] = ()
    unavailable: str = ""


@dataclass(slots=True)
class StageRecord:
    """A stage that is under way."""

    ranking: tuple[tuple[str, float], ...] = ()
    dropped: list[Dropped] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def hand_on(self, hits: Sequence[Hit]) -> None:
        self.ranking = tuple((hit.id, hit.score) for hit in hits)

    def drop(self, ids: Iterable[str], reason: str, code: str = "", limit: str = "") -> None:
        self.dropped += [Dropped(each, reason, code, limit) for each in ids]

    def note(self, *sentences: str) -> None:
        self.notes += [sentence for sentence in sentences if sentence not in self.notes]

    def write(self, result: StageResult) -> StageResult:
        """Note what a stage did, and hand it on."""
        self.dropped += result.dropped
        self.note(*result.notes)
        if result.evidence:
            self.ranking = tuple((chunk.chunk_id, chunk.score) for chunk in result.evidence)
        else:
            self.hand_on(result.hits)
        return result


@dataclass(slots=True)
class Trace:
    """The stages so far, in order."""

    stages: list[Stage] = field(default_factory=list)
    begun: float = field(default_factory=time.perf_counter)
    milliseconds: float = 0.0

    def close(self) -> None:
        """The whole took this long: less than its stages together, where some ran side by side."""
        self.milliseconds = (time.perf_counter() - self.begun) * 1000

    @contextmanager
    def stage(self, name: str) -> Iterator[StageRecord]:
        begun = time.perf_counter()
        record = StageRecord()
        yield record
        spent = (time.perf_counter() - begun) * 1000
        self.stages.append(Stage(name, spent, record.ranking, tuple(record.dropped), tuple(record.notes)))

    def __getitem__(self, name: str) -> Stage:
        """The stage of that name; where it was done again, deeper, the last time is what counted."""
        for stage in reversed(self.stages):
            if stage.name == name:
                return stage
        raise KeyError(name)

    @property
    def notes(self) -> tuple[str, ...]:
        """Everything a reader of the result should know, once."""
        return tuple(dict.fromkeys(note for stage in self.stages for note in stage.notes))

    @property
    def timing_ms(self) -> dict[str, float]:
        """By stage; one that was done again counts with all its times."""
        spent: dict[str, float] = {}
        for stage in self.stages:
            spent[stage.name] = spent.get(stage.name, 0.0) + stage.milliseconds
        return spent


TokenCounter = Callable[[str], int]  # how many tokens a text takes
