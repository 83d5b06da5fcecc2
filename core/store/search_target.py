"""What a leg searches: the columns, details and filters of a collection's items or chunks, as SQL.

Types only; which tables serve a collection is decided in `core.store.resolve_target`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, cast

from sqlalchemy import (
    ColumnElement,
    FromClause,
    Select,
    Table,
    and_,
    literal,
    literal_column,
    null,
    select,
    true,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from core.errors import MissingCapability
from core.filters import ITEM_ID, And, Condition, IdField, JsonField, MetadataField, Not, Or, compiled, without_items
from core.store.indexes import field_value
from core.store.schema import ItemRow, any_id, chunk_table, posting_table, term_table

T = TypeVar("T")
Narrowing = Callable[[ColumnElement[bool]], ColumnElement[bool]]


def _as_it_is(condition: ColumnElement[bool]) -> ColumnElement[bool]:
    return condition


class StatementCache(dict[Any, Any]):
    """Statements over parameters, kept by whoever asks the same of one level again and again.

    To write one takes longer than the server often takes to answer. A level narrowed by a filter begins anew.
    """

    def once(self, key: Any, make: Callable[[], T]) -> T:
        if key not in self:
            self[key] = make()
        found: T = self[key]
        return found


@dataclass(frozen=True, slots=True)
class SearchColumn:
    """One searchable column of a relation, beside the id that people see. `where` leaves out what is no unit.

    `indexed` is the value as an index holds it, where that is not the value itself: in half precision, say, or as bits.
    `narrowing` makes a condition on the items' metadata one on this relation's rows.
    """

    relation: FromClause
    id: ColumnElement[str]
    value: ColumnElement[Any]
    where: ColumnElement[bool] = field(default_factory=true)
    indexed: ColumnElement[Any] | None = None
    narrowing: Narrowing = _as_it_is

    def filtered(self, condition: ColumnElement[bool]) -> SearchColumn:
        return replace(self, where=and_(self.where, self.narrowing(condition)))


@dataclass(frozen=True, slots=True)
class Postings:
    """What BM25 and fuzzy matching read of one chunk set. `names` tells the id of the unit that has a key.

    `where` leaves postings out; how often a term occurs in the collection as a whole (`terms`) it does not change.
    `distributed` says that the tables may stand in the shards of a Citus cluster.
    """

    chunk_set: int
    postings: Table
    terms: Table
    names: Table
    where: ColumnElement[bool] = field(default_factory=true)
    narrowing: Narrowing = _as_it_is
    distributed: bool = False
    made: StatementCache = field(default_factory=StatementCache, init=False, compare=False, repr=False)

    @classmethod
    def of(cls, chunk_set: int, narrowing: Narrowing | None = None, *, distributed: bool = False) -> Postings:
        postings, names = posting_table(chunk_set), unit_table(chunk_set)
        among = narrowing or (lambda condition: postings.c.item_key.in_(item_keys_where(condition)))
        return cls(chunk_set, postings, term_table(chunk_set), names, narrowing=among, distributed=distributed)

    @property
    def named(self) -> ColumnElement[bool]:
        """What joins a posting's unit to its id: key and item's key, so that a distributed join stays in its place."""
        by_item: ColumnElement[bool] = self.names.c.key == self.postings.c.key
        return by_item if self.chunk_set == 0 else and_(by_item, self.names.c.item_key == self.postings.c.item_key)

    def filtered(self, condition: ColumnElement[bool]) -> Postings:
        return replace(self, where=and_(self.where, self.narrowing(condition)))


@dataclass(frozen=True, slots=True)
class SearchTarget:
    """The units of one chunk set (or the items themselves), ready to be searched.

    `columns` holds "text", "lexemes" and "vectors", where there are such; `missing` says why another is not there.
    `details` selects, of given ids, all that a `Hit` says of a unit: id, item_id, title, text, metadata and its place.
    `among` says which rows those are, where comparing `detail_id` would leave an index unused.
    `field_of` finds a metadata field for filters; `filter` is the one that this level is narrowed by.
    `sorts_on` says whether rows in the order of an index are sorted by id too without the index being lost.
    `lag` asks whether lexemes and postings are behind the texts, which they can be where somebody else writes these.
    """

    namespace: str | None
    language: str
    columns: Mapping[str, SearchColumn]
    missing: Mapping[str, str]
    details: Select[Any]
    detail_id: ColumnElement[str]
    model: str | None = None
    among: Callable[[Sequence[str]], ColumnElement[bool]] | None = None
    lexicon: Postings | None = None
    index: str = "vector"
    extensions: Collection[str] = ()
    sorts_on: bool = True
    field_of: Callable[[str], MetadataField] | None = None
    filter: And | Or | Not | Condition | None = None
    lag: Callable[[AsyncConnection], Awaitable[tuple[str, ...]]] | None = None
    made: StatementCache = field(default_factory=StatementCache, init=False, compare=False, repr=False)

    def filtered(self, filter: And | Or | Not | Condition | None) -> SearchTarget:  # noqa: A002 - what it is called everywhere
        """The same level, of the items only that the filter lets through. Narrowed twice, both filters hold."""
        if filter is None:
            return self
        if self.field_of is None:
            raise MissingCapability("Nothing here has metadata, so there is nothing to filter by.")
        condition = compiled(filter, self.field_of)
        return replace(
            self,
            columns={name: each.filtered(condition) for name, each in self.columns.items()},
            lexicon=self.lexicon.filtered(condition) if self.lexicon else None,
            filter=filter if self.filter is None else And.model_construct(and_=(self.filter, filter)),
        )

    def without(self, items: Collection[str]) -> SearchTarget:
        """The same level as though these items were not there."""
        return self.filtered(without_items(items)) if items else self

    @property
    def postings(self) -> Postings:
        if self.lexicon is None:
            raise MissingCapability(self.missing.get("postings", "There are no postings to search in."))
        return self.lexicon

    def column(self, name: str) -> SearchColumn:
        if name not in self.columns:
            raise MissingCapability(self.missing.get(name, f"There is nothing to search {name} in."))
        return self.columns[name]

    def described(self, ids: Sequence[str]) -> Select[Any]:
        if self.among is not None:
            return self.details.where(self.among(ids))
        return self.details.where(self.detail_id == any_id(ids))


ITEM_TABLE = cast("Table", ItemRow.__table__)


def item_field(name: str) -> MetadataField:
    """A metadata field of a collection of our own, in the form in which indexes hold it; or an item's id."""
    if name == ITEM_ID:
        return IdField(ITEM_TABLE.c.id, lambda ids: ITEM_TABLE.c.id == any_id(ids))
    return JsonField(field_value(ITEM_TABLE, name), ITEM_TABLE.c.metadata, name)


def item_keys_where(condition: ColumnElement[bool]) -> Select[Any]:
    return select(ITEM_TABLE.c.key).where(condition)


def unit_table(chunk_set: int) -> Table:
    return chunk_table(chunk_set) if chunk_set else ITEM_TABLE


def placeless() -> list[ColumnElement[Any]]:
    """What details say of the place of a unit that is a whole: nothing."""
    nothing = ("page_first", "page_last", "parent_id", "start_at", "end_at")
    return [
        literal_column("ARRAY[]::text[]").label("heading_path"),
        literal("passage").label("level"),
        *(null().label(name) for name in nothing),
    ]
