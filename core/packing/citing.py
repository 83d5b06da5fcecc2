"""Where a passage comes from, in one line: `Doc: {id} | Page: {page or first-last} | Section: {heading path}`.

A chunk of table rows or list items says which: `| Rows: 3-7`, `| Items: 2`. A part that the chunk has not got (pages of
a text without page breaks, say) is left out. Ids and headings are somebody's data. In the line, white space becomes a
blank, control characters and those that turn the direction of writing go, and `|` has a backslash before it, so that
none of them can add a part or a line of its own.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

Range = tuple[int, int]

# What turns the order of writing about could show a line other than it is.
DIRECTIONS: Final = frozenset({"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"})


@dataclass(frozen=True, slots=True)
class Citation:
    """A passage's place, as data; `str` gives the line."""

    chunk_id: str
    document: str
    pages: Range | None = None
    heading_path: tuple[str, ...] = ()
    rows: Range | None = None
    items: Range | None = None

    def __str__(self) -> str:
        parts = {
            "Doc": _one_line(self.document),
            "Page": _range(self.pages),
            "Section": " > ".join(filter(None, map(_one_line, self.heading_path))),
            "Rows": _range(self.rows),
            "Items": _range(self.items),
        }
        return " | ".join(f"{name}: {value}" for name, value in parts.items() if value)


def ranges_of(metadata: Mapping[str, Any]) -> dict[str, Range]:
    """`rows` and `items` of a chunk's own metadata, as chunkers write them: first and last, counted from 1."""
    found = {}
    for name in ("rows", "items"):
        match metadata.get(name):
            case [int() as first, int() as last]:
                found[name] = (first, last)
    return found


def _range(found: Range | None) -> str:
    if found is None:
        return ""
    first, last = found
    return str(first) if first == last else f"{first}-{last}"


def _one_line(words: str) -> str:
    shown = "".join(letter for letter in words if letter.isspace() or not _unseen(letter))
    return " ".join(shown.split()).replace("|", r"\|")


def _unseen(letter: str) -> bool:
    return unicodedata.category(letter) == "Cc" or unicodedata.bidirectional(letter) in DIRECTIONS
