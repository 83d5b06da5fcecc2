"""Metadata filters: conditions as data, then compiled to SQL over bound values."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from functools import partial
from typing import Annotated, Any, Final, Protocol, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    Tag,
    TypeAdapter,
    ValidationError,
    model_serializer,
    model_validator,
)
from sqlalchemy import ColumnElement, Text, and_, any_, false, func, literal, literal_column, or_, true
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

from core.errors import SpecError

ITEM_ID: Final = "_id"  # the field that is the item's own id
OPERATORS: Final = ("eq", "ne", "gt", "gte", "lt", "lte", "in", "contains", "exists")
DEEPEST: Final = 20
LARGEST_NUMBER: Final = 10**1000  # far within what a jsonb can hold


def _iso(value: Any) -> Any:
    """TOML's dates and times as the texts that metadata holds."""
    return value.isoformat() if isinstance(value, date | datetime | time) else value


def _storable(value: Any) -> Any:
    """What can stand in a jsonb: finite numbers, texts without NUL. Halves of surrogate pairs pydantic refuses."""
    if isinstance(value, str) and "\x00" in value:
        raise ValueError("a text with a NUL is stored nowhere, so nothing can equal it")
    if isinstance(value, float | int) and not -LARGEST_NUMBER < value < LARGEST_NUMBER:
        raise ValueError("a number must be finite, and shorter than a thousand digits")
    return value


Scalar = Annotated[StrictBool | StrictInt | StrictFloat | StrictStr, BeforeValidator(_iso), AfterValidator(_storable)]
Ordered = Annotated[StrictInt | StrictFloat | StrictStr, BeforeValidator(_iso), AfterValidator(_storable)]
Name = Annotated[StrictStr, Field(min_length=1, max_length=1000), AfterValidator(_storable)]


