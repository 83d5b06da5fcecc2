"""What legs search: where id, text, lexemes and vectors of the searchable units stand, in our tables or in somebody's.

A leg is written against a `Level` once, and need not know of filters: a level narrowed by one has them in each
column's `where`. What a level has not got, it says why and what would help.
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
from core.store.collections import View
from core.store.engine import Store
from core.store.indexes import field_value, indexed_vector
from core.store.names import ITEMS
from core.store.schema import (
    ChunkSet,
    EmbeddingSet,
    Item,
    any_id,
    chunk_table,
    lexeme_table,
    posting_table,
    term_table,
    vector_table,
)

T = TypeVar("T")
Narrowing = Callable[[ColumnElement[bool]], ColumnElement[bool]]


def _as_it_is(condition: ColumnElement[bool]) -> ColumnElement[bool]:
    return condition


class Made(dict[Any, Any]):
    """Statements over parameters, kept by whoever asks the same of one level again and again.

    To write one takes longer than the server often takes to answer. A level narrowed by a filter begins anew.
    """

    def once(self, key: Any, make: Callable[[], T]) -> T:
        if key not in self:
            self[key] = make()
        found: T = self[key]
        return found


@dataclass(frozen=True, slots=True)
class Column:
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

    def narrowed(self, condition: ColumnElement[bool]) -> Column:
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
    made: Made = field(default_factory=Made, init=False, compare=False, repr=False)

    @classmethod
    def of(cls, chunk_set: int, narrowing: Narrowing | None = None, *, distributed: bool = False) -> Postings:
        postings, names = posting_table(chunk_set), _units(chunk_set)
        among = narrowing or (lambda condition: postings.c.item_key.in_(_item_keys(condition)))
        return cls(chunk_set, postings, term_table(chunk_set), names, narrowing=among, distributed=distributed)

    @property
    def named(self) -> ColumnElement[bool]:
        """What joins a posting's unit to its id: key and item's key, so that a distributed join stays in its place."""
        by_item: ColumnElement[bool] = self.names.c.key == self.postings.c.key
        return by_item if self.chunk_set == 0 else and_(by_item, self.names.c.item_key == self.postings.c.item_key)

    def narrowed(self, condition: ColumnElement[bool]) -> Postings:
        return replace(self, where=and_(self.where, self.narrowing(condition)))


@dataclass(frozen=True, slots=True)
class Level:
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
    columns: Mapping[str, Column]
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
    made: Made = field(default_factory=Made, init=False, compare=False, repr=False)

    def narrowed(self, filter: And | Or | Not | Condition | None) -> Level:  # noqa: A002 - what it is called everywhere
        """The same level, of the items only that the filter lets through. Narrowed twice, both filters hold."""
        if filter is None:
            return self
        if self.field_of is None:
            raise MissingCapability("Nothing here has metadata, so there is nothing to filter by.")
        condition = compiled(filter, self.field_of)
        return replace(
            self,
            columns={name: each.narrowed(condition) for name, each in self.columns.items()},
            lexicon=self.lexicon.narrowed(condition) if self.lexicon else None,
            filter=filter if self.filter is None else And.model_construct(and_=(self.filter, filter)),
        )

    def without(self, items: Collection[str]) -> Level:
        """The same level as though these items were not there."""
        return self.narrowed(without_items(items)) if items else self

    @property
    def postings(self) -> Postings:
        if self.lexicon is None:
            raise MissingCapability(self.missing.get("postings", "There are no postings to search in."))
        return self.lexicon

    def column(self, name: str) -> Column:
        if name not in self.columns:
            raise MissingCapability(self.missing.get(name, f"There is nothing to search {name} in."))
        return self.columns[name]

    def described(self, ids: Sequence[str]) -> Select[Any]:
        if self.among is not None:
            return self.details.where(self.among(ids))
        return self.details.where(self.detail_id == any_id(ids))


def level(store: Store, view: View, chunks: str, model: str | None = None) -> Level:
    """The level of that name. Without a model, vectors are those of the first embedding set there is."""
    if view.row.attached is not None:
        from core.store import attached  # it is written in terms of Level

        return attached.level(store, view, model)
    chunk_set = view.chunk_set(chunks)
    embedding_set = view.embedding_set(chunk_set, model)
    columns, missing = _own_columns(store, view, chunk_set, embedding_set, model)
    details, detail_id = _item_details() if chunk_set.key == 0 else _chunk_details(chunk_set)
    return Level(
        view.namespace,
        view.row.language,
        columns,
        missing,
        details,
        detail_id,
        embedding_set.model if embedding_set else None,
        lexicon=Postings.of(chunk_set.key, distributed=store.capabilities.distributed),
        index=embedding_set.index if embedding_set else "vector",
        extensions=frozenset(store.capabilities.extensions),
        sorts_on=store.capabilities.sorts_on,
        field_of=item_field,
    )


def documents(store: Store, view: View) -> Level:
    """The documents by their ids, to be read or listed: our items, an attached table's rows or what these are part of.

    `level` of the items is what legs search there, and of an attached table these are always its rows.
    """
    if view.row.attached is not None:
        from core.store import attached  # it is written in terms of Level

        return attached.documents(view)
    return level(store, view, ITEMS)


_ITEMS = cast("Table", Item.__table__)


def item_field(name: str) -> MetadataField:
    """A metadata field of a collection of our own, in the form in which indexes hold it; or an item's id."""
    if name == ITEM_ID:
        return IdField(_ITEMS.c.id, lambda ids: _ITEMS.c.id == any_id(ids))
    return JsonField(field_value(_ITEMS, name), _ITEMS.c.metadata, name)


