"""Lines and JSON objects out of a byte stream, each with its place. Owns decoding and the cap on a line's length.

Memory is bounded by the longest line allowed, whatever the file holds.
"""

from __future__ import annotations

import io
import json
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, cast

from core.errors import InputError
from core.types import Flaw, Place, Row

MAX_LINE = 32 * 2**20
MOST_PARTS = 2**20  # values in one line of JSON
_JSON_TEXT = re.compile(r'"(?:[^"\\]|\\.)*+"')
SAMPLE = 4 * 2**20  # bytes from which a size is judged
LINES_TRIED = 20
_BLOCK = 2**18
_BLANKS = b" \t\r\n"
_IN_STRING = re.compile(rb'"|\\.?', re.DOTALL)
_OUTSIDE = re.compile(rb'["{}]')
_SEPARATORS = re.compile(rb"[,\[\]]")
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
_UTF8_MARK = b"\xef\xbb\xbf"


def extrapolated(count: int, read: int, size: int) -> int | None:
    """About how many there are in a file of that size, if it goes on as it began."""
    return round(count * max(size, read) / read) if read else None


def count_lines(path: Path) -> int | None:
    """Line ends of a plain file, for an estimate. None where unpacking to count would take as long as it saves."""
    if path.suffix == ".gz":
        return None
    try:
        with path.open("rb") as stream:
            return sum(block.count(b"\n") for block in iter(partial(stream.read, 2**20), b""))
    except (OSError, ValueError):
        return None  # said in a sentence when the rows are read


def shown(value: object, width: int = 60) -> str:
    """A value as it may stand in a sentence: quoted, escaped, cut short."""
    text = ascii(value) if _unprintable(value) else repr(value)
    return text if len(text) <= width else f"{text[: width - 3]}..."


def _unprintable(value: object) -> bool:
    return isinstance(value, str) and any("\ud800" <= character <= "\udfff" for character in value)


def read_lines(stream: BinaryIO, file: str, *, limit: int = MAX_LINE) -> Iterator[Row[str] | Flaw]:
    """Each line with its line end. Only LF ends a line: CR LF stays as it is, U+2028 is text."""
    number = 0
    while raw := stream.readline(limit + 1):
        number += 1
        if number == 1:
            raw = _without_mark(raw, file)
        if len(raw) > limit:
            _skip_rest(stream, raw, limit)
            yield Flaw(Place(file, number), f"The line is longer than {limit:,} bytes. It was left out.")
        else:
            yield decoded(raw, Place(file, number))


def _without_mark(raw: bytes, file: str) -> bytes:
    if raw.startswith(_UTF16_MARKS):
        raise InputError("The file is UTF-16. Save it as UTF-8 and try again.", path=file)
    return raw.removeprefix(_UTF8_MARK)


def _skip_rest(stream: BinaryIO, raw: bytes, limit: int) -> None:
    while raw and not raw.endswith(b"\n"):
        raw = stream.readline(limit)


def decoded(raw: bytes, place: Place) -> Row[str] | Flaw:
    try:
        return Row(raw.decode("utf-8"), place)
    except UnicodeDecodeError as error:
        bad = raw[error.start : error.start + 1].hex()
        return Flaw(place, f"Byte 0x{bad} at position {error.start + 1} of the line is not UTF-8. It was left out.")


def start_of(stream: io.BufferedReader[Any], size: int) -> bytes:
    """The first bytes, which stay in the stream: as many as its buffer holds, and so many at most."""
    return stream.peek(size)[:size]


def is_lines(path: Path) -> bool:
    """Whether a plain file of JSON holds a value a line, so that its lines may be counted."""
    try:
        with path.open("rb") as stream:
            return _in_lines(start_of(stream, SAMPLE))
    except (OSError, ValueError):
        return True  # said in a sentence when the rows are read


def read_json_lines(
    stream: BinaryIO, file: str, count: Callable[[int], object] = lambda _: None
) -> Iterator[Row[dict[str, Any]] | Flaw]:
    """One JSON object a line, blank lines passed over; or the objects of an array, or of pretty-printed JSON.

    `count` is called with the length of each line or object before it is given.
    """
    stream = stream if isinstance(stream, io.BufferedReader) else io.BufferedReader(cast("io.RawIOBase", stream))
    if not _in_lines(start := start_of(stream, SAMPLE)):
        if file.lower().removesuffix(".gz").endswith((".jsonl", ".ndjson")):
            what = "one JSON array" if start.lstrip(_BLANKS).startswith(b"[") else "JSON over several lines"
            yield Flaw(Place(file, 1), f"This is {what} and not an object a line. It was read as such.", "noted")
        yield from _read_values(stream, file, count)
        return
    for line in read_lines(stream, file):
        if isinstance(line, Row):
            count(len(line.value))
        if isinstance(line, Flaw):
            yield line
        elif text := line.value.strip(" \t\r\n"):
            yield parse_object(Row(text, line.place))


