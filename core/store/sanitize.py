"""Every item is cleaned or rejected here, before anything is hashed or stored; a bad row never affects another.

PostgreSQL stores no NUL, UTF-8 no lone surrogate, JSON no NaN, a B-tree no endless id.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import Any

from core.types import Flaw, Item, Place

LONGEST_ID = 1000  # bytes, well within what an index entry can hold
LONGEST_TEXT = 64 * 2**20  # characters
LARGEST_INTEGER = 2**2048  # beyond a few thousand digits Python itself refuses to write one out
LARGEST_INDEXED_VALUE = 2600  # bytes as JSONB; a B-tree's entry holds 2704
DEEPEST_METADATA = 16
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


class Rejected(Exception):
    """Why an item cannot be stored."""


def storable(text: str) -> bool:
    return not _UNSTORABLE.search(text)


def cleaned(text: str) -> str:
    """The text without NULs, and with U+FFFD for halves of surrogate pairs."""
    return _UNSTORABLE.sub(lambda found: "" if found[0] == "\x00" else "\N{REPLACEMENT CHARACTER}", text)


def cleaned_metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The metadata as it can be stored. Raises Rejected where it cannot."""
    return _cleaned_metadata(metadata, [])


def sanitize_item(item: Item, place: Place, indexed: Sequence[str] = ()) -> tuple[Item | None, list[Flaw]]:
    """The item as it will be stored, or None; and what was wrong with it. `indexed` are metadata fields."""
    notes: list[str] = []
    try:
        _check_id(item.id)
        title, text = _cleaned(item.title, notes), _cleaned(item.text, notes)
        admitted = Item(id=item.id, title=title, text=text, metadata=_cleaned_metadata(item.metadata, notes))
        _check_indexed(admitted.metadata, indexed)
    except Rejected as reason:
        subject = _UNSTORABLE.sub("\N{REPLACEMENT CHARACTER}", item.id)[:80]
        return None, [Flaw(place, str(reason), "quarantined", subject=subject)]
    flaws = [Flaw(place, note, "cleaned", subject=admitted.id) for note in dict.fromkeys(notes)]
    if not admitted.full_text.strip():
        flaws.append(Flaw(place, "the text is empty: kept, but nothing will find it", "noted", subject=admitted.id))
    return admitted, flaws


def digest(item: Item) -> bytes:
    """A digest of everything in the item: where it is equal, nothing needs to be done."""
    content = json.dumps([item.id, item.title, item.text, item.metadata], sort_keys=True, ensure_ascii=False)
    return hashlib.blake2b(content.encode(), digest_size=16).digest()


def _check_id(identifier: str) -> None:
    if not identifier or identifier.isspace():
        raise Rejected("the id is missing or blank: give every document one")
    if _UNSTORABLE.search(identifier):
        raise Rejected("the id holds a NUL or half a surrogate pair, which cannot be stored: change the id")
    if len(identifier.encode()) > LONGEST_ID:
        raise Rejected(f"the id takes more than {LONGEST_ID} bytes: shorten it")


def _cleaned(text: str, notes: list[str]) -> str:
    if len(text) > LONGEST_TEXT:
        raise Rejected(f"the text has {len(text):,} characters, more than {LONGEST_TEXT:,}: split the document")
    if not _UNSTORABLE.search(text):
        return text
    notes.append("NUL characters were removed, and halves of surrogate pairs replaced by U+FFFD")
    return cleaned(text)


def _check_indexed(metadata: Mapping[str, Any], fields: Sequence[str]) -> None:
    for name in fields:
        if (size := _bytes_as_jsonb(metadata.get(name))) > LARGEST_INDEXED_VALUE:
            raise Rejected(
                f"the metadata field {name!r} takes {size:,} bytes, and as it is indexed it may take "
                f"{LARGEST_INDEXED_VALUE:,}: shorten it"
            )


def _bytes_as_jsonb(value: Any) -> int:
    """An upper bound of the bytes that the value takes."""
    match value:
        case str():
            return 8 + len(value.encode())
        case Mapping():
            return 8 + sum(8 + len(name.encode()) + _bytes_as_jsonb(part) for name, part in value.items())
        case list():
            return 8 + sum(map(_bytes_as_jsonb, value))
        case int() | float():
            return 24 + len(str(value)) // 2
    return 8


def _cleaned_metadata(metadata: Mapping[str, Any], notes: list[str]) -> dict[str, Any]:
    return {_cleaned(str(name), notes): _cleaned_value(value, notes) for name, value in metadata.items()}


def _cleaned_value(value: Any, notes: list[str], depth: int = 0) -> Any:  # noqa: PLR0911 - a case a type
    if depth > DEEPEST_METADATA:
        raise Rejected(f"the metadata is nested deeper than {DEEPEST_METADATA} levels: flatten it")
    match value:
        case None | bool():
            return value
        case int() | float():
            return _cleaned_number(value, notes)
        case str():
            return _cleaned(value, notes)
        case datetime() | date():
            return value.isoformat()
        case Mapping():
            return {_cleaned(str(name), notes): _cleaned_value(part, notes, depth + 1) for name, part in value.items()}
        case list() | tuple():
            return [_cleaned_value(part, notes, depth + 1) for part in value]
        case set() | frozenset():  # in an order that is the same in every process, or it would count as changed
            return sorted((_cleaned_value(part, notes, depth + 1) for part in value), key=repr)
    notes.append(f"metadata of type {type(value).__name__} was turned into text")
    return _cleaned(str(value), notes)


def _cleaned_number(value: float, notes: list[str]) -> float | None:
    if isinstance(value, int):
        if abs(value) > LARGEST_INTEGER:
            raise Rejected("the metadata holds an integer of more than 600 digits: give it as text")
        return int(value)
    if math.isfinite(value):
        return value
    notes.append("metadata that is not a finite number was emptied")
    return None
