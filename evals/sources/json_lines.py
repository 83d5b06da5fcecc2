"""JSON Lines and JSON over several lines, as one row of fields for each object.

Owns the limits of what a line may become in memory; `evals.sources.rows` owns what the fields mean.
"""

from __future__ import annotations

import io
import json
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, cast

from core.types import Flaw, Place, Row
from evals.sources.rows import MAX_LINE, SAMPLE, UTF8_MARK, UTF16_MARKS, decode_line, read_lines, shown, start_of

MOST_PARTS = 2**20  # values in one line of JSON
LINES_TRIED = 20
_JSON_TEXT = re.compile(r'"(?:[^"\\]|\\.)*+"')
_BLOCK = 2**18
_BLANKS = b" \t\r\n"
_IN_STRING = re.compile(rb'"|\\.?', re.DOTALL)
_OUTSIDE = re.compile(rb'["{}]')
_SEPARATORS = re.compile(rb"[,\[\]]")


def is_lines(path: Path) -> bool:
    """Whether a plain file of JSON holds one value on each line, so that its lines can be counted."""
    try:
        with path.open("rb") as stream:
            return _in_lines(start_of(stream, SAMPLE))
    except (OSError, ValueError):
        return True  # the error is raised when the rows are read


def read_json_lines(
    stream: BinaryIO, file: str, count: Callable[[int], object] = lambda _: None
) -> Iterator[Row[dict[str, Any]] | Flaw]:
    """One JSON object for each line, or the objects of an array or of pretty-printed JSON.

    `count` is called with the length of each line or object before it is yielded.
    """
    stream = stream if isinstance(stream, io.BufferedReader) else io.BufferedReader(cast("io.RawIOBase", stream))
    if not _in_lines(start := start_of(stream, SAMPLE)):
        if file.lower().removesuffix(".gz").endswith((".jsonl", ".ndjson")):
            what = "one JSON array" if start.lstrip(_BLANKS).startswith(b"[") else "JSON over several lines"
            yield Flaw(Place(file, 1), f"This is {what} and not an object a line. It was read as such.", "noted")
        scanner = _ObjectScanner(file, count)
        while block := stream.read(_BLOCK):
            yield from scanner.feed(block)
        yield from scanner.end()
        return
    for line in read_lines(stream, file):
        if isinstance(line, Row):
            count(len(line.value))
        if isinstance(line, Flaw):
            yield line
        elif text := line.value.strip(" \t\r\n"):
            yield parse_object(Row(text, line.place))


def _in_lines(start: bytes) -> bool:
    """Whether the first lines are values by themselves, and not an array or an object over several lines."""
    if start.startswith(UTF16_MARKS):
        return True  # `read_lines` refuses it
    start = start.removeprefix(UTF8_MARK).lstrip(_BLANKS)
    if not start.startswith((b"[", b"{")):
        return True
    lines = [line for line in start.split(b"\n", LINES_TRIED)[:LINES_TRIED] if line.strip()]
    if start.startswith(b"["):  # an array of objects; any other array on a line is a bad line among others
        first = lines[0].strip()[1:].lstrip()
        return bool(first) and not first.startswith((b"{", b"]"))
    return len(lines) < 2 or any(_is_object(line) for line in lines)


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


