"""Chunks of so many tokens, whatever the text says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Self

from pydantic import Field, model_validator

from core.chunking.base import Chunker, Passage, Reading, chunkers
from core.chunking.packing import windows


@chunkers.register("fixed")
class FixedChunker(Chunker):
    """Windows of equal length that overlap. Knows nothing of sentences, but keeps words whole."""

    max_tokens: int = Field(default=200, ge=1, description="Most tokens a chunk may hold.")
    overlap: int = Field(
        default=40, ge=0, description="Tokens that a chunk repeats from the end of the one before; under max_tokens."
    )

    @model_validator(mode="after")
    def _overlap_leaves_room(self) -> Self:
        if self.overlap >= self.max_tokens:
            raise ValueError(
                f"an overlap of {self.overlap} tokens leaves no room in chunks of {self.max_tokens}: "
                f"take at most {self.max_tokens - 1}, better a fifth of max_tokens"
            )
        return self

    def passages(self, reading: Reading) -> Iterator[Passage]:
        for start, end in windows(reading, 0, len(reading.text), self.max_tokens, self.overlap):
            yield Passage(start, end)
