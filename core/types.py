"""The plain values that pass between stages. Frozen; no behaviour beyond what their fields say."""

from __future__ import annotations

from collections.abc import Mapping
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
    """What one leg says of a hit. `normalised` is what its raw score became before it was weighted, where it was."""

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
    """A passage of an item that was found, for an answer to stand on. `anchors` are pages, rows or items it covers."""

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
