"""Small chunks to find, inside large ones to read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, Self

from pydantic import Field, model_validator

from core.chunking.base import Chunker, Passage, Reading, chunkers
from core.chunking.headings import Section, sections
from core.chunking.packing import packed


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

    def passages(self, reading: Reading) -> Iterator[Passage]:
        for part in self._parts(reading):
            for start, end in packed(reading, part.start, part.end, self.parent_tokens):
                yield Passage(start, end, part.path, "parent")
                for child_start, child_end in packed(reading, start, end, self.child_tokens):
                    yield Passage(child_start, child_end, part.path, "child")

    def _parts(self, reading: Reading) -> Iterator[Section]:
        """What parents must stay within."""
        if self.parents == "sections":
            yield from sections(reading)
        elif self.parents == "pages":
            yield from (Section(start, end) for start, end in reading.page_spans())
        else:
            yield Section(0, len(reading.text))
