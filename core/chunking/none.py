"""No chunking: for short texts, and for what embeds items whole."""

from __future__ import annotations

from collections.abc import Iterator

from core.chunking.base import Chunker, Passage, Reading, chunkers


@chunkers.register("none")
class WholeTextChunker(Chunker):
    """One chunk that is the whole text, however long it is."""

    def passages(self, reading: Reading) -> Iterator[Passage]:
        yield Passage(0, len(reading.text))
