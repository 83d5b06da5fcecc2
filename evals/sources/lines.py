"""Lines and JSON objects out of a byte stream, each with its place. Owns decoding and the cap on a line's length.

Memory is bounded by the longest line allowed, whatever the file holds.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from core.errors import InputError
from core.types import Flaw, Place, Row

MAX_LINE = 32 * 2**20
MOST_PARTS = 2**20  # values in one line of JSON
_JSON_TEXT = re.compile(r'"(?:[^"\\]|\\.)*+"')
SAMPLE = 4 * 2**20  # bytes from which a size is judged
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


def read_json_lines(stream: BinaryIO, file: str) -> Iterator[Row[dict[str, Any]] | Flaw]:
    """One JSON object a line; blank lines are passed over."""
    return json_objects(read_lines(stream, file))


def json_objects(lines: Iterable[Row[str] | Flaw]) -> Iterator[Row[dict[str, Any]] | Flaw]:
    for line in lines:
        if isinstance(line, Flaw):
            yield line
        elif line.value.strip():
            yield parse_object(line)


def parse_object(line: Row[str]) -> Row[dict[str, Any]] | Flaw:
    if (parts := _parts(line.value)) > MOST_PARTS:
        return Flaw(line.place, f"The line holds {parts:,} values, and {MOST_PARTS:,} are allowed. It was left out.")
    try:
        value = json.loads(line.value, parse_constant=_refuse, parse_float=_finite)
    except json.JSONDecodeError as error:
        return Flaw(line.place, f"Not valid JSON: {error.msg} at column {error.colno}.")
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
