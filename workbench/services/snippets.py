"""Marked words and snippets as the Search page, the demo and the judge's desk hand them to their scripts.

Which words match and where a passage is cut is decided in `core.snippets`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from core.snippets import WORD, marked, matched_words, pieces

__all__ = ["WIDTH", "WORD", "marked", "matched_words", "plain", "snippet"]

Segments = list[tuple[str, bool]]  # text, and whether it matched

WIDTH = 240


def plain(segments: Segments) -> list[list[Any]]:
    """As a component is given them."""
    return [list(segment) for segment in segments]


def snippet(text: str, keywords: Sequence[str], width: int = WIDTH) -> Segments:
    """The stretch of about `width` characters in which most of the keywords stand, on one line."""
    return pieces(" ".join(text.split()), keywords, width, ellipsis="…")
