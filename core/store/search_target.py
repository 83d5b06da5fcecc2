"""What a leg searches: the columns, details and filters of a collection's items or chunks, as SQL.

Types only; which tables serve a collection is decided in `core.store.resolve_target`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

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
from core.store.schema import ITEM_TABLE, any_id, chunk_table, posting_table, term_table

T = TypeVar("T")
Narrowing = Callable[[ColumnElement[bool]], ColumnElement[bool]]


def _unchanged(condition: ColumnElement[bool]) -> ColumnElement[bool]:
    return condition


class StatementCache(dict[Any, Any]):
    """Statements over parameters, kept with the search target that they are for.

    Building one often takes longer than the server's answer. A filtered target starts with an empty cache.
    """

    def once(self, key: Any, make: Callable[[], T]) -> T:
        if key not in self:
            self[key] = make()
        found: T = self[key]
        return found


@dataclass(frozen=True, slots=True)
class SearchColumn:
    """One searchable column of a relation, with the id that people see. `where` leaves out what is no unit of search.

    `indexed` is the value as an index holds it, where that differs: in half precision, say, or as bits.
    `narrowing` turns a condition on items into one on this relation's rows.
    """

    relation: FromClause
    id: ColumnElement[str]
    value: ColumnElement[Any]
    where: ColumnElement[bool] = field(default_factory=true)
    indexed: ColumnElement[Any] | None = None
    narrowing: Narrowing = _unchanged

    def filtered(self, condition: ColumnElement[bool]) -> SearchColumn:
        return replace(self, where=and_(self.where, self.narrowing(condition)))


@dataclass(frozen=True, slots=True)
class Postings:
    """What BM25 and fuzzy matching read of one chunk set. `names` maps a unit's key to its id.

    `where` leaves postings out, and does not change how often a term occurs in the whole collection (`terms`).
    `distributed` says that the tables may be in the shards of a Citus cluster.
    """

    chunk_set: int
    postings: Table
    terms: Table
    names: Table
    where: ColumnElement[bool] = field(default_factory=true)
    narrowing: Narrowing = _unchanged
    distributed: bool = False
    made: StatementCache = field(default_factory=StatementCache, init=False, compare=False, repr=False)

    @classmethod
    def of(cls, chunk_set: int, narrowing: Narrowing | None = None, *, distributed: bool = False) -> Postings:
        postings, names = posting_table(chunk_set), unit_table(chunk_set)
        among = narrowing or (lambda condition: postings.c.item_key.in_(item_keys_where(condition)))
        return cls(chunk_set, postings, term_table(chunk_set), names, narrowing=among, distributed=distributed)

    @property
    def named(self) -> ColumnElement[bool]:
        """Joins a posting's unit to its id: by key and item's key, so that a distributed join stays on its node."""
        by_item: ColumnElement[bool] = self.names.c.key == self.postings.c.key
        return by_item if self.chunk_set == 0 else and_(by_item, self.names.c.item_key == self.postings.c.item_key)

    def filtered(self, condition: ColumnElement[bool]) -> Postings:
        return replace(self, where=and_(self.where, self.narrowing(condition)))


@dataclass(frozen=True, slots=True)
class SearchTarget:
    """The units of one chunk set (or the items themselves), ready to be searched.

    `columns` holds "text", "lexemes" and "vectors", where there are such; `missing` says why another is not there.
    `details` selects all that a `Hit` says of a unit: id, item_id, title, text, metadata and its place; `detail_id` is
    the id in it. `among` is the condition for given ids, where comparing `detail_id` would leave an index unused.
    `field_of` finds a metadata field for filters; `filter` is the one that this target is filtered by.
    `sorts_on` says whether rows in the order of an index can also be sorted by id without losing the index.
    `lag` returns notes on lexemes and postings that are behind the texts, as those of an attached table can be.
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
        """The same target with only the items that the filter lets through; a second filter is added to the first."""
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
        """The same target as if these items did not exist."""
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


def item_field(name: str) -> MetadataField:
    """A metadata field of an own collection, in the form in which indexes hold it; or an item's id."""
    if name == ITEM_ID:
        return IdField(ITEM_TABLE.c.id, lambda ids: ITEM_TABLE.c.id == any_id(ids))
    return JsonField(field_value(ITEM_TABLE, name), ITEM_TABLE.c.metadata, name)


def item_keys_where(condition: ColumnElement[bool]) -> Select[Any]:
    return select(ITEM_TABLE.c.key).where(condition)


def unit_table(chunk_set: int) -> Table:
    return chunk_table(chunk_set) if chunk_set else ITEM_TABLE


def placeless() -> list[ColumnElement[Any]]:
    """The columns of `details` for the place of a unit that is a whole document: empty."""
    nothing = ("page_first", "page_last", "parent_id", "start_at", "end_at")
    return [
        literal_column("ARRAY[]::text[]").label("heading_path"),
        literal("passage").label("level"),
        *(null().label(name) for name in nothing),
    ]
