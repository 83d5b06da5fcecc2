"""Rows of CSV, TSV, JSON, JSONL, Parquet as plain dicts with their places. Owns formats, not what columns mean."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from difflib import get_close_matches
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO

from core.errors import InputError
from core.types import Flaw, Place, Row
from evals.sources.files import open_file, require_file
from evals.sources.parquet_rows import MOST_COLUMNS, number_of_rows, opened_parquet
from evals.sources.rows import MAX_LINE, count_lines, is_lines, read_json_lines, read_lines, start_of

_JSON = (".jsonl", ".ndjson", ".json")
TABLE_SUFFIXES = (".csv", ".tsv", *_JSON, ".parquet", ".csv.gz", ".tsv.gz", *(f"{suffix}.gz" for suffix in _JSON))
DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}
_SAMPLE_ROWS, _SAMPLE = 50, 2**18  # rows and bytes from which a delimiter is told
_PEEK = 100  # JSON objects may leave a field out, so the columns are those of the first rows, long ones being fewer
TableRow = Row[dict[str, Any]]


@dataclass(frozen=True)
class TableFile:
    """A table being read: the columns it names, and its rows, to be taken once."""

    file: str
    columns: tuple[str, ...]
    rows: Iterator[TableRow | Flaw]

    def require(self, column: str, purpose: str) -> str:
        if column not in self.columns:
            near = get_close_matches(column, self.columns, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            there = ", ".join(map(repr, self.columns[:30])) or "none"
            message = f"There is no column {column!r} for the {purpose}.{hint} The columns are: {there}."
            raise InputError(message, path=self.file)
        return column

    def pick(self, given: str | None, usual: tuple[str, ...], purpose: str) -> str:
        """The column given, else the first usual one that is there."""
        found = given if given is not None else next((name for name in usual if name in self.columns), usual[0])
        return self.require(found, purpose)


@contextmanager
def opened_table(path: Path, quote: str = '"', delimiter: str = "") -> Iterator[TableFile]:
    """A table by the ending of its name, for the time of one pass. Without a delimiter, the rows tell theirs."""
    name = path.name.lower().removesuffix(".gz")
    require_file(path, "a CSV, TSV, JSON, JSONL or Parquet file")
    if name.endswith(".parquet"):
        with opened_parquet(path) as (columns, rows):
            yield TableFile(str(path), columns, rows)
        return
    if not name.endswith(TABLE_SUFFIXES):
        message = f"The ending is not known. What is understood: {', '.join(TABLE_SUFFIXES)}."
        raise InputError(message, path=path)
    with open_file(path) as stream:
        if name.endswith(_JSON):
            yield _json_table(stream, str(path))
        else:
            usual = "\t" if name.endswith(".tsv") else ","
            yield _csv_table(stream, str(path), delimiter or usual, quote, sniffed=not delimiter)


def count_rows(path: Path) -> int | None:
    """About how many rows there are, where that is quick to tell; a line break inside quotes counts as a row."""
    name = path.name.lower()
    if name.endswith(".parquet"):
        return number_of_rows(path)
    lines = count_lines(path) if name.endswith(TABLE_SUFFIXES) and path.is_file() else None
    if lines is None or name.endswith((".csv", ".tsv")):
        return lines and max(0, lines - 1)
    return lines if name.endswith((".jsonl", ".ndjson")) and is_lines(path) else None


def _json_table(stream: BinaryIO, file: str) -> TableFile:
    length = 0

    def count(characters: int) -> None:
        nonlocal length
        length += characters

    rows = read_json_lines(stream, file, count)
    first: list[TableRow | Flaw] = []
    while len(first) < _PEEK and length <= MAX_LINE and (row := next(rows, None)) is not None:
        first.append(row)
    columns = dict.fromkeys(name for row in first if isinstance(row, Row) for name in row.value)
    wrong = next((row for row in first if isinstance(row, Flaw) and row.outcome == "quarantined"), None)
    if not columns and wrong is not None:
        raise InputError(f"There is no JSON object with fields. {wrong.message}", path=file, line=wrong.place.line)
    return TableFile(file, tuple(columns), chain(first, rows))


@dataclass
class _Feed:
    """Hands lines to the csv module, and remembers how many, how long the record at hand is, and what was unreadable.

    A quote that is never closed makes one record of all the rest: it ends where a line would have to.
    """

    lines: Iterator[Row[str] | Flaw]
    longest: int = MAX_LINE
    taken: int = 0
    length: int = 0
    flaws: list[Flaw] = field(default_factory=list)

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        if self.length > self.longest:
            raise csv.Error(f"the record is longer than {self.longest:,} characters; is a quote missing?")
        line = next(self.lines)
        self.taken += 1
        if isinstance(line, Flaw):
            self.flaws.append(line)
            return "\n"  # its record is left out; the line still counts
        self.length += len(line.value)
        return line.value


def _csv_table(stream: io.BufferedReader, file: str, delimiter: str, quote: str, *, sniffed: bool) -> TableFile:
    # The module's own limit of 128 KiB is process-wide and shorter than many documents; it is only ever raised.
    csv.field_size_limit(max(csv.field_size_limit(), MAX_LINE))
    usual, delimiter = delimiter, sniff(start_of(stream, _SAMPLE), delimiter, quote) if sniffed else delimiter
    feed = _Feed(read_lines(stream, file))
    reader = csv.reader(
        feed, delimiter=delimiter, quotechar=quote or None, quoting=csv.QUOTE_MINIMAL if quote else csv.QUOTE_NONE
    )
    records = _records(reader, feed, file)
    header = next(records, None)
    if not isinstance(header, Row):
        reason = header.message if header else "The file is empty; a header line was expected."
        raise InputError(reason, path=file, line=1)
    columns = tuple(cell.strip() for cell in header.value)
    if len(columns) > MOST_COLUMNS:
        raise InputError(
            f"The header names {len(columns):,} columns, and {MOST_COLUMNS:,} are allowed.", path=file, line=1
        )
    if repeated := sorted(name for name, count in Counter(columns).items() if count > 1):
        raise InputError(f"The header names a column twice: {', '.join(map(repr, repeated[:30]))}.", path=file, line=1)
    rows = _as_dicts(records, columns)
    if delimiter != usual:
        message = f"The columns are parted by {DELIMITERS[delimiter]}, as the first rows tell."
        rows = chain((Flaw(Place(file, 1), message, "noted"),), rows)
    return TableFile(file, columns, rows)


def sniff(sample: bytes, usual: str, quote: str = '"') -> str:
    """What parts the columns: that which cuts header and first rows into as many cells, the usual one before others."""
    text = sample.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace")
    lines = text[: text.rfind("\n") + 1 or len(text)].splitlines(keepends=True)[: 2 * _SAMPLE_ROWS]
    best, shared = usual, 0.0
    for delimiter in dict.fromkeys((usual, *DELIMITERS)):
        share = _share_of_whole_rows(lines, delimiter, quote) if delimiter != quote else 0.0
        if share > shared:
            best, shared = delimiter, share
    return best


def _share_of_whole_rows(lines: list[str], delimiter: str, quote: str) -> float:
    """Of the first rows, how many have as many cells as a header of several has; 0 where it has but one."""
    try:
        read = csv.reader(
            lines,
            delimiter=delimiter,
            quotechar=quote or None,
            quoting=csv.QUOTE_MINIMAL if quote else csv.QUOTE_NONE,
        )
        rows = [row for row in islice(read, _SAMPLE_ROWS) if row]
    except csv.Error:
        return 0.0
    if not rows or len(rows[0]) < 2:
        return 0.0
    return sum(len(row) == len(rows[0]) for row in rows) / len(rows)


def _records(reader: Any, feed: _Feed, file: str) -> Iterator[Row[list[str]] | Flaw]:
    """Each record with the physical line on which it starts; blank lines are passed over."""
    while True:
        place, feed.flaws, feed.length = Place(file, feed.taken + 1), [], 0
        try:
            cells = next(reader, None)
        except csv.Error as error:
            yield Flaw(place, f"Not readable as CSV: {error}.")
            continue
        if feed.flaws:
            yield from feed.flaws
        elif cells is None:
            return
        elif cells:
            yield Row(cells, place)


def _as_dicts(records: Iterator[Row[list[str]] | Flaw], columns: tuple[str, ...]) -> Iterator[TableRow | Flaw]:
    for record in records:
        if isinstance(record, Flaw):
            yield record
        elif len(record.value) != len(columns):
            count = len(record.value)
            yield Flaw(
                record.place, f"The row has {count} cells and the header {len(columns)}. Is a quote or comma missing?"
            )
        else:
            yield Row(dict(zip(columns, record.value, strict=True)), record.place)
