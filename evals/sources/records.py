"""Items, queries, labels, spans and exclusions out of plain fields. Owns what a field may hold and how a bad one reads.

Every function is a generator: a row that can be kept after a repair yields itself and a "cleaned" flaw.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from core.types import Flaw, Item, Place, Query, Row
from evals.labels import Exclusion, Label, Span
from evals.sources.lines import shown

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
