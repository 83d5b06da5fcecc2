"""Context packing as data: its options, the packed chunks with their citations, and what was dropped and why."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeVar

import pydantic
from pydantic import BaseModel, ConfigDict, Field

from core.errors import SpecError

M = TypeVar("M", bound=BaseModel)

PREFIX: Final = "RANKBOOK_PACK_"


class Packing(BaseModel):
    """How results become the context of an answer."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    include_parents: bool = Field(True, description="Whether each hit is followed by its parent chunk.")
    neighbor_same_page: int = Field(
        1, ge=0, le=100, description="How many siblings on the same page are added for each hit, the nearest."
    )
    neighbor_cross_page: int = Field(
        2,
        ge=0,
        le=100,
        description="How many chunks on the pages before and after are added for each hit, the nearest.",
    )
    final_max_tokens: int = Field(12_000, ge=1, description="The most tokens the context may take.")
    min_primary_hits_to_keep: int = Field(
        3, ge=0, description="How many of the best hits stay even where they alone take more than the budget."
    )


def packing_from(environment: Mapping[str, str], **options: Any) -> Packing:
    """Options given in code; else those of variables such as RANKBOOK_PACK_FINAL_MAX_TOKENS; else the defaults."""
    return options_from(Packing, "Packing", environment, options)


def options_from(kind: type[M], name: str, environment: Mapping[str, str], options: Mapping[str, Any]) -> M:
    """The same for a class that has more options than these; an error begins with its name."""
    variables = {field: environment.get(PREFIX + field.upper(), "").strip() for field in kind.model_fields}
    used = {field: value for field, value in variables.items() if value and field not in options}
    try:
        return kind(**{**used, **options})
    except (pydantic.ValidationError, SpecError) as error:
        cause = error if isinstance(error, pydantic.ValidationError) else error.__cause__
        if not isinstance(cause, pydantic.ValidationError):
            raise
        from_environment = ", ".join(PREFIX + field.upper() for field in used)
        where = f"{name}, with {from_environment} from the environment," if used else name
        raise SpecError.from_pydantic(where, cause) from cause


Range = tuple[int, int]

# What turns the order of writing about could show a line other than it is.
DIRECTIONS: Final = frozenset({"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"})


@dataclass(frozen=True, slots=True)
class Citation:
    """A passage's place, as data; `str` gives the line."""

    chunk_id: str
    document: str
    pages: Range | None = None
    heading_path: tuple[str, ...] = ()
    rows: Range | None = None
    items: Range | None = None

    def __str__(self) -> str:
        parts = {
            "Doc": _one_line(self.document),
            "Page": _range(self.pages),
            "Section": " > ".join(filter(None, map(_one_line, self.heading_path))),
            "Rows": _range(self.rows),
            "Items": _range(self.items),
        }
        return " | ".join(f"{name}: {value}" for name, value in parts.items() if value)


def ranges_of(metadata: Mapping[str, Any]) -> dict[str, Range]:
    """`rows` and `items` of a chunk's own metadata, as chunkers write them: first and last, counted from 1."""
    found = {}
    for name in ("rows", "items"):
        match metadata.get(name):
            case [int() as first, int() as last]:
                found[name] = (first, last)
    return found


def _range(found: Range | None) -> str:
    if found is None:
        return ""
    first, last = found
    return str(first) if first == last else f"{first}-{last}"


def _one_line(words: str) -> str:
    """Without letters that nobody sees, and with a bar that is part of a name escaped."""
    visible = (
        letter
        for letter in words
        if letter.isspace()
        or not (unicodedata.category(letter) == "Cc" or unicodedata.bidirectional(letter) in DIRECTIONS)
    )
    return " ".join("".join(visible).split()).replace("|", r"\|")


Role = Literal["primary", "parent", "sibling", "neighbour"]
Ranking = tuple[tuple[str, float], ...]  # ids with their scores, best first, as in core.types


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
