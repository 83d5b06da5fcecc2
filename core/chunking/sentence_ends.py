"""Where sentences end. A rule for any language: no model, no dependency, linear in the text.

When in doubt it does not cut: two sentences in one unit cost a chunker little, a cut inside one reads badly.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

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
        following = _next_position(text, match.end(), end)
        if following < end and _is_end(text, start, match, following, lower_case):
            yield begin, following
            begin = following
    if begin < end:
        yield begin, end


def _next_position(text: str, position: int, end: int) -> int:
    space = _NEXT.match(text, position, end)
    return space.end() if space else position


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
