"""Which words of a passage the query matched, and which part of a long passage to show. Knows no Streamlit.

A word matches when it is the same, or is spelled much alike: inflections and typing errors, the way pg_trgm compares
words. It marks for the reader's eye; it is not what any leg scores by.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

Segments = list[tuple[str, bool]]  # text, and whether it matched

ALIKE = 0.45  # reset/resets 0.63, battery/batteries 0.50, battery/baterry 0.45
SHORTEST_ALIKE = 4
WIDTH = 240
WORD = re.compile(r"\d+(?:[.,]\d+)+|\w+")  # 4.3 is one word: a query's 3 is not in it
LEAD = 60


@lru_cache(maxsize=4096)
def trigrams(word: str) -> frozenset[str]:
    padded = f"  {word} "
    return frozenset(padded[at : at + 3] for at in range(len(padded) - 2))


def matches(word: str, keyword: str) -> bool:
    """Both in lower case. Numbers, codes and short words only match themselves."""
    if word == keyword:
        return True
    if min(len(word), len(keyword)) < SHORTEST_ALIKE or not (word.isalpha() and keyword.isalpha()):
        return False
    common = len(trigrams(word) & trigrams(keyword))
    return common / (len(trigrams(word)) + len(trigrams(keyword)) - common) >= ALIKE


def _found(text: str, keywords: Sequence[str]) -> list[tuple[int, int, str]]:
    """Where words matched, and which keyword each of them matched."""
    by_word: dict[str, str | None] = {}
    found = []
    for match in WORD.finditer(text):
        word = match[0].lower()
        if word not in by_word:
            by_word[word] = next((keyword for keyword in keywords if matches(word, keyword)), None)
        if keyword := by_word[word]:
            found.append((match.start(), match.end(), keyword))
    return found


def marked(text: str, keywords: Sequence[str]) -> Segments:
    """The whole text, cut where matches begin and end."""
    segments: Segments = []
    at = 0
    for start, end, _ in _found(text, keywords):
        segments += [(text[at:start], False), (text[start:end], True)]
        at = end
    segments.append((text[at:], False))
    return [segment for segment in segments if segment[0]]


def plain(segments: Segments) -> list[list[Any]]:
    """As a component is given them."""
    return [list(segment) for segment in segments]


def snippet(text: str, keywords: Sequence[str], width: int = WIDTH) -> Segments:
    """The stretch of about `width` characters in which most of the keywords stand, on one line."""
    text = " ".join(text.split())
    if len(text) <= width:
        return marked(text, keywords)
    start = _best_start(text, keywords, width)
    end = min(len(text), start + width)
    if end < len(text):
        end = text.rfind(" ", start + width // 2, end) if " " in text[start + width // 2 : end] else end
    cut = marked(text[start:end], keywords)
    return [("… ", False)] * (start > 0) + cut + [(" …", False)] * (end < len(text))


def _best_start(text: str, keywords: Sequence[str], width: int) -> int:
    found = _found(text, keywords)
    best, best_count = 0, 0
    for first, _, _ in found:
        start = _word_start(text, max(0, min(first - LEAD, len(text) - width)))
        count = len({keyword for at, end, keyword in found if at >= start and end <= start + width})
        if count > best_count:
            best, best_count = start, count
    return best


def _word_start(text: str, at: int) -> int:
    blank = text.find(" ", at, at + LEAD)
    return at if at == 0 or blank < 0 else blank + 1
