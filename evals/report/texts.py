"""Strangers' texts, made fit to be written anywhere: no control characters, no halves of characters, not too long.

Owns what every format must not meet. Escaping for a format is the format's own.
"""

from __future__ import annotations

import re

DASH = "\N{EN DASH}"
_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]+")
_BREAKS = re.compile("[\n\u2028\u2029]+")
# Halves of characters, what is none, and what would turn the words around it back to front.
_REFUSED = re.compile("[\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff\u202a-\u202e\u2066-\u2069]")


def code(text: str) -> str:
    """In full, line breaks and tabs kept."""
    return _CONTROL.sub(" ", _REFUSED.sub("\N{REPLACEMENT CHARACTER}", text.replace("\r\n", "\n").expandtabs(4)))


def lines(text: str, most: int) -> str:
    """Cut to so many characters, line breaks kept."""
    clean = code(text).strip()
    return clean if len(clean) <= most else f"{clean[: most - 1].rstrip()}…"


def line(text: str, most: int) -> str:
    """The same in one line."""
    return lines(_BREAKS.sub(" ", text), most)


def number(value: float | None, form: str = ".3f") -> str:
    return DASH if value is None else f"{value:{form}}"


def span(low: float | None, high: float | None) -> str:
    """An interval; empty where it is not known."""
    return "" if low is None or high is None else f"{low:.3f} to {high:.3f}"


def counted(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"
