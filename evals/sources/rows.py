"""Rows of text files: lines, then fields, then items, queries and labels; one bad row costs that row alone."""

from __future__ import annotations

import io
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, time
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, cast

from core.errors import InputError
from core.types import Flaw, Item, Place, Query, Row
from evals.types import Exclusion, Label, Span

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


MAX_DEPTH = 20
MAX_SHOWN = 200  # of what is neither text nor number, such as bytes


def plain(value: object, depth: int = 0) -> Any:
    """ISO text for dates and times, None for what JSON has no word for, `str` for all else."""
    if isinstance(value, Mapping) and depth < MAX_DEPTH:
        return {str(name): plain(inner, depth + 1) for name, inner in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)) and depth < MAX_DEPTH:
        return [plain(inner, depth + 1) for inner in value]
    return _scalar(value)


def _scalar(value: object) -> Any:
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value.isoformat() if isinstance(value, (date, time)) else str(value)[:MAX_SHOWN]


Fields = Mapping[str, Any]
QUERY_IDS = ("query_id", "query-id", "qid", "queryid", "q_id", "topic_id", "topic-id")  # columns of a query's id
_ITEM_FIELDS = frozenset({"_id", "title", "text", "metadata"})
_QUERY_FIELDS = frozenset({"_id", "text", "metadata", "kind", "tags", "weight"})


def id_text(value: object) -> str:
    """An id as text. Numbers are taken as JSON and spreadsheets write them, 12.0 being 12; "" means none."""
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
        return str(value)
    return ""


