"""Judgement files: BEIR's three columns, TREC's four, and the two of an exclusion list. The header is optional."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from core.types import Flaw, Row
from evals.labels import Exclusion, Label
from evals.sources.lines import read_lines, shown
from evals.sources.records import QUERY_IDS, exclusion_row, label_row

EXCLUSION_FILES = frozenset({"exclude", "exclusions", "source-docs"})
_HEADERS = frozenset({*QUERY_IDS, "query", "topic"})


def read_qrels(stream: BinaryIO, file: str, split: str) -> Iterator[Row[Label] | Flaw]:
    """`query item grade` or `query iteration item grade`."""
    for row in _cells(stream, file):
        if isinstance(row, Flaw):
            yield row
        elif len(row.value) in (3, 4):
            query, *_, item, grade = row.value
            yield label_row(query, item, grade, split, row.place)
        else:
            yield Flaw(row.place, f"3 columns (query, document, grade) or TREC's 4 were expected: {shown(row.value)}.")


def read_exclusions(stream: BinaryIO, file: str) -> Iterator[Row[Exclusion] | Flaw]:
    """`query item`; columns after that are not read."""
    for row in _cells(stream, file):
        if isinstance(row, Flaw):
            yield row
        elif len(row.value) >= 2:
            yield exclusion_row(row.value[0], row.value[1], row.place)
        else:
            yield Flaw(row.place, f"2 columns (query, document) were expected: {shown(row.value)}.")


def _cells(stream: BinaryIO, file: str) -> Iterator[Row[list[str]] | Flaw]:
    """Tabs where the line has any, so that an id may hold a blank; else blanks."""
    first = True
    for line in read_lines(stream, file):
        if isinstance(line, Flaw):
            yield line
        elif line.value.strip():
            cells = line.value.strip("\r\n").split("\t") if "\t" in line.value.strip() else line.value.split()
            cells = [cell.strip() for cell in cells]
            if not (first and cells[0].lower() in _HEADERS):
                yield Row(cells, line.place)
            first = False
