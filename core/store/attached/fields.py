"""Metadata fields of an attached table as filters read them: keys of one JSON column, or columns of their own.

A column is compared in its own type where that is what its index holds; of any other type, as the jsonb it becomes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from sqlalchemy import BigInteger as Integer
from sqlalchemy import Boolean as Truth
from sqlalchemy import ColumnElement, Date, DateTime, Numeric, Text, and_, case, false, func, literal, null, or_
from sqlalchemy import cast as sql_cast
from sqlalchemy.dialects.postgresql import JSONB, array

from core.errors import MissingCapability, UnknownName
from core.filters import JsonField, MetadataField, Scalar
from core.filters.sql import ORDERS, Expression
from core.store.attached.mapping import AttachedTable

INTEGERS = ("smallint", "integer", "bigint")
TEXTS = ("text", "character varying")
TIMES = ("timestamp without time zone", "timestamp with time zone")
LARGEST_INTEGER = 2**63 - 1
NUL_IN_JSON = r"%\\u0000%"  # LIKE takes one backslash off


def field_of(
    mapping: AttachedTable, name: str, column: ColumnElement[Any] | None, kind: str, whole: ColumnElement[Any]
) -> MetadataField:
    """The field of that name. `column` is the mapped column it stands in, of the type `kind`; `whole` all metadata."""
    if mapping.metadata is None:
        raise MissingCapability(
            f"{mapping.full_name} is attached without metadata, so there is nothing to filter by. Attach it again with "
            "--metadata."
        )
    if column is None:
        raise UnknownName(f"metadata column of {mapping.full_name}", name, mapping.metadata)
    if not isinstance(mapping.metadata, str):
        return ColumnField(column, kind)
    held = _key(whole if name == mapping.metadata else column, name)  # what is no object stands under the column's name
    if kind != "jsonb":
        return JsonField(_as_jsonb(held, column))
    return JsonField(held) if name == mapping.metadata else JsonField(held, column, name, sought_in_holder=True)


def _key(holder: ColumnElement[Any], name: str) -> ColumnElement[Any]:
    return holder.op("->", return_type=JSONB())(literal(name, Text))


def _as_jsonb(value: ColumnElement[Any], column: ColumnElement[Any]) -> ColumnElement[Any]:
    return without_nul(column, sql_cast(value, JSONB))


def without_nul(column: ColumnElement[Any], value: ColumnElement[Any]) -> ColumnElement[Any]:
    """A json may hold a NUL, at which even reading one of its keys fails: all in it is then as good as missing."""
    holds = sql_cast(column, Text).like(literal(NUL_IN_JSON, Text, literal_execute=True))
    return case((holds, null()), else_=value)


@dataclass(frozen=True, slots=True)
class ColumnField:
    """A column of its own. What its type does not know is compared as JSON, so a filter means the same everywhere."""

    column: ColumnElement[Any]
    kind: str

    @property
    def _json(self) -> JsonField:
        return JsonField(func.to_jsonb(self.column, type_=JSONB))

    def equals(self, value: Scalar) -> Expression:
        bound = native(self.kind, value)
        if bound is None:
            return self._json.equals(value)
        equal: Expression = self.column == bound
        return equal

    def ordered(self, how: str, value: Scalar) -> Expression:
        bound = native(self.kind, value)
        if bound is None:
            return self._json.ordered(how, value)
        compared: Expression = ORDERS[how](self.column, bound)
        return compared

    def among(self, values: Sequence[Scalar]) -> Expression:
        return or_(false(), *(self.equals(value) for value in values))

    def contains(self, value: Scalar) -> Expression:
        element = self.kind.removesuffix("[]")
        bound = native(element, value) if element != self.kind and element in (*INTEGERS, *TEXTS) else None
        if bound is None:
            return self._json.contains(value)
        return self.column.op("@>", is_comparison=True)(sql_cast(array([bound]), self.column.type))

    def exists(self) -> Expression:
        return and_(self.column.is_not(None), self._json.exists()) if "json" in self.kind else self.column.is_not(None)


def native(kind: str, value: Scalar) -> ColumnElement[Any] | None:
    """The value in the column's own type; None where the type has no such value, or none that compares alike."""
    if isinstance(value, bool):
        return literal(value, Truth) if kind == "boolean" else None
    if isinstance(value, str):
        return _written(kind, value)
    if kind in INTEGERS and isinstance(value, int) and abs(value) <= LARGEST_INTEGER:
        return literal(value, Integer)
    if kind in (*INTEGERS, "numeric"):
        return literal(Decimal(str(value)), Numeric)
    return None


def _written(kind: str, value: str) -> ColumnElement[Any] | None:
    if kind in TEXTS:
        return literal(value, Text)
    try:
        if kind == "date" and len(value) == len("2024-01-01"):
            return literal(date.fromisoformat(value), Date)
        return _moment(kind, datetime.fromisoformat(value)) if kind in TIMES else None
    except ValueError:
        return None


def _moment(kind: str, value: datetime) -> ColumnElement[Any]:
    """Without a zone it is taken for UTC; compared with a column without one, it is told in UTC."""
    aware = value if value.tzinfo else value.replace(tzinfo=UTC)
    if kind == "timestamp with time zone":
        return literal(aware, DateTime(timezone=True))
    return literal(aware.astimezone(UTC).replace(tzinfo=None), DateTime(timezone=False))
