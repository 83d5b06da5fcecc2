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
class Hit:
    """One entry of a ranking. `score` is the leg's own, higher is better."""

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
