"""Chunks of whole sentences."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from core.chunking.base import Chunker, Passage, Reading, chunkers
from core.chunking.packing import packed


@chunkers.register("sentences")
class SentenceChunker(Chunker):
    """Whole sentences, rows and list items, packed; only a sentence longer than a chunk is cut, at its words."""

    max_tokens: int = Field(default=200, ge=1, description="Most tokens a chunk may hold.")

    def passages(self, reading: Reading) -> Iterator[Passage]:
        for start, end in packed(reading, 0, len(reading.text), self.max_tokens):
            yield Passage(start, end)
