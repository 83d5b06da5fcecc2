"""Filters as SQL. Values and field names are always bound. Knows fields through `MetadataField`, tables not at all.

Every comparison is one that an index can serve as it stands: a B-tree on the field's jsonb value, or a GIN over the
whole object. A condition may come out NULL where a field is missing; only under a denial does that matter, and there
it counts as false.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from sqlalchemy import ColumnElement, Text, and_, any_, false, func, literal, literal_column, or_, true
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

from core.filters.spec import And, Condition, Not, Or, Scalar

Expression = ColumnElement[bool]
ORDERS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "gt": operator.gt,
    "gte": operator.ge,
    "lt": operator.lt,
    "lte": operator.le,
}


class MetadataField(Protocol):
    """A metadata field wherever it stands: what each kind of comparison with it is in SQL."""

    def equals(self, value: Scalar) -> Expression: ...

    def ordered(self, how: str, value: Scalar) -> Expression: ...

    def among(self, values: Sequence[Scalar]) -> Expression: ...

    def contains(self, value: Scalar) -> Expression: ...

    def exists(self) -> Expression: ...


@dataclass(frozen=True, slots=True)
class JsonField:
    """A field whose value is a jsonb, NULL where it is missing.

    `holder` is the jsonb object that has the field under `name`, where there is one that may have a GIN index;
    `sought_in_holder` has equality ask it too, where no B-tree is on the field itself.
    """

    value: ColumnElement[Any]
    holder: ColumnElement[Any] | None = None
    name: str = ""
    sought_in_holder: bool = False

    def equals(self, value: Scalar) -> Expression:
        equal: Expression = self.value == json(value)
        if self.holder is None or not self.sought_in_holder:
            return equal
        return and_(self.holder.op("@>", is_comparison=True)(json({self.name: value})), equal)

    def ordered(self, how: str, value: Scalar) -> Expression:
        # jsonb orders across types, every number after every text; the types keep them apart.
        compared: Expression = ORDERS[how](self.value, json(value))
        return and_(compared, func.jsonb_typeof(self.value) == type_of(value))

    def among(self, values: Sequence[Scalar]) -> Expression:
        return self.value == any_(literal(list(values), ARRAY(JSONB))) if values else false()

    def contains(self, value: Scalar) -> Expression:
        held = self._holds(value)
        return or_(held, self._has_stretch(value)) if isinstance(value, str) else held

    def exists(self) -> Expression:
        return func.jsonb_typeof(self.value) != "null"

    def _holds(self, value: Scalar) -> Expression:
        """An array with this value in it. Containment takes a bare value for a list of one, so the type is asked."""
        is_array = func.jsonb_typeof(self.value) == "array"
        if self.holder is None:
            return and_(self.value.op("@>", is_comparison=True)(json([value])), is_array)
        return and_(self.holder.op("@>", is_comparison=True)(json({self.name: [value]})), is_array)

    def _has_stretch(self, value: str) -> Expression:
        # Texts stand before booleans and arrays in the order of jsonb. Saying so lets a B-tree on the field tell that
        # there are none, and the other side of the OR use its own index.
        text = self.value.op("#>>", return_type=Text())(literal_column("CAST('{}' AS text[])"))
        before_arrays = self.value < literal_column("CAST('false' AS jsonb)", JSONB)
        return and_(before_arrays, func.jsonb_typeof(self.value) == "string", func.strpos(text, value) > 0)


@dataclass(frozen=True, slots=True)
class IdField:
    """An item's own id: a text that every item has, ordered bytewise. `rows_of` says which rows are of given ids."""

    id: ColumnElement[str]
    rows_of: Callable[[Sequence[str]], Expression]

    def equals(self, value: Scalar) -> Expression:
        return self.among([value])

    def ordered(self, how: str, value: Scalar) -> Expression:
        compared: Expression = ORDERS[how](self.id.collate("C"), value)
        return compared if isinstance(value, str) else false()

    def among(self, values: Sequence[Scalar]) -> Expression:
        ids = [value for value in values if isinstance(value, str)]
        return self.rows_of(ids) if ids else false()

    def contains(self, value: Scalar) -> Expression:
        return func.strpos(self.id, value) > 0 if isinstance(value, str) else false()

    def exists(self) -> Expression:
        return true()


def compiled(given: And | Or | Not | Condition, field: Callable[[str], MetadataField]) -> Expression:
    """The filter over the rows in which `field` finds the fields it names."""
    if isinstance(given, And):
        return and_(true(), *(compiled(each, field) for each in given.and_))
    if isinstance(given, Or):
        return or_(false(), *(compiled(each, field) for each in given.or_))
    if isinstance(given, Not):
        return denied(compiled(given.not_, field))
    asked = field(given.field)
    return and_(true(), *(_operation(asked, name, value) for name, value in given.operators().items()))


def _operation(field: MetadataField, name: str, value: Any) -> Expression:
    if name in ORDERS:
        return field.ordered(name, value)
    if name == "ne":
        return denied(field.equals(value))
    if name == "exists":
        return field.exists() if value else denied(field.exists())
    return {"eq": field.equals, "in": field.among, "contains": field.contains}[name](value)


def denied(condition: Expression) -> Expression:
    """The exact opposite, missing fields included. NOT alone would leave NULL, and with it the row out."""
    return func.coalesce(condition, false()).is_(False)


def json(value: Any) -> ColumnElement[Any]:
    return literal(value, JSONB(none_as_null=True))


def type_of(value: Scalar) -> str:
    """The jsonb type of a value that has an order."""
    return "string" if isinstance(value, str) else "number"