def _in_lines(start: bytes) -> bool:
    """Whether one of the first lines is an object by itself; else an array or an object must begin the file."""
    if start.startswith(_UTF16_MARKS):
        return True  # refused in a sentence as the first line is read
    start = start.removeprefix(_UTF8_MARK).lstrip(_BLANKS)
    if not start.startswith((b"[", b"{")):
        return True
    lines = [line for line in start.split(b"\n", LINES_TRIED)[:LINES_TRIED] if line.strip()]
    if start.startswith(b"["):
        return not _begins_array(lines[0])
    return len(lines) < 2 or any(_is_object(line) for line in lines)


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _begins_array(line: bytes) -> bool:
    """An array of objects; one of anything else, closed on its line, is a bad line among others."""
    inside = line.strip()[1:].lstrip()
    return not inside or inside.startswith((b"{", b"]"))


def _read_values(
    stream: io.BufferedReader[Any], file: str, count: Callable[[int], object]
) -> Iterator[Row[dict[str, Any]] | Flaw]:
    """The objects of an array, or one after the other, over however many lines. Memory holds the longest allowed."""
    scanner = _ObjectScanner(file, count)
    while block := stream.read(_BLOCK):
        yield from scanner.feed(block)
    yield from scanner.end()


@dataclass
class _ObjectScanner:
    """Cuts bytes into outermost objects by their brackets, strings aside; JSON's own parser reads each."""

    file: str
    count: Callable[[int], object]
    line: int = 1
    begun: int = 1  # the line on which the object began that is being read
    depth: int = 0
    in_string: bool = False
    escaped: bool = False  # a block ended behind a backslash
    too_long: bool = False
    pieces: list[bytes] = field(default_factory=list)
    size: int = 0
    start: int = 0  # in the block, where what is not yet taken begins
    arrays: int = 0  # outside objects, opened and not yet closed

    def feed(self, block: bytes) -> Iterator[Row[dict[str, Any]] | Flaw]:
        self.start, at, self.escaped = 0, int(self.escaped), False
        while hit := (_IN_STRING if self.in_string else _OUTSIDE).search(block, at):
            sign, at = hit[0], hit.end()
            if self.in_string:
                self.in_string = sign != b'"'
                self.escaped = sign == b"\\"  # at the very end, else the sign would have two bytes
            elif sign == b'"':
                self.in_string = True
            elif sign == b"{":
                yield from self._open(block, hit.start())
            elif self.depth:
                yield from self._close(block, at)
        if self.depth:
            self._keep(block[self.start :])
        else:
            yield from self._stray(block[self.start :])

    def end(self) -> Iterator[Row[dict[str, Any]] | Flaw]:
        if self.depth:
            yield Flaw(Place(self.file, self.begun), "The object that begins here is not closed before the file ends.")
        elif self.in_string:
            yield Flaw(Place(self.file, self.line), "A quote is opened and not closed before the file ends.")
        elif self.arrays > 0:
            message = "The array is not closed before the file ends: it may have been cut off, and objects be missing."
            yield Flaw(Place(self.file, self.line), message)

    def _open(self, block: bytes, at: int) -> Iterator[Flaw]:
        if self.depth == 0:
            yield from self._stray(block[self.start : at])
            self.start, self.begun = at, self.line
        self.depth += 1

    def _close(self, block: bytes, at: int) -> Iterator[Row[dict[str, Any]] | Flaw]:
        self.depth -= 1
        if self.depth == 0:
            self._keep(block[self.start : at])
            self.start = at
            yield self._object()

    def _keep(self, piece: bytes) -> None:
        self.line += piece.count(b"\n")
        self.size += len(piece)
        self.too_long = self.too_long or self.size > MAX_LINE
        if self.too_long:
            self.pieces.clear()
        else:
            self.pieces.append(piece)

    def _object(self) -> Row[dict[str, Any]] | Flaw:
        place, raw, too_long = Place(self.file, self.begun), b"".join(self.pieces), self.too_long
        self.count(self.size)
        self.pieces, self.size, self.too_long = [], 0, False
        if too_long:
            return Flaw(place, f"The object is longer than {MAX_LINE:,} bytes. It was left out.")
        text = decoded(raw, place)
        return text if isinstance(text, Flaw) else parse_object(text)

    def _stray(self, between: bytes) -> Iterator[Flaw]:
        """What stands between objects: commas, blanks and the array's brackets, or values that are no objects."""
        self.arrays += between.count(b"[") - between.count(b"]")
        for part in _SEPARATORS.split(between):
            if value := part.strip(_BLANKS).removeprefix(_UTF8_MARK):
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
    except (ValueError, RecursionError) as error:  # numbers of thousands of digits, NaN, brackets nested for ever
        return Flaw(line.place, f"Not usable JSON: {_reason(error)}.")
    if not isinstance(value, dict):
        return Flaw(line.place, f"A JSON object was expected, and this is {shown(value)}.")
    return Row(value, line.place)


def _parts(text: str) -> int:
    """About how many values a JSON text holds: in memory each takes many times the two letters that it may have."""
    parts = sum(map(text.count, ",[{"))
    return sum(map(_JSON_TEXT.sub("", text).count, ",[{")) if parts > MOST_PARTS else parts


def _reason(error: Exception) -> str:
    return "it is nested too deeply" if isinstance(error, RecursionError) else str(error).split(";")[0].rstrip(".")


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not a JSON number, and PostgreSQL's jsonb does not take it")


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(f"{shown(digits, 20)} is too large a number")
    return number
