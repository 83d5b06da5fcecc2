"""Chunks that follow a Markdown text's headings, and the sections that other chunkers build on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pydantic import Field

from core.chunking.base import Chunker, Passage, Reading, chunkers
from core.chunking.blocks import Block
from core.chunking.packing import packed


@dataclass(frozen=True, slots=True)
class Section:
    """A heading with the text below it, up to the next heading. `path` is its heading under those above it."""

    start: int
    end: int
    path: tuple[str, ...] = ()


def sections(reading: Reading, max_level: int = 6) -> Iterator[Section]:
    """The whole text as sections. What stands before the first heading has an empty path.

    A heading with nothing but a deeper heading below it opens that one's section: alone, it would be a chunk that
    matches well and says nothing.
    """
    headings = [block for block in reading.blocks if block.kind == "heading" and block.level <= max_level]
    begin = 0
    path: list[Block] = []
    for heading, following in zip([None, *headings], [*headings, None], strict=True):
        if heading:
            path = [*(above for above in path if above.level < heading.level), heading]
        end = following.start if following else len(reading.text)
        if heading and following and following.level > heading.level and not reading.text[heading.end : end].strip():
            continue
        yield Section(begin, end, tuple(block.title for block in path if block.title))
        begin = end


@chunkers.register("headings")
class HeadingChunker(Chunker):
    """Sections of a Markdown text, each packed by sentences. A chunk never runs over a heading, and keeps its path."""

    max_tokens: int = Field(default=200, ge=1, description="Most tokens a chunk may hold.")
    max_level: int = Field(
        default=6, ge=1, le=6, description="Deepest heading that begins a section of its own: 2 stops at `##`."
    )

    def passages(self, reading: Reading) -> Iterator[Passage]:
        for section in sections(reading, self.max_level):
            for start, end in packed(reading, section.start, section.end, self.max_tokens):
                yield Passage(start, end, section.path)