def whole_number(value: object) -> int | None:
    """3, "3", 3.0 and "3.0" are 3; everything else is None."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    try:
        number = float(value) if isinstance(value, (str, float)) and len(str(value)) < 20 else math.nan
    except ValueError:
        return None
    return int(number) if number.is_integer() else None


def item_rows(row: Row[dict[str, Any]]) -> Iterator[Row[Item] | Flaw]:
    """`_id`, `title`, `text` and `metadata`; whatever else the row has joins the metadata."""
    fields = _with_id(row.value)
    if isinstance(identity := _identity(fields, row.place, "document"), Flaw):
        yield identity
        return
    if isinstance(texts := _texts(fields, row.place, identity, ("title", "text")), Flaw):
        yield texts
        return
    metadata = dict(_metadata(fields, _ITEM_FIELDS))
    yield Row(Item(identity, texts["text"], texts["title"].strip(), metadata), row.place)
    yield from _metadata_flaw(fields, row.place, identity)


def _with_id(fields: dict[str, Any]) -> dict[str, Any]:
    """Many hand-made files say `id` where BEIR says `_id`."""
    if "_id" in fields or "id" not in fields:
        return fields
    return {"_id": fields["id"], **{name: value for name, value in fields.items() if name != "id"}}


def _identity(fields: Fields, place: Place, what: str) -> str | Flaw:
    identity = id_text(fields.get("_id"))
    if identity:
        return identity
    if fields.get("_id") is None:
        return Flaw(place, f'The {what} has no id (the field "_id").')
    return Flaw(place, f"The id of the {what} is {shown(fields['_id'])}; text or a number was expected.")


def _texts(fields: Fields, place: Place, subject: str, names: tuple[str, ...]) -> dict[str, str] | Flaw:
    if all(fields.get(name) is None for name in names):
        return Flaw(place, f"There is no text: none of the fields {', '.join(names)}.", subject=subject)
    for name in names:
        if not isinstance(fields.get(name), (str, type(None))):
            return Flaw(place, f"The field {name!r} is {shown(fields[name])}; text was expected.", subject=subject)
    return {name: fields.get(name) or "" for name in names}


def _metadata(fields: Fields, known: frozenset[str]) -> Iterator[tuple[str, Any]]:
    yield from ((name, value) for name, value in fields.items() if name not in known)
    if isinstance(given := fields.get("metadata"), Mapping):
        yield from given.items()


def _metadata_flaw(fields: Fields, place: Place, subject: str) -> Iterator[Flaw]:
    given = fields.get("metadata")
    if given is not None and not isinstance(given, Mapping):
        message = f"`metadata` is {shown(given)}; an object was expected. The row was kept without it."
        yield Flaw(place, message, "cleaned", subject)


def query_rows(row: Row[dict[str, Any]]) -> Iterator[Row[Query] | Flaw]:
    """`kind`, `tags` and `weight` may stand at the top or inside `metadata`; the top wins."""
    fields = _with_id(row.value)
    if isinstance(identity := _identity(fields, row.place, "query"), Flaw):
        yield identity
        return
    if isinstance(texts := _texts(fields, row.place, identity, ("text",)), Flaw):
        yield texts
        return
    metadata = dict(_metadata(fields, _QUERY_FIELDS))
    inner = {name: metadata.pop(name) for name in ("kind", "tags", "weight") if name in metadata}
    facets = {**inner, **{name: fields[name] for name in ("kind", "tags", "weight") if fields.get(name) is not None}}
    kind, tags, weight = _kind(facets.get("kind")), _tags(facets.get("tags")), _weight(facets.get("weight"))
    query = Query(identity, texts["text"], kind or "", tags or (), 1.0 if weight is None else weight, metadata)
    yield Row(query, row.place)
    yield from _metadata_flaw(fields, row.place, identity)
    for name, value, wanted in (
        ("kind", kind, "text"),
        ("tags", tags, "a list of texts"),
        ("weight", weight, "0 or more"),
    ):
        if value is None:
            message = f"The query's {name} is {shown(facets[name])}; {wanted} was expected. It was kept without."
            yield Flaw(row.place, message, "cleaned", identity)


def _kind(value: object) -> str | None:
    return "" if value is None else id_text(value) if value == "" or id_text(value) else None


def _tags(value: object) -> tuple[str, ...] | None:
    if value is None:
        return ()
    if isinstance(value, str):
        return tuple(tag for part in value.replace(";", ",").replace("|", ",").split(",") if (tag := part.strip()))
    if isinstance(value, (list, tuple)) and all(id_text(tag) for tag in value):
        return tuple(id_text(tag) for tag in value)
    return None


def _weight(value: object) -> float | None:
    if value is None or value == "":
        return 1.0
    try:
        weight = float(value) if isinstance(value, (int, float, str)) and not isinstance(value, bool) else math.nan
    except (ValueError, OverflowError):
        return None
    return weight if math.isfinite(weight) and weight >= 0 else None


def label_row(query: object, item: object, grade: object, split: str, place: Place) -> Row[Label] | Flaw:
    """A judgement. Whether the query and the item exist, and the grade is on the scale, is judged later."""
    query_id, item_id, number = id_text(query), id_text(item), whole_number(grade)
    if not query_id or not item_id:
        return Flaw(place, f"The judgement names no {'document' if query_id else 'query'}.", subject=query_id)
    if number is None:
        return Flaw(place, f"The grade is {shown(grade)}; a whole number was expected.", subject=query_id)
    return Row(Label(query_id, item_id, number, split), place)


def span_row(row: Row[dict[str, Any]]) -> Row[Span] | Flaw:
    """One line of spans.jsonl: query-id, corpus-id, start, end, text; split and score where given."""
    fields = row.value
    query_id, item_id = id_text(fields.get("query-id")), id_text(fields.get("corpus-id"))
    if not query_id or not item_id:
        return Flaw(row.place, "The span needs `query-id` and `corpus-id`.", subject=query_id)
    start, end, grade = (
        whole_number(fields.get(name, usual)) for name, usual in (("start", ""), ("end", ""), ("score", 1))
    )
    text, split = fields.get("text"), fields.get("split", "test")
    if start is None or end is None or grade is None or not isinstance(text, str) or not isinstance(split, str):
        message = "The span needs whole numbers `start` and `end` and a `text`."
        return Flaw(row.place, message, subject=query_id)
    return Row(Span(query_id, item_id, start, end, text, split, grade), row.place)


def exclusion_row(query: object, item: object, place: Place) -> Row[Exclusion] | Flaw:
    query_id, item_id = id_text(query), id_text(item)
    if not query_id or not item_id:
        return Flaw(place, "The line needs a query's id and a document's id.", subject=query_id)
    return Row(Exclusion(query_id, item_id), place)


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
