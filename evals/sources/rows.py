"""Rows of text files: lines and their cells, and from fields to items, queries and labels.

A bad row costs that row alone. `evals.sources.json_lines` reads fields out of JSON.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterator, Mapping
from datetime import date, time
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from core.errors import InputError
from core.types import Flaw, Item, Place, Query, Row
from evals.types import Exclusion, Label, Span

MAX_LINE = 32 * 2**20
SAMPLE = 4 * 2**20  # bytes from which a size is estimated
UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
UTF8_MARK = b"\xef\xbb\xbf"


def extrapolate(count: int, read: int, size: int) -> int | None:
    """About how many there are in a file of `size` bytes, where the first `read` bytes hold `count`."""
    return round(count * max(size, read) / read) if read else None


def count_lines(path: Path) -> int | None:
    """Line ends of a plain file, for an estimate; None for a packed one, which would have to be unpacked."""
    if path.suffix == ".gz":
        return None
    try:
        with path.open("rb") as stream:
            return sum(block.count(b"\n") for block in iter(partial(stream.read, 2**20), b""))
    except (OSError, ValueError):
        return None  # the error is raised when the rows are read


def shown(value: object, width: int = 60) -> str:
    """A value for use in a sentence: quoted, escaped, cut short."""
    surrogates = isinstance(value, str) and any("\ud800" <= character <= "\udfff" for character in value)
    text = ascii(value) if surrogates else repr(value)
    return text if len(text) <= width else f"{text[: width - 3]}..."


def read_lines(stream: BinaryIO, file: str, *, limit: int = MAX_LINE) -> Iterator[Row[str] | Flaw]:
    """Each line with its line end. Only LF ends a line: CR stays in it, and U+2028 is text."""
    number = 0
    while raw := stream.readline(limit + 1):
        number += 1
        if number == 1:
            if raw.startswith(UTF16_MARKS):
                raise InputError("The file is UTF-16. Save it as UTF-8 and try again.", path=file)
            raw = raw.removeprefix(UTF8_MARK)
        if len(raw) > limit:
            while raw and not raw.endswith(b"\n"):
                raw = stream.readline(limit)
            yield Flaw(Place(file, number), f"The line is longer than {limit:,} bytes. It was left out.")
        else:
            yield decode_line(raw, Place(file, number))


def decode_line(raw: bytes, place: Place) -> Row[str] | Flaw:
    try:
        return Row(raw.decode("utf-8"), place)
    except UnicodeDecodeError as error:
        bad = raw[error.start : error.start + 1].hex()
        return Flaw(place, f"Byte 0x{bad} at position {error.start + 1} of the line is not UTF-8. It was left out.")


def start_of(stream: io.BufferedReader[Any], size: int) -> bytes:
    """The first `size` bytes, or as many of them as the buffer holds; they stay in the stream."""
    return stream.peek(size)[:size]


MAX_DEPTH = 20
MAX_SHOWN = 200  # characters of a value that is neither text nor number, such as bytes


def plain(value: object, depth: int = 0) -> Any:
    """The value as JSON holds it: dates and times as ISO text, NaN and infinity as None, other objects as text."""
    if isinstance(value, Mapping) and depth < MAX_DEPTH:
        return {str(name): plain(inner, depth + 1) for name, inner in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)) and depth < MAX_DEPTH:
        return [plain(inner, depth + 1) for inner in value]
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
    """An id as text; "" means none. Numbers may be ids, and 12.0, as spreadsheets write it, is 12."""
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
    """A document from `_id`, `title`, `text` and `metadata`; all other fields join the metadata."""
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
    """The fields with `id` renamed to `_id`, if they have no `_id`: many hand-made files say `id`."""
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
    if isinstance(inner := fields.get("metadata"), Mapping):
        yield from inner.items()


def _metadata_flaw(fields: Fields, place: Place, subject: str) -> Iterator[Flaw]:
    inner = fields.get("metadata")
    if inner is not None and not isinstance(inner, Mapping):
        message = f"`metadata` is {shown(inner)}; an object was expected. The row was kept without it."
        yield Flaw(place, message, "cleaned", subject)


def query_rows(row: Row[dict[str, Any]]) -> Iterator[Row[Query] | Flaw]:
    """A query. `kind`, `tags` and `weight` may be fields of the row or of `metadata`; the row's win."""
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
    name = facets.get("kind")
    kind = "" if name is None or name == "" else id_text(name) or None
    tags, weight = _tags(facets.get("tags")), _weight(facets.get("weight"))
    query = Query(identity, texts["text"], kind or "", tags or (), 1.0 if weight is None else weight, metadata)
    yield Row(query, row.place)
    yield from _metadata_flaw(fields, row.place, identity)
    for facet, value, expected in (
        ("kind", kind, "text"),
        ("tags", tags, "a list of texts"),
        ("weight", weight, "0 or more"),
    ):
        if value is None:
            message = f"The query's {facet} is {shown(facets[facet])}; {expected} was expected. It was kept without."
            yield Flaw(row.place, message, "cleaned", identity)


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
    """A judgement. That the query and the item exist and the grade is on the scale is checked by `label_checks`."""
    query_id, item_id, number = id_text(query), id_text(item), whole_number(grade)
    if not query_id or not item_id:
        return Flaw(place, f"The judgement names no {'document' if query_id else 'query'}.", subject=query_id)
    if number is None:
        return Flaw(place, f"The grade is {shown(grade)}; a whole number was expected.", subject=query_id)
    return Row(Label(query_id, item_id, number, split), place)


def span_row(row: Row[dict[str, Any]]) -> Row[Span] | Flaw:
    """A line of spans.jsonl: query-id, corpus-id, start, end and text, with an optional split and score."""
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
    """`query item`; further columns are not read."""
    for row in _cells(stream, file):
        if isinstance(row, Flaw):
            yield row
        elif len(row.value) >= 2:
            yield exclusion_row(row.value[0], row.value[1], row.place)
        else:
            yield Flaw(row.place, f"2 columns (query, document) were expected: {shown(row.value)}.")


def _cells(stream: BinaryIO, file: str) -> Iterator[Row[list[str]] | Flaw]:
    """The cells of each line, separated by tabs if it has any, so that an id may hold a blank; else by blanks."""
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
