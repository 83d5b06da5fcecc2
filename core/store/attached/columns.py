"""Columns of an attached table as the legs need them: keys, texts, metadata and vectors in SQL; values read back."""

from __future__ import annotations

import re
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import cached_property
from typing import Any

from pgvector.sqlalchemy import HALFVEC, VECTOR
from sqlalchemy import (
    BigInteger,
    ColumnClause,
    ColumnElement,
    Date,
    DateTime,
    Numeric,
    Select,
    Table,
    TableClause,
    Text,
    Uuid,
    and_,
    any_,
    case,
    column,
    false,
    func,
    literal,
    literal_column,
    not_,
    null,
    or_,
    select,
    table,
    true,
)
from sqlalchemy import BigInteger as Integer
from sqlalchemy import Boolean as Truth
from sqlalchemy import cast as sql_cast
from sqlalchemy.dialects.postgresql import ARRAY, JSON, JSONB, REGCONFIG, TSVECTOR, aggregate_order_by, array
from sqlalchemy.sql.expression import quoted_name
from sqlalchemy.types import UserDefinedType

from core.errors import MissingCapability, UnknownName
from core.filters import ITEM_ID, ORDERS, Expression, IdField, JsonField, MetadataField, Scalar
from core.store.attached.mapping import AttachedTable, TableFacts
from core.store.search_target import Narrowing, placeless

INTEGERS = ("smallint", "integer", "bigint")
TEXTS = ("text", "character varying")
TIMES = ("timestamp without time zone", "timestamp with time zone")
LARGEST_INTEGER = 2**63 - 1
NUL_IN_JSON = r"%\\u0000%"  # LIKE takes one backslash off


def field_of(
    mapping: AttachedTable, name: str, column: ColumnElement[Any] | None, kind: str, whole: ColumnElement[Any]
) -> MetadataField:
    """The metadata field of that name. `column`, of the type `kind`, is the mapped column that holds it; `whole` is all
    metadata as one object.
    """
    if mapping.metadata is None:
        raise MissingCapability(
            f"{mapping.full_name} is attached without metadata, so there is nothing to filter by. Attach it again with "
            "--metadata."
        )
    if column is None:
        raise UnknownName(f"metadata column of {mapping.full_name}", name, mapping.metadata)
    if not isinstance(mapping.metadata, str):
        return ColumnField(column, kind)
    holder = whole if name == mapping.metadata else column  # what is no object stands under the column's name
    held = holder.op("->", return_type=JSONB())(literal(name, Text))
    if kind != "jsonb":
        return JsonField(without_nul(column, sql_cast(held, JSONB)))
    return JsonField(held) if name == mapping.metadata else JsonField(held, column, name, sought_in_holder=True)


def without_nul(column: ColumnElement[Any], value: ColumnElement[Any]) -> ColumnElement[Any]:
    """The value, or NULL where the json column holds a NUL: reading any of its keys would fail then."""
    holds = sql_cast(column, Text).like(literal(NUL_IN_JSON, Text, literal_execute=True))
    return case((holds, null()), else_=value)


@dataclass(frozen=True, slots=True)
class ColumnField:
    """A column that is one metadata field.

    Values that its type does not have are compared as JSON, so that a filter means the same everywhere.
    """

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
        return _native_text(kind, value)
    if kind in INTEGERS and isinstance(value, int) and abs(value) <= LARGEST_INTEGER:
        return literal(value, Integer)
    if kind in (*INTEGERS, "numeric"):
        return literal(Decimal(str(value)), Numeric)
    return None


def _native_text(kind: str, value: str) -> ColumnElement[Any] | None:
    """A text, a date, or a moment. A moment without a zone is taken for UTC, as is a column without one."""
    if kind in TEXTS:
        return literal(value, Text)
    try:
        if kind == "date" and len(value) == len("2024-01-01"):
            return literal(date.fromisoformat(value), Date)
        if kind not in TIMES:
            return None
        moment = datetime.fromisoformat(value)
        aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        if kind == "timestamp with time zone":
            return literal(aware, DateTime(timezone=True))
        return literal(aware.astimezone(UTC).replace(tzinfo=None), DateTime(timezone=False))
    except ValueError:
        return None


BETWEEN_ROWS = "\n\n"  # of one document


class ServerType(UserDefinedType[Any]):
    """A type by the name that the server gave it."""

    cache_ok = True

    def __init__(self, name: str) -> None:
        self.name = name

    def get_col_spec(self, **_: Any) -> str:
        return self.name.replace("%", "%%")  # the driver reads a percent sign as the beginning of a placeholder