@dataclass
class _ObjectScanner:
    """Cuts bytes into outermost objects by brackets outside strings, for JSON's own parser to read one by one."""

    file: str
    count: Callable[[int], object]
    line: int = 1
    object_line: int = 1  # the line on which the open object begins
    depth: int = 0
    in_string: bool = False
    escaped: bool = False  # the last block ended with a backslash
    too_long: bool = False
    pieces: list[bytes] = field(default_factory=list)
    size: int = 0
    start: int = 0  # position in the block of the first byte that was not handled yet
    arrays: int = 0  # open arrays around the objects

    def feed(self, block: bytes) -> Iterator[Row[dict[str, Any]] | Flaw]:
        self.start, at, self.escaped = 0, int(self.escaped), False
        while hit := (_IN_STRING if self.in_string else _OUTSIDE).search(block, at):
            sign, at = hit[0], hit.end()
            if self.in_string:
                self.in_string = sign != b'"'
                self.escaped = sign == b"\\"  # alone at the block's end; elsewhere the match has two bytes
            elif sign == b'"':
                self.in_string = True
            elif sign == b"{":
                if self.depth == 0:
                    yield from self._stray(block[self.start : hit.start()])
                    self.start, self.object_line = hit.start(), self.line
                self.depth += 1
            elif self.depth:
                self.depth -= 1
                if self.depth == 0:
                    self._keep(block[self.start : at])
                    self.start = at
                    yield self._object()
        if self.depth:
            self._keep(block[self.start :])
        else:
            yield from self._stray(block[self.start :])

    def end(self) -> Iterator[Row[dict[str, Any]] | Flaw]:
        if self.depth:
            yield Flaw(
                Place(self.file, self.object_line), "The object that begins here is not closed before the file ends."
            )
        elif self.in_string:
            yield Flaw(Place(self.file, self.line), "A quote is opened and not closed before the file ends.")
        elif self.arrays > 0:
            message = "The array is not closed before the file ends: it may have been cut off, and objects be missing."
            yield Flaw(Place(self.file, self.line), message)

    def _keep(self, piece: bytes) -> None:
        self.line += piece.count(b"\n")
        self.size += len(piece)
        self.too_long = self.too_long or self.size > MAX_LINE
        if self.too_long:
            self.pieces.clear()
        else:
            self.pieces.append(piece)

    def _object(self) -> Row[dict[str, Any]] | Flaw:
        place, raw, too_long = Place(self.file, self.object_line), b"".join(self.pieces), self.too_long
        self.count(self.size)
        self.pieces, self.size, self.too_long = [], 0, False
        if too_long:
            return Flaw(place, f"The object is longer than {MAX_LINE:,} bytes. It was left out.")
        text = decode_line(raw, place)
        return text if isinstance(text, Flaw) else parse_object(text)

    def _stray(self, between: bytes) -> Iterator[Flaw]:
        """Between objects: commas, blanks and brackets of arrays are passed over, other values become flaws."""
        self.arrays += between.count(b"[") - between.count(b"]")
        for part in _SEPARATORS.split(between):
            if value := part.strip(_BLANKS).removeprefix(UTF8_MARK):
                line = self.line + part[: part.find(value)].count(b"\n")
                start = shown(value[:60].decode("utf-8", "replace"))
                yield Flaw(Place(self.file, line), f"A JSON object was expected, and this is {start}.")
            self.line += part.count(b"\n")


def parse_object(line: Row[str]) -> Row[dict[str, Any]] | Flaw:
    if (parts := _parts(line.value)) > MOST_PARTS:
        return Flaw(line.place, f"The line holds {parts:,} values, and {MOST_PARTS:,} are allowed. It was left out.")
    try:
        value = json.loads(line.value, parse_constant=_refuse, parse_float=_finite)
    except json.JSONDecodeError as error:
        at = Place(line.place.file, (line.place.line or 1) + error.lineno - 1)
        return Flaw(at, f"Not valid JSON: {error.msg} at column {error.colno}.")
    except RecursionError:
        return Flaw(line.place, "Not usable JSON: it is nested too deeply.")
    except ValueError as error:  # numbers of thousands of digits, NaN
        return Flaw(line.place, f"Not usable JSON: {str(error).split(';')[0].rstrip('.')}.")
    if not isinstance(value, dict):
        return Flaw(line.place, f"A JSON object was expected, and this is {shown(value)}.")
    return Row(value, line.place)


def _parts(text: str) -> int:
    """About how many values a JSON text holds. In memory each takes many times the two letters it may take here."""
    parts = sum(map(text.count, ",[{"))
    return sum(map(_JSON_TEXT.sub("", text).count, ",[{")) if parts > MOST_PARTS else parts


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not a JSON number, and PostgreSQL's jsonb does not take it")


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(f"{shown(digits, 20)} is too large a number")
    return number
