"""What packing gives: the chunks, where they are from, the text made of them, and how it came about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from core.packing.citing import Citation

Role = Literal["primary", "parent", "sibling", "neighbour"]
Ranking = tuple[tuple[str, float], ...]  # ids with their scores, best first, as in core.trace


@dataclass(frozen=True, slots=True)
class PackedChunk:
    """A chunk of the context. `mark` is the hit's: its reranker's score, or its own where nothing reranked it.

    One that was added has the mark of the hit that brought it in, whose id is `beside`; a primary's is its own.
    `tokens` counts the passage as it stands in the context, its citation and marks included.
    """

    id: str
    item_id: str
    role: Role
    text: str
    tokens: int
    mark: float
    beside: str
    citation: Citation


@dataclass(frozen=True, slots=True)
class DroppedChunk:
    """A chunk that was left out, and why."""

    id: str
    role: Role
    reason: str


@dataclass(frozen=True, slots=True)
class PackTrace:
    """How it came about. `expansions` counts what was added and stayed, by kind; `tokens` is of the whole context."""

    dense_candidates: Ranking = ()
    rerank_results: Ranking = ()
    tokens: int = 0
    expansions: Mapping[str, int] = field(default_factory=dict)
    dropped: tuple[DroppedChunk, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ContextPack:
    """A query's context. `citations` stand in the order of `chunks`, and `context` is the text for a prompt."""

    query: str
    chunks: tuple[PackedChunk, ...]
    citations: tuple[Citation, ...]
    trace: PackTrace
    context: str
