"""A text scanned for its tokens, and where its sentences end."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any
from unicodedata import combining

from core.chunking.blocks import TextBlock, find_blocks

# Marks that end a sentence whatever follows: CJK, Devanagari, Arabic, Armenian, Ethiopic, Khmer, Myanmar.
_ALWAYS = "。｡！？।॥؟۔։።។။"  # noqa: RUF001
_MAYBE = ".!?…‽"
_CLOSERS = re.escape("\"'”’»›)]}」』）】〉》*_`")  # noqa: RUF001
_OPENERS = "\"'“‘«‹([{¿¡「『（【〈《*_`"  # noqa: RUF001

_END = re.compile(
    rf"(?:[{_ALWAYS}]|．(?!\d))[{_ALWAYS}．{_MAYBE}]*+[{_CLOSERS}]*+"  # noqa: RUF001
    # Looking behind makes a run of dots one candidate, and keeps a long run from being scanned once for each dot.
    rf"|(?<![{_MAYBE}])(?P<marks>[{_MAYBE}]++)[{_CLOSERS}]*+(?=\s)"
)
_NEXT = re.compile(r"\s*+")
_DOTTED = re.compile(r"(?:[^\W\d_]\.)+[^\W\d_]$")

# Not "etc", "inc" and the like, which often end a sentence, nor "ms", "min", "gen", which are words of other meanings.
_ALWAYS_ABBREVIATED = frozenset(
    "mr mrs dr prof rev hon st mme mlle mgr capt sgt lt maj gov vs cf viz eg ie ca approx resp incl excl esp "  # noqa: SIM905
    "bzw vgl bspw evtl ggf sog p.ej aprox".split()
)
_ABBREVIATED_BEFORE_NUMBER = frozenset(
    "no nr nos num fig figs eq eqs sec sect ch chap vol vols art par para pp pg ed ver tab abb bd kap "  # noqa: SIM905
    "jan feb mar apr jun jul aug sep sept oct nov dec".split()
)
_DOTTED_BUT_FINAL = frozenset({"a.m", "p.m"})
_LONGEST_WORD = 24


def sentences(text: str, start: int, end: int, *, lower_case: bool = False) -> Iterator[tuple[int, int]]:
    """Adjoining spans that cover start to end, each holding whole sentences.

    `lower_case`: the text has no capitals at all (several test collections do not), so that a small letter after a
    full stop says nothing.
    """
    begin = start
    for match in _END.finditer(text, start, end):
        space = _NEXT.match(text, match.end(), end)
        following = space.end() if space else match.end()
        if following < end and _is_end(text, start, match, following, lower_case):
            yield begin, following
            begin = following
    if begin < end:
        yield begin, end


def _is_end(text: str, start: int, match: re.Match[str], following: int, lower_case: bool) -> bool:
    if match["marks"] is None:
        return True
    opening = text[following : following + 4].lstrip(_OPENERS) or text[following]
    if opening[0] in ".,;:!?…" or (opening[0].islower() and not lower_case):
        return False
    return match["marks"] != "." or not _is_abbreviated(text, start, match.start(), opening[0])


def _is_abbreviated(text: str, start: int, stop: int, following: str) -> bool:
    """Whether the full stop at `stop` belongs to its word: a title, an initial, an acronym, a list's number."""
    before = text[max(start, stop - _LONGEST_WORD) : stop]
    if not before or before[-1].isspace():
        return False
    word = before.split()[-1]
    if word.replace(".", "").isdigit():
        return not before[: -len(word)].strip()  # "1." opens a list item; a wrapped line may well open with "1999."
    word = word.lstrip(_OPENERS).lower()
    if word in _ABBREVIATED_BEFORE_NUMBER and following.isdigit():
        return True
    is_initial = len(word) == 1 and word.upper() != word
    is_acronym = bool(_DOTTED.match(word)) and word not in _DOTTED_BUT_FINAL
    return is_initial or is_acronym or word in _ALWAYS_ABBREVIATED


Tokenizer = Callable[[str], Sequence[tuple[int, int]]]
"""Gives the character offsets of every token of a text, in order."""

_SPACE = re.compile(r"\s")
_SPACES = re.compile(r"\s*+")
_JOINER = "\u200d"
_ATTACHED = frozenset("\u200d\ufe0e\ufe0f")


class ScannedText:
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
    def blocks(self) -> list[TextBlock]:
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

    def blocks_in(self, start: int, end: int) -> list[TextBlock]:
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
