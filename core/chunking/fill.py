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


def fill_chunks(scanned: ScannedText, start: int, end: int, max_tokens: int) -> Iterator[Span]:
    """Spans that cover start to end, in order, each as full as whole sentences make it."""
    if scanned.count(start, end) <= max_tokens:  # most sections need no look inside
        yield start, end
        return
    held: Span | None = None
    for unit_start, unit_end in _fitting(scanned, start, end, max_tokens):
        if held and scanned.count(held[0], unit_end) <= max_tokens:
            held = held[0], unit_end
        else:
            if held:
                yield held
            held = unit_start, unit_end
    if held:
        yield held


def windows(scanned: ScannedText, start: int, end: int, max_tokens: int, overlap: int = 0) -> Iterator[Span]:
    """Spans of up to `max_tokens` tokens that cover start to end; each repeats about `overlap` tokens of the last.

    Words stay whole where one begins in the second half of a window. Both starts and ends only move forward.
    """
    begin, end = scanned.stripped(start, end)
    first, stop = scanned.tokens_in(begin, end)
    done, shown = first, begin
    while stop - first > max_tokens:
        closing = _close(scanned, max(done, first) + 1, first + max_tokens, stop, near=max_tokens // 2)
        if closing is None:
            break
        done, cut = closing
        # Some tokenizers make tokens of white space; a window that adds nothing else would repeat the last one.
        if not scanned.text[shown:cut].isspace():
            yield begin, cut
        shown = cut
        # Repeat no more than leaves room for the next piece that cannot be parted: tokens that share letters.
        piece_end = next((index for index in range(done + 1, stop) if scanned.token_cut(index) is not None), stop)
        lowest = max(first + 1, done - overlap, piece_end - max_tokens)
        begin = scanned.after_space(_reopen(scanned, lowest, done, cut), end)
        first, _ = scanned.tokens_in(begin, end)
    yield begin, end


def _close(scanned: ScannedText, lowest: int, limit: int, stop: int, *, near: int) -> Span | None:
    """The token before which a window ends, and the position: a word's start, else a letter's, else a token's."""
    choices: tuple[tuple[Callable[[int], int | None], range], ...] = (
        (scanned.word_cut, range(limit, max(lowest, limit - near) - 1, -1)),
        (scanned.letter_cut, range(limit, lowest - 1, -1)),
        (scanned.token_cut, range(limit, lowest - 1, -1)),
        # Several tokens may share one character: then the window cannot but grow.
        (scanned.token_cut, range(max(limit + 1, lowest), stop)),
    )
    return _first_cut(choices)


def _reopen(scanned: ScannedText, lowest: int, done: int, cut: int) -> int:
    """Where the next window begins: at the cut, or before it by the overlap."""
    overlap = range(lowest, done)
    opening = _first_cut(((scanned.word_cut, overlap), (scanned.letter_cut, overlap)))
    return opening[1] if opening else cut


def _first_cut(choices: tuple[tuple[Callable[[int], int | None], range], ...]) -> Span | None:
    for cut, tokens in choices:
        for token in tokens:
            position = cut(token)
            if position is not None:
                return token, position
    return None


def _fitting(scanned: ScannedText, start: int, end: int, max_tokens: int) -> Iterator[Span]:
    """Units of at most `max_tokens`, each without white space around it, so that counting is exact."""
    for unit in _with_headings(scanned, _parted(scanned, start, end, max_tokens), max_tokens):
        if scanned.count(unit.start, unit.end) > max_tokens:
            for span in windows(scanned, unit.start, unit.end, max_tokens):
                yield scanned.stripped(*span)
        else:
            yield unit.start, unit.end


def _with_headings(scanned: ScannedText, units: Iterator[_Unit], max_tokens: int) -> Iterator[_Unit]:
    """Joins a heading to what follows, so that it never ends a chunk, unless that would cut what fits uncut."""
    held: _Unit | None = None
    for unit in units:
        joined = _Unit(held.start, unit.end) if held else unit
        if unit.is_heading:
            held = joined
            continue
        too_long = scanned.count(joined.start, joined.end) > max_tokens
        if held and too_long and scanned.count(unit.start, unit.end) <= max_tokens:
            yield held
            yield unit
        else:
            yield joined
        held = None
    if held:
        yield held


def _parted(scanned: ScannedText, start: int, end: int, max_tokens: int) -> Iterator[_Unit]:
    """The sentences, rows, items and fences of a span; those that are too long as lines instead."""
    for block in scanned.blocks_in(start, end):
        span = max(start, block.start), min(end, block.end)
        is_prose = block.kind in {"prose", "item"}
        parts = sentences(scanned.text, *span, lower_case=scanned.lower_case) if is_prose else iter([span])
        for begin, stop in (scanned.stripped(*part) for part in parts):
            pieces = [(begin, stop)]
            if scanned.count(begin, stop) > max_tokens:
                pieces = [scanned.stripped(*line) for line in lines(scanned.text, begin, stop)]
            yield from (_Unit(*piece, block.kind == "heading") for piece in pieces if piece[1] > piece[0])