class _FrozenCondition(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    @model_serializer(mode="wrap")
    def _as_written(self, handler: Any) -> dict[str, Any]:
        """Only what was given, under the names it is given by: TOML has no null, and `in` is a word of Python's."""
        plain = {each.alias or name: name for name, each in type(self).model_fields.items()}
        made = handler(self)
        return {
            alias: made.get(name, made.get(alias))
            for alias, name in plain.items()
            if made.get(name, made.get(alias)) is not None
        }


class Condition(_FrozenCondition):
    """What must hold for one metadata field. Several operators must all hold, as in a range."""

    field: Name = Field(description="The metadata field, by its name as it stands; `_id` is the item's own id.")
    eq: Scalar | None = Field(None, description="The field is this value.")
    ne: Scalar | None = Field(None, description="The field is not this value, or is not there.")
    gt: Ordered | None = Field(None, description="Greater than this number, or a later text or ISO date.")
    gte: Ordered | None = Field(None, description="Greater or equal.")
    lt: Ordered | None = Field(None, description="Less than this number, or an earlier text or ISO date.")
    lte: Ordered | None = Field(None, description="Less or equal.")
    in_: tuple[Scalar, ...] | None = Field(None, alias="in", description="The field is one of these values.")
    contains: Scalar | None = Field(None, description="The array holds this value, or the text this stretch.")
    exists: StrictBool | None = Field(None, description="The field is there and not null; false for the opposite.")

    @model_validator(mode="after")
    def _says_something(self) -> Condition:
        if not self.operators():
            raise ValueError(f"the field {self.field!r} is compared with nothing; give one of: {', '.join(OPERATORS)}")
        return self

    def operators(self) -> dict[str, Any]:
        """Each operator that was given, with its value, in one fixed order."""
        given = {name: getattr(self, "in_" if name == "in" else name) for name in OPERATORS}
        return {name: value for name, value in given.items() if value is not None}


class _Composed(_FrozenCondition):
    """Filters within a filter."""

    @model_validator(mode="after")
    def _is_readable(self) -> Self:
        if depth(self) > DEEPEST:
            raise ValueError(f"filters are nested more than {DEEPEST} deep; `and` and `or` take lists")
        return self


class And(_Composed):
    """All of these hold; an empty list lets everything through."""

    and_: tuple[Filter, ...] = Field(alias="and", description="Filters that must all hold.")


class Or(_Composed):
    """At least one of these holds; an empty list lets nothing through."""

    or_: tuple[Filter, ...] = Field(alias="or", description="Filters of which one must hold.")


class Not(_Composed):
    """This does not hold."""

    not_: Filter = Field(alias="not", description="The filter that must not hold.")


def depth(given: BaseModel) -> int:
    """How many filters stand inside one another."""
    return 1 + max((depth(each) for each in parts(given)), default=0)


def parts(given: BaseModel) -> tuple[And | Or | Not | Condition, ...]:
    """The filters that a filter is made of, if any."""
    if isinstance(given, And):
        return given.and_
    if isinstance(given, Or):
        return given.or_
    return (given.not_,) if isinstance(given, Not) else ()


def _kind(value: Any) -> str:
    """Which of the four a value is, by the one key that only it has."""
    if isinstance(value, BaseModel):
        return type(value).__name__.lower()
    if isinstance(value, Mapping):
        for name in ("and", "or", "not"):
            if name in value or f"{name}_" in value:
                return name
    return "condition"


Filter = Annotated[
    Annotated[And, Tag("and")]
    | Annotated[Or, Tag("or")]
    | Annotated[Not, Tag("not")]
    | Annotated[Condition, Tag("condition")],
    Discriminator(_kind),
]

And.model_rebuild()
Or.model_rebuild()
Not.model_rebuild()
_ADAPTER: TypeAdapter[And | Or | Not | Condition] = TypeAdapter(Filter)


def without_items(ids: Iterable[str]) -> Not:
    """Everything but these items."""
    return Not(not_=Condition(field=ITEM_ID, in_=tuple(sorted(ids))))


def filter_from(value: Any) -> And | Or | Not | Condition:
    """A filter from what somebody wrote; one that does not validate is refused in a sentence."""
    try:
        try:
            return _ADAPTER.validate_python(value)
        except ValidationError as error:
            raise SpecError.from_pydantic("The filter", error) from error
    except RecursionError:  # from telling what was given, too
        raise SpecError(f"The filter is nested more than {DEEPEST} deep; `and` and `or` take lists.") from None


def filter_of_fields(given: Mapping[str, Any], id_field: str = ITEM_ID) -> And | Or | Not | Condition:
    """A filter from a plain dictionary: each field is its value, or one of a list of values; all must hold.

    `id_field` is what stands for the item's own id there. A filter in its full form is taken as it is.
    """
    if any(key in given for key in ("field", "and", "or", "not")):
        return filter_from(given)
    conditions = [
        {
            "field": ITEM_ID if name == id_field else name,
            "in" if isinstance(value, list | tuple | set | frozenset) else "eq": value,
        }
        for name, value in given.items()
    ]
    return filter_from(conditions[0] if len(conditions) == 1 else {"and": conditions})


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
        """An array that has this value in it, or a text that has this stretch."""
        # Containment takes a bare value for a list of one, so the type is asked.
        is_array = func.jsonb_typeof(self.value) == "array"
        if self.holder is None:
            held = and_(self.value.op("@>", is_comparison=True)(json([value])), is_array)
        else:
            held = and_(self.holder.op("@>", is_comparison=True)(json({self.name: [value]})), is_array)
        if not isinstance(value, str):
            return held
        # Texts stand before booleans and arrays in the order of jsonb. Saying so lets a B-tree on the field tell that
        # there are none, and the other side of the OR use its own index.
        text = self.value.op("#>>", return_type=Text())(literal_column("CAST('{}' AS text[])"))
        before_arrays = self.value < literal_column("CAST('false' AS jsonb)", JSONB)
        is_text = func.jsonb_typeof(self.value) == "string"
        return or_(held, and_(before_arrays, is_text, func.strpos(text, value) > 0))

    def exists(self) -> Expression:
        return func.jsonb_typeof(self.value) != "null"


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
    own = field(given.field)
    conditions: dict[str, Callable[[Any], Expression]] = {
        "eq": own.equals,
        "ne": lambda value: denied(own.equals(value)),
        "in": own.among,
        "contains": own.contains,
        "exists": lambda value: own.exists() if value else denied(own.exists()),
        **{name: partial(own.ordered, name) for name in ORDERS},
    }
    return and_(true(), *(conditions[name](value) for name, value in given.operators().items()))


def denied(condition: Expression) -> Expression:
    """The exact opposite, missing fields included. NOT alone would leave NULL, and with it the row out."""
    return func.coalesce(condition, false()).is_(False)


def json(value: Any) -> ColumnElement[Any]:
    return literal(value, JSONB(none_as_null=True))


def type_of(value: Scalar) -> str:
    """The jsonb type of a value that has an order."""
    return "string" if isinstance(value, str) else "number"
