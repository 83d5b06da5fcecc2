"""Fills chunks up to a number of tokens: with whole sentences, rows, items and fences where they fit.

What is too long is parted at its lines, and a line too long at its words. Owns no registered chunker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from core.chunking.blocks import lines
from core.chunking.text_scan import ScannedText, sentences

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class _Unit:
    """What should stay whole. A heading should also stay with what follows it."""

    start: int
    end: int
    is_heading: bool = False


def packed(reading: ScannedText, start: int, end: int, max_tokens: int) -> Iterator[Span]:
    """Spans that cover start to end, in order, each as full as whole sentences make it."""
    if reading.count(start, end) <= max_tokens:  # most sections need no look inside
        yield start, end
        return
    held: Span | None = None
    for unit_start, unit_end in _fitting(reading, start, end, max_tokens):
        if held and reading.count(held[0], unit_end) <= max_tokens:
            held = held[0], unit_end
        else:
            if held:
                yield held
            held = unit_start, unit_end
    if held:
        yield held


def windows(reading: ScannedText, start: int, end: int, max_tokens: int, overlap: int = 0) -> Iterator[Span]:
    """Spans of up to `max_tokens` tokens that cover start to end; each repeats about `overlap` tokens of the last.

    Words stay whole where one begins in the second half of a window. Both starts and ends only move forward.
    """
    begin, end = reading.stripped(start, end)
    first, stop = reading.tokens_in(begin, end)
    done, shown = first, begin
    while stop - first > max_tokens:
        closing = _close(reading, max(done, first) + 1, first + max_tokens, stop, near=max_tokens // 2)
        if closing is None:
            break
        done, cut = closing
        # Some tokenizers make tokens of white space; a window that adds nothing else would repeat the last one.
        if not reading.text[shown:cut].isspace():
            yield begin, cut
        shown = cut
        # Repeat no more than leaves room for the next piece that cannot be parted.
        lowest = max(first + 1, done - overlap, _piece_end(reading, done, stop) - max_tokens)
        begin = reading.after_space(_reopen(reading, lowest, done, cut), end)
        first, _ = reading.tokens_in(begin, end)
    yield begin, end


def _close(reading: ScannedText, lowest: int, limit: int, stop: int, *, near: int) -> Span | None:
    """The token before which a window ends, and the position: a word's start, else a letter's, else a token's."""
    choices: tuple[tuple[Callable[[int], int | None], range], ...] = (
        (reading.word_cut, range(limit, max(lowest, limit - near) - 1, -1)),
        (reading.letter_cut, range(limit, lowest - 1, -1)),
        (reading.token_cut, range(limit, lowest - 1, -1)),
        # Several tokens may share one character: then the window cannot but grow.
        (reading.token_cut, range(max(limit + 1, lowest), stop)),
    )
    return _first_cut(choices)


def _piece_end(reading: ScannedText, token: int, stop: int) -> int:
    """The token behind the piece that begins with this one; a piece is several tokens only where they share letters."""
    return next((index for index in range(token + 1, stop) if reading.token_cut(index) is not None), stop)


def _reopen(reading: ScannedText, lowest: int, done: int, cut: int) -> int:
    """Where the next window begins: at the cut, or before it by the overlap."""
    overlap = range(lowest, done)
    opening = _first_cut(((reading.word_cut, overlap), (reading.letter_cut, overlap)))
    return opening[1] if opening else cut


def _first_cut(choices: tuple[tuple[Callable[[int], int | None], range], ...]) -> Span | None:
    for cut, tokens in choices:
        for token in tokens:
            position = cut(token)
            if position is not None:
                return token, position
    return None


def _fitting(reading: ScannedText, start: int, end: int, max_tokens: int) -> Iterator[Span]:
    """Units of at most `max_tokens`, each without white space around it, so that counting is exact."""
    for unit in _with_headings(reading, _parted(reading, start, end, max_tokens), max_tokens):
        if reading.count(unit.start, unit.end) > max_tokens:
            for span in windows(reading, unit.start, unit.end, max_tokens):
                yield reading.stripped(*span)
        else:
            yield unit.start, unit.end


def _with_headings(reading: ScannedText, units: Iterator[_Unit], max_tokens: int) -> Iterator[_Unit]:
    """Joins a heading to what follows, so that it never ends a chunk, unless that would cut what fits uncut."""
    held: _Unit | None = None
    for unit in units:
        joined = _Unit(held.start, unit.end) if held else unit
        if unit.is_heading:
            held = joined
            continue
        too_long = reading.count(joined.start, joined.end) > max_tokens
        if held and too_long and reading.count(unit.start, unit.end) <= max_tokens:
            yield held
            yield unit
        else:
            yield joined
        held = None
    if held:
        yield held


def _parted(reading: ScannedText, start: int, end: int, max_tokens: int) -> Iterator[_Unit]:
    """The units of a span; those that are too long as lines instead."""
    for unit in _units(reading, start, end):
        if reading.count(unit.start, unit.end) <= max_tokens:
            yield unit
            continue
        for line in lines(reading.text, unit.start, unit.end):
            begin, stop = reading.stripped(*line)
            if stop > begin:
                yield _Unit(begin, stop, unit.is_heading)


def _units(reading: ScannedText, start: int, end: int) -> Iterator[_Unit]:
    for block in reading.blocks_in(start, end):
        span = max(start, block.start), min(end, block.end)
        is_prose = block.kind in {"prose", "item"}
        parts = sentences(reading.text, *span, lower_case=reading.lower_case) if is_prose else iter([span])
        for part in parts:
            begin, stop = reading.stripped(*part)
            if stop > begin:
                yield _Unit(begin, stop, block.kind == "heading")
