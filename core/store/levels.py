"""What legs search: where id, text, lexemes and vectors of the searchable units stand, in our tables or in somebody's.

A leg is written against a `Level` once. What a level has not got, it says why and what would help.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from pgvector.sqlalchemy import HALFVEC
from sqlalchemy import ColumnElement, FromClause, Select, Table, Text, any_, literal, literal_column, null, select, true
from sqlalchemy import cast as cast_to
from sqlalchemy.dialects.postgresql import ARRAY

from core.errors import MissingCapability
from core.store.collections import View
from core.store.engine import Store
from core.store.schema import ChunkSet, EmbeddingSet, Item, chunk_table, lexeme_table, vector_table


@dataclass(frozen=True, slots=True)
class Column:
    """One searchable column of a relation, beside the id that people see. `where` leaves out what is no unit.

    `indexed` is the value as an index holds it, where that is not the value itself: in half precision, say.
    """

    relation: FromClause
    id: ColumnElement[str]
    value: ColumnElement[Any]
    where: ColumnElement[bool] = field(default_factory=true)
    indexed: ColumnElement[Any] | None = None


@dataclass(frozen=True, slots=True)
class Level:
    """The units of one chunk set (or the items themselves), ready to be searched.

    `columns` holds "text", "lexemes" and "vectors", where there are such; `missing` says why another is not there.
    `details` selects id, item_id, title, text, metadata, heading_path, page_first and page_last of given ids.
    `among` says which rows those are, where comparing `detail_id` would leave an index unused.
    """

    namespace: str | None
    language: str
    columns: Mapping[str, Column]
    missing: Mapping[str, str]
    details: Select[Any]
    detail_id: ColumnElement[str]
    model: str | None = None
    among: Callable[[Sequence[str]], ColumnElement[bool]] | None = None

    def column(self, name: str) -> Column:
        if name not in self.columns:
            raise MissingCapability(self.missing.get(name, f"There is nothing to search {name} in."))
        return self.columns[name]

    def described(self, ids: Sequence[str]) -> Select[Any]:
        if self.among is not None:
            return self.details.where(self.among(ids))
        return self.details.where(self.detail_id == any_(literal(list(ids), ARRAY(Text(collation="C")))))


def level(store: Store, view: View, chunks: str, model: str | None = None) -> Level:
    """The level of that name. Without a model, vectors are those of the first embedding set there is."""
    if view.row.attached is not None:
        from core.store import attached  # it is written in terms of Level

        return attached.level(store, view, model)
    chunk_set = view.chunk_set(chunks)
    embedding_set = view.embedding_set(chunk_set, model)
    columns, missing = _own_columns(store, view, chunk_set, embedding_set, model)
    details, detail_id = _item_details() if chunk_set.key == 0 else _chunk_details(chunk_set)
    used = embedding_set.model if embedding_set else None
    return Level(view.namespace, view.row.language, columns, missing, details, detail_id, used)


def _own_columns(
    store: Store, view: View, chunk_set: ChunkSet, embedding_set: EmbeddingSet | None, model: str | None
) -> tuple[dict[str, Column], dict[str, str]]:
    lexemes = lexeme_table(chunk_set.key)
    columns = {"lexemes": Column(lexemes, lexemes.c.id, lexemes.c.tsv)}
    missing = {}
    if "pg_trgm" in store.capabilities.missing:
        missing["text"] = store.capabilities.missing["pg_trgm"]
    else:
        columns["text"] = _text_column(chunk_set)
    if embedding_set:
        vectors = vector_table(embedding_set.key, embedding_set.dimension)
        half = (
            cast_to(vectors.c.embedding, HALFVEC(embedding_set.dimension)) if embedding_set.index == "halfvec" else None
        )
        columns["vectors"] = Column(vectors, vectors.c.id, vectors.c.embedding, indexed=half)
    else:
        which = f"of the model {model!r} " if model else ""
        missing["vectors"] = store.capabilities.missing.get(
            "vector",
            f"{view.name!r} has no embeddings {which}over {chunk_set.name!r}. Embed them with `rankbook data embed`.",
        )
    return columns, missing


def _text_column(chunk_set: ChunkSet) -> Column:
    if chunk_set.key == 0:
        items = cast("Table", Item.__table__)
        return Column(items, items.c.id, items.c.text)
    chunks = chunk_table(chunk_set.key)
    return Column(chunks, chunks.c.id, chunks.c.text, chunks.c.level != "parent")


def _item_details() -> tuple[Select[Any], ColumnElement[str]]:
    items = cast("Table", Item.__table__)
    return (
        select(
            items.c.id,
            items.c.id.label("item_id"),
            items.c.title,
            items.c.text,
            items.c.metadata,
            literal_column("ARRAY[]::text[]").label("heading_path"),
            null().label("page_first"),
            null().label("page_last"),
        ),
        items.c.id,
    )


def _chunk_details(chunk_set: ChunkSet) -> tuple[Select[Any], ColumnElement[str]]:
    chunks, items = chunk_table(chunk_set.key), cast("Table", Item.__table__)
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
        ).join_from(chunks, items, items.c.key == chunks.c.item_key),
        chunks.c.id,
    )
