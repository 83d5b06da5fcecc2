"""One text with all that is found in it once: tokens, blocks, page breaks. Every chunker asks this, none scans again.

Each part is found when first asked for, because the whole-text chunker needs no tokens and most texts have no pages.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any
from unicodedata import combining

from core.chunking.blocks import Block, find_blocks

Tokenizer = Callable[[str], Sequence[tuple[int, int]]]
"""Gives the character offsets of every token of a text, in order."""

_SPACE = re.compile(r"\s")
_SPACES = re.compile(r"\s*+")
_JOINER = "\u200d"
_ATTACHED = frozenset("\u200d\ufe0e\ufe0f")


class Reading:
    """A text as chunkers see it. Positions are code points; tokens are numbered from 0."""

    def __init__(self, text: str, tokenize: Tokenizer) -> None:
        self.text = text
        self._tokenize = tokenize

    @cached_property
    def _offsets(self) -> list[tuple[int, int]]:
        # Special tokens are empty, and are not part of the text.
        return sorted((start, end) for start, end in self._tokenize(self.text) if end > start)

    @cached_property
    def _starts(self) -> list[int]:
        return [start for start, _ in self._offsets]

    @cached_property
    def _ends(self) -> list[int]:
        # The running maximum keeps bisection right when a tokenizer's pieces overlap.
        return list(accumulate((end for _, end in self._offsets), max))

    @cached_property
    def blocks(self) -> list[Block]:
        return find_blocks(self.text)

    @cached_property
    def _block_starts(self) -> list[int]:
        return [block.start for block in self.blocks]

    @cached_property
    def _page_breaks(self) -> list[int]:
        return [match.start() for match in re.finditer("\f", self.text)]

    @cached_property
    def lower_case(self) -> bool:
        """Whether the text has letters but no capital."""
        return self.text.islower()

    def stripped(self, start: int, end: int) -> tuple[int, int]:
        """The span without white space around it; an empty span where there is nothing else."""
        piece = self.text[start:end]
        bare = piece.lstrip()
        start += len(piece) - len(bare)
        return start, start + len(bare.rstrip())

    def after_space(self, start: int, end: int) -> int:
        """The first position from start on that is not white space."""
        space = _SPACES.match(self.text, start, end)
        return space.end() if space else start

    def tokens_in(self, start: int, end: int) -> tuple[int, int]:
        """The tokens that touch a span: the first, and the one behind the last."""
        return bisect_right(self._ends, start), bisect_left(self._starts, end)

    def count(self, start: int, end: int) -> int:
        first, stop = self.tokens_in(start, end)
        return max(0, stop - first)

    def word_cut(self, token: int) -> int | None:
        """Where to cut before this token so that words on both sides stay whole, if that can be."""
        start = self._starts[token]
        if self._ends[token - 1] > start:
            return None
        # One more character, because some tokenizers count the space before a word as part of it.
        space = _SPACE.search(self.text, self._ends[token - 1], start + 1)
        return space.start() if space else None

    def letter_cut(self, token: int) -> int | None:
        """Where to cut before this token without parting a letter from its marks."""
        start = self.token_cut(token)
        if start is None or combining(self.text[start]) or self.text[start] in _ATTACHED:
            return None
        return start if self.text[start - 1] != _JOINER else None

    def token_cut(self, token: int) -> int | None:
        """Where to cut before this token, unless it shares characters with the one before it."""
        start = self._starts[token]
        return start if self._ends[token - 1] <= start else None

    def blocks_in(self, start: int, end: int) -> list[Block]:
        """The blocks that touch a span."""
        first = max(0, bisect_right(self._block_starts, start) - 1)
        stop = bisect_left(self._block_starts, end)
        return [block for block in self.blocks[first:stop] if block.end > start]

    def pages(self, start: int, end: int) -> tuple[int, int] | tuple[None, None]:
        """The pages on which a span begins and ends, if the text has pages at all."""
        if not self._page_breaks:
            return None, None
        return 1 + bisect_left(self._page_breaks, start), 1 + bisect_left(self._page_breaks, end)

    def page_spans(self) -> list[tuple[int, int]]:
        edges = [0, *(position + 1 for position in self._page_breaks), len(self.text)]
        return list(pairwise(edges))

    def ranges(self, start: int, end: int) -> dict[str, Any]:
        """`rows` or `items` of a span that holds nothing but rows of one table or items of one list."""
        first = max(0, bisect_right(self._block_starts, start) - 1)
        last = bisect_left(self._block_starts, end) - 1
        top, bottom = self.blocks[first], self.blocks[last]
        # A table's or list's blocks follow each other, so the two ends tell for all between.
        if not top.group or top.group != bottom.group or not bottom.number:
            return {}
        return {"rows" if top.kind == "row" else "items": [max(1, top.number), bottom.number]}
