"""The contract of chunkers, their registry, and the splitting of a text into words."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, ConfigDict

from core.chunking.text_scan import ScannedText, Tokenizer
from core.registry import Registry, Tagged
from core.types import Chunk, Item

__all__ = ["Chunker", "Passage", "ScannedText", "Tokenizer", "chunkers"]


@dataclass(frozen=True, slots=True)
class Passage:
    """A span that becomes a chunk, unless it is blank. A child belongs to the last parent before it."""

    start: int
    end: int
    heading_path: tuple[str, ...] = ()
    level: Literal["passage", "parent", "child"] = "passage"


class Chunker(BaseModel, ABC):
    """Cuts an item's text into chunks: exact offsets, nothing visible lost, no blank chunk."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @abstractmethod
    def passages(self, scanned: ScannedText) -> Iterator[Passage]:
        """Spans in text order that together hold every visible character."""

    def chunk(self, item: Item, tokenize: Tokenizer) -> list[Chunk]:
        """The item's chunks. Tokenizes the whole text at most once."""
        scanned = ScannedText(item.text, tokenize)
        chunks: list[Chunk] = []
        parent: int | None = None
        for passage in self.passages(scanned):
            start, end = scanned.stripped(passage.start, passage.end)
            if start == end:
                continue
            ordinal = len(chunks)
            parent = ordinal if passage.level == "parent" else parent
            chunks.append(_chunk(scanned, passage, (start, end), ordinal, parent))
        return chunks


def _chunk(scanned: ScannedText, passage: Passage, span: tuple[int, int], ordinal: int, parent: int | None) -> Chunk:
    start, end = span
    page_first, page_last = scanned.pages(start, end)
    return Chunk(
        ordinal=ordinal,
        start=start,
        end=end,
        text=scanned.text[start:end],
        heading_path=passage.heading_path,
        page_first=page_first,
        page_last=page_last,
        level=passage.level,
        parent=parent if passage.level == "child" else None,
        metadata=scanned.ranges(start, end),
    )


chunkers: Registry[type[Chunker]] = Registry("chunker")

CHUNKERS = Tagged(chunkers, "kind")
chunker_from, spec_of = CHUNKERS.read, CHUNKERS.write

_WORD_OR_MARK = re.compile(r"\w+|[^\w\s]")


def word_tokens(text: str) -> list[tuple[int, int]]:
    """Offsets of every run of word characters and of every other visible character."""
    return [match.span() for match in _WORD_OR_MARK.finditer(text)]
