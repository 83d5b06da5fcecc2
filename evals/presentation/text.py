"""Texts cut to length and made safe to show, numbers in words, and the forms of output as plain text.

Escaping is the task of each format's renderer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from evals.display import Table, as_text, printable
from evals.presentation.types import Chart, Code, SearchResults, Text

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


def counted(count: int, one: str, many: str) -> str:
    return f"{count:,} {one if count == 1 else many}"


def tables_of(block: Table | SearchResults) -> Iterator[Table]:
    """The block as tables, the results of each variant as one."""
    if isinstance(block, Table):
        yield block
        return
    graded = block.query_id is not None
    for column in block.columns:
        rows = [
            (
                hit.rank,
                f"{hit.score:.3f}",
                hit.item_id,
                "".join(text for text, _ in hit.snippet),
                *(["unjudged" if hit.grade is None else hit.grade] if graded else []),
            )
            for hit in column.hits
        ]
        yield Table.of(
            f"{column.name}: {block.query} ({column.milliseconds:.0f} ms)",
            ("", "score", "document", "text", *(["grade"] if graded else [])),
            rows,
            ("", "score"),
            (*(() if rows else ("Nothing was found.",)), *column.notes),
        )


def text_of(block: Text | Table | Chart | SearchResults | Code) -> str:
    """For media that show text alone."""
    match block:
        case Text():
            return printable(block.text)
        case Chart():
            return printable(block.description)
        case Code():
            return f"{printable(block.title)}\n{block.text}"
        case _:
            return as_text(tuple(tables_of(block)))
