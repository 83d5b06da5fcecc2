"""The stretch of a text that shows best why it was found, with the query's words marked.

Pure, and linear in the text. The words are given: what the language drops is decided in core.legs.query_terms. All
offsets are code points of the text as it is; only single words are folded for comparing, so nothing shifts.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from core.types import Hit

SHORTEST_STEM: Final = 4  # letters that two forms of one word must share
LONGEST_ENDING: Final = 3  # letters that may follow the stem in one form; in the other at most one
SPELLED_ALIKE: Final = 0.45  # share of common trigrams: reset/resets 0.63, battery/batteries 0.50, battery/baterry 0.45
CLOSING: Final = frozenset(".,;:!?)]}%\"'\u00bb\u2019\u201d\u2026\u3001\u3002")
WORD: Final = re.compile(r"\d+(?:[.,]\d+)+|\w+")  # 4.3 is one word: a query's 3 is not in it
_JOINER = "\u200d"
_UNSPACED = re.compile(  # scripts that put no spaces between words: there, every letter may be cut behind
    r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)

Span = tuple[int, int]


class Snippets(BaseModel):
    """How snippets are cut."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_chars: int = Field(360, ge=1, le=100_000, description="The most characters a snippet may have.")
    prefer_chunk_snippet: bool = Field(
        True, description="Cut it from the chunk that was found, where there is one, and not from the whole document."
    )


@dataclass(frozen=True, slots=True)
class Snippet:
    """`text` is the source's text from `at` on, unchanged; `highlights` are offsets into the snippet, end exclusive."""

    text: str
    at: int = 0
    highlights: tuple[Span, ...] = ()
    source: Literal["chunk", "doc", "unknown"] = "unknown"


@dataclass(frozen=True, slots=True)
class _Match:
    start: int
    end: int
    keyword: int


def snippet_of(hit: Hit, words: Sequence[str], options: Snippets | None = None, document: str | None = None) -> Snippet:
    """A hit's snippet: from its chunk, or from the document, whose text the hit of a chunk does not carry.

    Where the preferred one is missing or blank, the other is used. Without any text the source is unknown.
    """
    options = options or Snippets()
    of_chunk = hit.id != hit.item_id
    chunk, whole = (hit.text, document) if of_chunk else (None, hit.text or document)
    in_order: list[tuple[Literal["chunk", "doc"], str | None]] = [("chunk", chunk), ("doc", whole)]
    for source, text in in_order if options.prefer_chunk_snippet else reversed(in_order):
        if text and text.strip():
            made = snippet(text, words, options.max_chars)
            return Snippet(made.text, made.at, made.highlights, source)
    return Snippet("")


def snippet(text: str, words: Sequence[str], max_chars: int = 360) -> Snippet:
    """At most `max_chars` around the most of the words: different ones first, then many, then early.

    A word of the text matches when it equals a keyword, accents and case aside, or is another form of it: they share
    their first four letters or more, and what is left has at most three letters in one and at most one in the other
    (city and cities do not, study and studies do); or when both are spelled much alike, as pg_trgm compares words.
    Words with digits match only as they are.
    """
    matches = list(_matches(text, words))
    start, end = _window(text, _densest(matches, max_chars), max_chars)
    inside = (each for each in matches if each.start < end and each.end > start)
    marks = tuple((max(each.start, start) - start, min(each.end, end) - start) for each in inside)
    return Snippet(text[start:end], start, marks)


def pieces(text: str, words: Sequence[str], max_chars: int = 240, *, ellipsis: str = "") -> list[tuple[str, bool]]:
    """The snippet in pieces, each with whether it matched; `ellipsis` stands where text was left out."""
    cut = snippet(text, words, max_chars)
    found, at = [], 0
    for start, end in cut.highlights:
        found += [(cut.text[at:start], False), (cut.text[start:end], True)]
        at = end
    before = f"{ellipsis} " if ellipsis and text[: cut.at].strip() else ""
    after = f" {ellipsis}" if ellipsis and text[cut.at + len(cut.text) :].strip() else ""
    return [each for each in ((before, False), *found, (cut.text[at:], False), (after, False)) if each[0]]


def marked(text: str, words: Sequence[str]) -> list[tuple[str, bool]]:
    """The whole text in such pieces."""
    found, at = [], 0
    for match in _matches(text, words):
        found += [(text[at : match.start], False), (text[match.start : match.end], True)]
        at = match.end
    return [each for each in (*found, (text[at:], False)) if each[0]]


def matched_words(text: str, words: Sequence[str]) -> list[str]:
    """Those of the words that the text has, as they are or in another form."""
    there = {folded(text[start:end]) for start, end in _words_in(text)}
    lookups = {word: _lookups([word]) for word in words}
    return [word for word in words if any(_keyword(each, *lookups[word]) is not None for each in there)]


def spelled_alike(word: str, keyword: str) -> bool:
    """Whether two folded words share most of their trigrams. Numbers, codes and short words do not count."""
    if min(len(word), len(keyword)) < SHORTEST_STEM or not (word.isalpha() and keyword.isalpha()):
        return False
    one, other = _trigrams(word), _trigrams(keyword)
    common = len(one & other)
    return common / (len(one) + len(other) - common) >= SPELLED_ALIKE