@dataclass(frozen=True)
class AttachedColumns:
    """The mapped table as SQL expressions, all over one and the same relation."""

    mapping: AttachedTable
    facts: TableFacts

    @cached_property
    def relation(self) -> TableClause:
        """The table. Not SQLAlchemy's Table: its schema would be translated if it were called as our placeholder is."""

        def typed(name: str) -> ColumnClause[Any]:
            if name != self.mapping.embedding:
                return column(quoted_name(name, True), self.type_of(name))
            kind = HALFVEC if self._kind(name) == "halfvec" else VECTOR
            return column(quoted_name(name, True), kind(self.facts.dimension))

        schema = quoted_name(self.mapping.namespace, True)
        return table(quoted_name(self.mapping.table, True), *map(typed, self.facts.types), schema=schema)

    def type_of(self, name: str) -> ServerType:
        return ServerType(self.facts.types[name])

    def raw(self, name: str) -> ColumnElement[Any]:
        """A mapped column as it stands."""
        found: ColumnElement[Any] = self.relation.c[name]
        return found

    @property
    def id(self) -> ColumnElement[str]:
        return sql_cast(self.raw(self.mapping.id), Text).collate("C")

    @cached_property
    def _parent(self) -> ColumnElement[str] | None:
        """The id of a row's document as the row gives it. Keys are written out, as an index on the path has them."""
        if self.mapping.parent is None:
            return None
        name, *keys = (self.mapping.parent,) if isinstance(self.mapping.parent, str) else self.mapping.parent
        value = self.raw(name)
        if not keys:
            return sql_cast(value, Text)
        for at, key in enumerate(keys, start=1):
            step = "->>" if at == len(keys) else "->"
            value = value.op(step, return_type=Text())(literal(key, Text, literal_execute=True))
        return value if self._kind(name) == "jsonb" else without_nul(self.raw(name), value)

    @property
    def _parentless(self) -> ColumnElement[bool]:
        """Rows that name no document. Where a node has none, LlamaIndex writes the word None into its JSON."""
        parent = func.coalesce(self._parent, literal_column("''", Text))
        if isinstance(self.mapping.parent, tuple):
            return parent.in_([literal_column("''", Text), literal_column("'None'", Text)])
        return parent == literal_column("''", Text)

    @property
    def document(self) -> ColumnElement[str]:
        """The id of the document that a row is part of: its own, where it names none."""
        if self._parent is None:
            return self.id
        return case((self._parentless, self.id), else_=self._parent.collate("C"))

    @property
    def title(self) -> ColumnElement[str]:
        if self.mapping.title is None:
            return literal_column("''", Text)
        return func.coalesce(sql_cast(self.raw(self.mapping.title), Text), "")

    @property
    def text(self) -> ColumnElement[str]:
        return sql_cast(self.raw(self.mapping.text), Text)

    @property
    def lexemes(self) -> ColumnElement[Any]:
        """The mapped tsvector, or the expression that an index would be on: its configuration is a constant."""
        if self.mapping.tsv is not None:
            return sql_cast(self.raw(self.mapping.tsv), TSVECTOR)
        configuration = sql_cast(literal(self.mapping.language, Text, literal_execute=True), REGCONFIG)
        return func.to_tsvector(configuration, self.text, type_=TSVECTOR)

    @property
    def vectors(self) -> ColumnElement[Any]:
        """A column without a dimension can bear an index only as a cast to one, so that is what is searched."""
        stored = self._embedding()
        if self.facts.fixed or self.facts.dimension is None:
            return stored
        return sql_cast(stored, stored.type)

    def _embedding(self) -> ColumnElement[Any]:
        return self.raw(self.mapping.embedding or "")

    def _kind(self, name: str) -> str:
        return self.facts.types[name].rpartition(".")[2]

    @property
    def metadata(self) -> ColumnElement[Any]:
        """Always an object: other JSON stands in one, under the column's name."""
        if self.mapping.metadata is None:
            return literal_column("CAST('{}' AS jsonb)", JSONB)
        if not isinstance(self.mapping.metadata, str):
            pairs = [part for name in self.mapping.metadata for part in (literal(name), self.raw(name))]
            return func.jsonb_build_object(*pairs, type_=JSONB)
        name = self.mapping.metadata
        kind, stored = self._kind(name), self.raw(name)
        type_ = JSONB() if kind == "jsonb" else JSON()  # a json may hold \u0000, which no jsonb can
        build, type_of = getattr(func, f"{kind}_build_object"), getattr(func, f"{kind}_typeof")
        return case(
            (stored.is_(None), sql_cast(literal_column("'{}'"), type_)),
            (type_of(stored) == "object", sql_cast(stored, type_)),
            else_=build(literal(name), stored, type_=type_),
        )

    @property
    def conditions(self) -> ColumnElement[bool]:
        conditions = [
            self.raw(name) == sql_cast(literal(written(value), Text), self.type_of(name))
            for name, value in self.mapping.where.items()
        ]
        return and_(true(), *conditions)

    @property
    def where(self) -> ColumnElement[bool]:
        """The rows that belong to the collection. A row without an id, added since the attachment, does not."""
        return and_(self.conditions, self.raw(self.mapping.id).is_not(None))

    @property
    def has_vector(self) -> ColumnElement[bool]:
        """The rows that the vector leg may compare: all of one dimension, which not every type ensures."""
        stored = self._embedding()
        present = and_(self.where, stored.is_not(None))
        if self.facts.fixed or self.facts.dimension is None:
            return present
        return and_(present, func.vector_dims(stored) == self.facts.dimension)

    def among(self, ids: Sequence[str]) -> ColumnElement[bool]:
        """The rows of these ids."""
        return and_(self.where, self._any_of(self.mapping.id, ids))

    def parts_of(self, documents: Sequence[str]) -> ColumnElement[bool]:
        """The rows that are part of these documents."""
        if self._parent is None:
            return self.among(documents)
        if isinstance(self.mapping.parent, str):
            named = self._any_of(self.mapping.parent, documents)
        else:
            named = self._parent == any_(literal(list(documents), ARRAY(Text)))
        alone = and_(self._parentless, self._any_of(self.mapping.id, documents))
        return and_(self.where, or_(and_(named, not_(self._parentless)), alone))

    def _any_of(self, name: str, values: Sequence[str]) -> ColumnElement[bool]:
        """Compared in the column's own type, so that its index is used."""
        stored, kind = self.raw(name), self._kind(name)
        if kind in INTEGERS:  # an id that no integer is written as cannot be in the column
            numbers = [int(each) for each in values if re.fullmatch(r"0|-?[1-9][0-9]{0,18}", each)]
            fitting = [each for each in numbers if abs(each) <= LARGEST_INTEGER]
            return stored == any_(literal(fitting, ARRAY(BigInteger)))
        if kind == "uuid":
            return stored == any_(literal(_uuids(values), ARRAY(Uuid)))
        if kind in TEXTS:
            return stored == any_(literal(list(values), ARRAY(Text)))
        return sql_cast(stored, Text).collate("C") == any_(literal(list(values), ARRAY(Text)))

    def field(self, name: str) -> MetadataField:
        """A field for filters: the id, a key of the JSON column, or one of the listed columns."""
        if name == ITEM_ID:
            return IdField(self.document, self.parts_of)
        mapped = self.mapping.metadata
        inside = mapped if isinstance(mapped, str) else name if name in (mapped or ()) else None
        column = None if inside is None else self.raw(inside)
        return field_of(self.mapping, name, column, "" if inside is None else self._kind(inside), self.metadata)

    def narrow_side_table(self, side_table: Table) -> Narrowing:
        """How a condition on the attached rows narrows a table built beside them: by the rows' ids."""
        rows = select(self.id).select_from(self.relation).where(self.where)
        return lambda condition: side_table.c.id.in_(rows.where(condition))

    def details(self) -> Select[Any]:
        return select(
            self.id.label("id"),
            self.document.label("item_id"),
            self.title.label("title"),
            func.coalesce(self.text, "").label("text"),
            self.metadata.label("metadata"),
            *placeless(),
        ).select_from(self.relation)

    def documents(self) -> Select[Any]:
        """Details of whole documents: each a row, or the rows that are part of it, in the order of their ids."""
        if self.mapping.parent is None:
            return self.details().where(self.where)
        first, text = self.raw(self.mapping.id), func.coalesce(self.text, literal_column("''", Text))
        title = sql_cast(self.title, Text)
        titles = func.array_agg(aggregate_order_by(title, title == literal_column("''", Text), first))
        metadata = func.array_agg(aggregate_order_by(self.metadata, first))
        return (
            select(
                self.document.label("id"),
                self.document.label("item_id"),
                titles[1].label("title"),
                func.string_agg(text, aggregate_order_by(literal(BETWEEN_ROWS, Text), first)).label("text"),
                metadata[1].label("metadata"),
                *placeless(),
            )
            .select_from(self.relation)
            .where(self.where)
            .group_by(self.document)
        )

    def parts(self, documents: Sequence[str]) -> Select[Any]:
        """The details of these documents' rows, in the order in which `documents` joins them."""
        return self.details().where(self.parts_of(documents)).order_by(self.raw(self.mapping.id))

    def digested(self) -> Select[Any]:
        """Each row's id, title and text, with a digest of title and text."""
        title, words = self.title, func.coalesce(self.text, literal_column("''", Text))
        digest = func.decode(func.md5(func.concat(func.length(title), " ", title, words)), literal_column("'hex'"))
        return (
            select(self.id.label("id"), title.label("title"), words.label("text"), digest.label("digest"))
            .select_from(self.relation)
            .where(self.where)
        )

    def counted(self) -> Select[Any]:
        return select(func.count()).select_from(self.relation).where(self.where)

    def repeated_ids(self) -> Any:
        """An id that several rows have, or NULL where a row has none."""
        counted, stored = func.count().label("count"), self.raw(self.mapping.id)
        rows = select(sql_cast(stored, Text).label("id"), counted).select_from(self.relation).where(self.conditions)
        return rows.group_by(stored).having(or_(counted > 1, stored.is_(None))).limit(1)

    def sampled_dimension(self) -> Select[Any]:
        stored = self._embedding()
        return select(func.vector_dims(stored)).where(self.where, stored.is_not(None)).limit(1)


def written(value: str | float | bool) -> str:
    """As the server's input functions read it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _uuids(ids: Sequence[str]) -> list[uuid.UUID]:
    """Those that are a uuid as PostgreSQL writes it."""
    found = []
    for each in ids:
        try:
            made = uuid.UUID(each)
        except ValueError:
            continue
        if str(made) == each:
            found.append(made)
    return found
