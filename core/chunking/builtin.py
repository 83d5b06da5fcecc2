"""The chunkers that are shipped: whole texts, fixed sizes, sentences, pages, headings, parents and children."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, Self

from pydantic import Field, model_validator

from core.chunking.base import Chunker, Passage, chunkers
from core.chunking.blocks import TextBlock
from core.chunking.fill import fill_chunks, windows
from core.chunking.text_scan import ScannedText


@chunkers.register("none")
class WholeTextChunker(Chunker):
    """One chunk that is the whole text, however long it is."""

    def passages(self, scanned: ScannedText) -> Iterator[Passage]:
        yield Passage(0, len(scanned.text))


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

    def passages(self, scanned: ScannedText) -> Iterator[Passage]:
        for start, end in windows(scanned, 0, len(scanned.text), self.max_tokens, self.overlap):
            yield Passage(start, end)


@chunkers.register("sentences")
class SentenceChunker(Chunker):
    """Whole sentences, rows and list items, packed; only a sentence longer than a chunk is cut, at its words."""

    max_tokens: int = Field(default=200, ge=1, description="Most tokens a chunk may hold.")

    def passages(self, scanned: ScannedText) -> Iterator[Passage]:
        for start, end in fill_chunks(scanned, 0, len(scanned.text), self.max_tokens):
            yield Passage(start, end)


@chunkers.register("pages")
class PageChunker(Chunker):
    """One chunk a page, as form feeds part them; a page too long for one is packed by sentences."""

    max_tokens: int = Field(default=200, ge=1, description="Most tokens a chunk may hold.")

    def passages(self, scanned: ScannedText) -> Iterator[Passage]:
        for page_start, page_end in scanned.page_spans():
            for start, end in fill_chunks(scanned, page_start, page_end, self.max_tokens):
                yield Passage(start, end)


@dataclass(frozen=True, slots=True)
class HeadingSection:
    """A heading with the text below it, up to the next heading. `path` is its heading under those above it."""

    start: int
    end: int
    path: tuple[str, ...] = ()


def sections(scanned: ScannedText, max_level: int = 6) -> Iterator[HeadingSection]:
    """The whole text as sections. What stands before the first heading has an empty path.

    A heading with nothing but a deeper heading below it opens that one's section: alone, it would be a chunk that
    matches well and says nothing.
    """
    headings = [block for block in scanned.blocks if block.kind == "heading" and block.level <= max_level]
    begin = 0
    path: list[TextBlock] = []
    for heading, following in zip([None, *headings], [*headings, None], strict=True):
        if heading:
            path = [*(above for above in path if above.level < heading.level), heading]
        end = following.start if following else len(scanned.text)
        if heading and following and following.level > heading.level and not scanned.text[heading.end : end].strip():
            continue
        yield HeadingSection(begin, end, tuple(block.title for block in path if block.title))
        begin = end


@chunkers.register("headings")
class HeadingChunker(Chunker):
    """Sections of a Markdown text, each packed by sentences. A chunk never runs over a heading, and keeps its path."""

    max_tokens: int = Field(default=200, ge=1, description="Most tokens a chunk may hold.")
    max_level: int = Field(
        default=6, ge=1, le=6, description="Deepest heading that begins a section of its own: 2 stops at `##`."
    )

    def passages(self, scanned: ScannedText) -> Iterator[Passage]:
        for section in sections(scanned, self.max_level):
            for start, end in fill_chunks(scanned, section.start, section.end, self.max_tokens):
                yield Passage(start, end, section.path)


@chunkers.register("parent_child")
class ParentChildChunker(Chunker):
    """Parents that a reader is shown, each followed by the children that a search matches."""

    parents: Literal["sections", "pages", "tokens"] = Field(
        default="sections",
        description="What a parent is: a Markdown section, a page, or as many sentences as parent_tokens allow.",
    )
    parent_tokens: int = Field(
        default=800, ge=2, description="Most tokens a parent may hold; longer sections and pages make several parents."
    )
    child_tokens: int = Field(default=100, ge=1, description="Most tokens a child may hold; under parent_tokens.")

    @model_validator(mode="after")
    def _children_are_smaller(self) -> Self:
        if self.child_tokens >= self.parent_tokens:
            raise ValueError(
                f"children of {self.child_tokens} tokens are no smaller than parents of {self.parent_tokens}: "
                "lower child_tokens or raise parent_tokens"
            )
        return self

    def passages(self, scanned: ScannedText) -> Iterator[Passage]:
        for part in self._parts(scanned):
            for start, end in fill_chunks(scanned, part.start, part.end, self.parent_tokens):
                yield Passage(start, end, part.path, "parent")
                for child_start, child_end in fill_chunks(scanned, start, end, self.child_tokens):
                    yield Passage(child_start, child_end, part.path, "child")

    def _parts(self, scanned: ScannedText) -> Iterator[HeadingSection]:
        """What parents must stay within."""
        if self.parents == "sections":
            yield from sections(scanned)
        elif self.parents == "pages":
            yield from (HeadingSection(start, end) for start, end in scanned.page_spans())
        else:
            yield HeadingSection(0, len(scanned.text))