@lru_cache(maxsize=4096)
def _trigrams(word: str) -> frozenset[str]:
    padded = f"  {word} "
    return frozenset(padded[at : at + 3] for at in range(len(padded) - 2))


def folded(word: str) -> str:
    """The form in which words are compared: no case, no accents, no compatibility forms."""
    if word.isascii():
        return word.lower()
    apart = unicodedata.normalize("NFKD", word)
    # Accents have a high combining class; vowel signs and viramas, which make other words, have not.
    return "".join(letter for letter in apart if unicodedata.combining(letter) < 200).casefold()


def _matches(text: str, words: Sequence[str]) -> Iterator[_Match]:
    exact, stems = _lookups(words)
    known: dict[str, int | None] = {}
    for start, end in _words_in(text) if exact else ():
        word = text[start:end]
        if word not in known:
            known[word] = _keyword(folded(word), exact, stems)
        if (keyword_number := known[word]) is not None:
            yield _Match(start, end, keyword_number)


def _lookups(words: Sequence[str]) -> tuple[dict[str, int], dict[str, tuple[int, int]]]:
    """Each keyword by itself; and by each stem it may have, the shortest ending that any keyword has after it."""
    exact: dict[str, int] = {}
    stems: dict[str, tuple[int, int]] = {}
    for word in words:
        for start, end in _words_in(word):
            exact.setdefault(folded(word[start:end]), len(exact))
    for number, keyword in enumerate(exact):
        for stem, ending in _stems(keyword):
            stems[stem] = min(stems.get(stem, (ending, number)), (ending, number))
    return exact, stems


def _stems(word: str) -> Iterator[tuple[str, int]]:
    if not any(map(str.isdigit, word)):
        for ending in range(min(LONGEST_ENDING, len(word) - SHORTEST_STEM) + 1):
            yield word[: len(word) - ending], ending


def _keyword(word: str, exact: Mapping[str, int], stems: Mapping[str, tuple[int, int]]) -> int | None:
    if word in exact:
        return exact[word]
    for stem, ending in _stems(word):
        if stem in stems and min(ending, stems[stem][0]) <= 1:
            return stems[stem][1]
    return next((number for keyword, number in exact.items() if spelled_alike(word, keyword)), None)


def _words_in(text: str) -> Iterator[Span]:
    r"""Words with their combining marks, which `\w` leaves out and which would part a word in two."""
    start = stop = -1
    for run in WORD.finditer(text):
        if run.start() != stop:
            if stop >= 0:
                yield start, stop
            start = run.start()
        stop = run.end()
        while stop < len(text) and _attaches(text[stop]):
            stop += 1
    if stop >= 0:
        yield start, stop


def _attaches(letter: str) -> bool:
    return not letter.isascii() and (unicodedata.category(letter)[0] == "M" or letter == _JOINER)


def _densest(matches: Sequence[_Match], room: int) -> Span | None:
    """The span of the matches that are worth most of those that fit into the room, by two ends that only move on."""
    held: Counter[int] = Counter()
    best, merit, first, different = None, (0, 0), 0, 0
    for last, match in enumerate(matches):
        held[match.keyword] += 1
        different += held[match.keyword] == 1
        while first < last and match.end - matches[first].start > room:
            held[matches[first].keyword] -= 1
            different -= held[matches[first].keyword] == 0
            first += 1
        if (found := (different, last - first + 1)) > merit:
            best, merit = (matches[first].start, match.end), found
    return best


def _window(text: str, focus: Span | None, room: int) -> Span:
    """At most `room` characters with the focus in the middle, and without white space at the ends."""
    first, last = focus or (0, 0)
    if last - first > room:
        return first, _forced_cut(text, first, first + room)
    start = max(0, min(first - (room - last + first) // 2, len(text) - room))
    end = min(len(text), start + room)
    # Not before a mark that closes the word before it.
    opens = (at for at in range(start, first) if _parts(text, at) and not (at and text[at] in CLOSING))
    start = next(opens, first)
    end = next((at for at in range(end, last, -1) if _parts(text, at)), last)
    if not text[start:end].strip():  # nothing to be shown, and no place to cut before it would be too much
        start = len(text) - len(text.lstrip())
        end = min(len(text), start + room)
        end = next((at for at in range(end, start, -1) if _parts(text, at)), 0) or _forced_cut(text, start, end)
    piece = text[start:end]
    start += len(piece) - len(piece.lstrip())
    return start, start + len(piece.strip())


def _forced_cut(text: str, start: int, end: int) -> int:
    """Through a word, but not between a letter and its marks, if that can be helped."""
    return next((at for at in range(end, start, -1) if not _holds_together(text, at)), end)


def _parts(text: str, at: int) -> bool:
    """Whether one may cut here without parting a word."""
    if at in {0, len(text)}:
        return True
    if _holds_together(text, at):
        return False
    before, behind = text[at - 1], text[at]
    return not (_of_word(before) and _of_word(behind)) or bool(_UNSPACED.match(before) or _UNSPACED.match(behind))


def _holds_together(text: str, at: int) -> bool:
    return at < len(text) and (_attaches(text[at]) or text[at - 1] == _JOINER)


def _of_word(letter: str) -> bool:
    return letter.isalnum() or letter == "_" or _attaches(letter)
