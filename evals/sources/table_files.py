"""Rows of CSV, TSV, JSON, JSONL and Parquet as dicts with their places. Owns the formats, not what columns mean."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from difflib import get_close_matches
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO

from core.errors import InputError
from core.types import Flaw, Place, Row
from evals.sources.files import open_file, require_file
from evals.sources.json_lines import is_lines, read_json_lines
from evals.sources.parquet_rows import MOST_COLUMNS, number_of_rows, open_parquet
from evals.sources.rows import MAX_LINE, count_lines, read_lines, start_of

_JSON = (".jsonl", ".ndjson", ".json")
TABLE_SUFFIXES = (".csv", ".tsv", *_JSON, ".parquet", ".csv.gz", ".tsv.gz", *(f"{suffix}.gz" for suffix in _JSON))
DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}
_SAMPLE_ROWS, _SAMPLE = 50, 2**18  # rows and bytes from which a delimiter is guessed
_PEEK = 100  # first rows whose fields are the columns, because a JSON object may leave a field out
TableRow = Row[dict[str, Any]]


@dataclass(frozen=True)
class TableFile:
    """An open table: its columns, and its rows, which can be read once."""

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

    def pick(self, named: str | None, usual: tuple[str, ...], purpose: str) -> str:
        """The column named, else the first of the usual ones that the table has."""
        chosen = named if named is not None else next((name for name in usual if name in self.columns), usual[0])
        return self.require(chosen, purpose)


@contextmanager
def opened_table(path: Path, quote: str = '"', delimiter: str = "") -> Iterator[TableFile]:
    """A table, read by the ending of its name, open for one pass. Without a delimiter, it is guessed from the rows."""
    name = path.name.lower().removesuffix(".gz")
    require_file(path, "a CSV, TSV, JSON, JSONL or Parquet file")
    if name.endswith(".parquet"):
        with open_parquet(path) as (columns, rows):
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
    """About how many rows there are, if that is quick to count; a line break inside quotes counts as a row."""
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
    """Feeds lines to the csv module, counts them and the current record's length, and collects unreadable lines.

    A quote that is never closed would make one record of the rest of the file, so a record's length is limited.
    """

    lines: Iterator[Row[str] | Flaw]
    longest: int = MAX_LINE
    count: int = 0
    length: int = 0
    flaws: list[Flaw] = field(default_factory=list)

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        if self.length > self.longest:
            raise csv.Error(f"the record is longer than {self.longest:,} characters; is a quote missing?")
        line = next(self.lines)
        self.count += 1
        if isinstance(line, Flaw):
            self.flaws.append(line)
            return "\n"  # its record is left out; the line is still counted
        self.length += len(line.value)
        return line.value


def _csv_table(stream: io.BufferedReader, file: str, delimiter: str, quote: str, *, sniffed: bool) -> TableFile:
    # The module's own limit of 128 KiB is process-wide and shorter than many documents; it is only ever raised.
    csv.field_size_limit(max(csv.field_size_limit(), MAX_LINE))
    usual, delimiter = delimiter, sniff(start_of(stream, _SAMPLE), delimiter, quote) if sniffed else delimiter
    feed = _Feed(read_lines(stream, file))
    records = _records(_csv_reader(feed, delimiter, quote), feed, file)
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
    rows: Iterator[TableRow | Flaw] = (_as_dict(record, columns) for record in records)
    if delimiter != usual:
        message = f"The columns are parted by {DELIMITERS[delimiter]}, as the first rows tell."
        rows = chain((Flaw(Place(file, 1), message, "noted"),), rows)
    return TableFile(file, columns, rows)


def _csv_reader(lines: Iterable[str], delimiter: str, quote: str) -> Any:
    if not quote:
        return csv.reader(lines, delimiter=delimiter, quoting=csv.QUOTE_NONE)
    return csv.reader(lines, delimiter=delimiter, quotechar=quote)


def sniff(sample: bytes, usual: str, quote: str = '"') -> str:
    """The delimiter that cuts most of the first rows into as many cells as the header; in a tie, the usual one."""
    text = sample.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace")
    lines = text[: text.rfind("\n") + 1 or len(text)].splitlines(keepends=True)[: 2 * _SAMPLE_ROWS]
    best, shared = usual, 0.0
    for delimiter in dict.fromkeys((usual, *DELIMITERS)):
        share = _share_of_whole_rows(lines, delimiter, quote) if delimiter != quote else 0.0
        if share > shared:
            best, shared = delimiter, share
    return best


def _share_of_whole_rows(lines: list[str], delimiter: str, quote: str) -> float:
    """The share of the first rows that have as many cells as the header; 0 if the header has only one."""
    try:
        rows = [row for row in islice(_csv_reader(lines, delimiter, quote), _SAMPLE_ROWS) if row]
    except csv.Error:
        return 0.0
    if not rows or len(rows[0]) < 2:
        return 0.0
    return sum(len(row) == len(rows[0]) for row in rows) / len(rows)


def _records(reader: Any, feed: _Feed, file: str) -> Iterator[Row[list[str]] | Flaw]:
    """Each record with the physical line on which it starts; blank lines are skipped."""
    while True:
        place, feed.flaws, feed.length = Place(file, feed.count + 1), [], 0
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


def _as_dict(record: Row[list[str]] | Flaw, columns: tuple[str, ...]) -> TableRow | Flaw:
    if isinstance(record, Flaw):
        return record
    if (count := len(record.value)) != len(columns):
        message = f"The row has {count} cells and the header {len(columns)}. Is a quote or comma missing?"
        return Flaw(record.place, message)
    return Row(dict(zip(columns, record.value, strict=True)), record.place)