def _item_keys(condition: ColumnElement[bool]) -> Select[Any]:
    return select(_ITEMS.c.key).where(condition)


def _of_items(relation: Table) -> Narrowing:
    """How a relation whose rows carry their item's key is narrowed."""
    return lambda condition: relation.c.item_key.in_(_item_keys(condition))


def _units(chunk_set: int) -> Table:
    return chunk_table(chunk_set) if chunk_set else _ITEMS


def _own_columns(
    store: Store, view: View, chunk_set: ChunkSet, embedding_set: EmbeddingSet | None, model: str | None
) -> tuple[dict[str, Column], dict[str, str]]:
    lexemes = lexeme_table(chunk_set.key)
    columns = {"lexemes": Column(lexemes, lexemes.c.id, lexemes.c.tsv, narrowing=_of_items(lexemes))}
    missing = {name: store.capabilities.missing[name] for name in ("unaccent",) if name in store.capabilities.missing}
    if "pg_trgm" in store.capabilities.missing:
        missing["text"] = store.capabilities.missing["pg_trgm"]
    else:
        columns["text"] = _text_column(chunk_set)
    if embedding_set:
        vectors = vector_table(embedding_set.key, embedding_set.dimension)
        indexed = indexed_vector(vectors.c.embedding, embedding_set)
        columns["vectors"] = Column(
            vectors, vectors.c.id, vectors.c.embedding, indexed=indexed, narrowing=_of_items(vectors)
        )
    else:
        which = f"of the model {model!r} " if model else ""
        missing["vectors"] = store.capabilities.missing.get(
            "vector",
            f"{view.name!r} has no embeddings {which}over {chunk_set.name!r}. Embed them with `rankbook data embed`.",
        )
    return columns, missing


def _text_column(chunk_set: ChunkSet) -> Column:
    if chunk_set.key == 0:
        return Column(_ITEMS, _ITEMS.c.id, _ITEMS.c.text)
    chunks = chunk_table(chunk_set.key)
    return Column(chunks, chunks.c.id, chunks.c.text, chunks.c.level != "parent", narrowing=_of_items(chunks))


def placeless() -> list[ColumnElement[Any]]:
    """What details say of the place of a unit that is a whole: nothing."""
    nothing = ("page_first", "page_last", "parent_id", "start_at", "end_at")
    return [
        literal_column("ARRAY[]::text[]").label("heading_path"),
        literal("passage").label("level"),
        *(null().label(name) for name in nothing),
    ]


def _item_details() -> tuple[Select[Any], ColumnElement[str]]:
    items = _ITEMS
    return (
        select(
            items.c.id,
            items.c.id.label("item_id"),
            items.c.title,
            items.c.text,
            items.c.metadata,
            *placeless(),
        ),
        items.c.id,
    )


def _chunk_details(chunk_set: ChunkSet) -> tuple[Select[Any], ColumnElement[str]]:
    chunks, items = chunk_table(chunk_set.key), _ITEMS
    parents = chunks.alias("parent")
    is_parent = and_(parents.c.item_key == chunks.c.item_key, parents.c.key == chunks.c.parent_key)
    return (
        select(
            chunks.c.id,
            items.c.id.label("item_id"),
            items.c.title,
            chunks.c.text,
            items.c.metadata,
            chunks.c.heading_path,
            chunks.c.page_first,
            chunks.c.page_last,
            chunks.c.level,
            parents.c.id.label("parent_id"),
            chunks.c.start_at,
            chunks.c.end_at,
        )
        .join_from(chunks, items, items.c.key == chunks.c.item_key)
        .outerjoin(parents, is_parent),
        chunks.c.id,
    )
