"""Chunks that never run over a page break."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from core.chunking.base import Chunker, Passage, Reading, chunkers
from core.chunking.packing import packed


@chunkers.register("pages")
class PageChunker(Chunker):
    """One chunk a page, as form feeds part them; a page too long for one is packed by sentences."""

    max_tokens: int = Field(default=200, ge=1, description="Most tokens a chunk may hold.")

    def passages(self, reading: Reading) -> Iterator[Passage]:
        for page_start, page_end in reading.page_spans():
            for start, end in packed(reading, page_start, page_end, self.max_tokens):
                yield Passage(start, end)
