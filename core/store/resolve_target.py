"""The search target of a collection: its own tables, or somebody's table that it is attached to."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Select, Table, and_, select

from core.store.collections import CollectionView
from core.store.engine import Store
from core.store.indexes import indexed_vector
from core.store.names import ITEMS
from core.store.schema import ChunkSet, EmbeddingSet, chunk_table, lexeme_table, vector_table
from core.store.search_target import (
    ITEM_TABLE,
    Narrowing,
    Postings,
    SearchColumn,
    SearchTarget,
    item_field,
    item_keys_where,
    placeless,
)


def search_target(store: Store, view: CollectionView, chunks: str, model: str | None = None) -> SearchTarget:
    """The level of that name. Without a model, vectors are those of the first embedding set there is."""
    if view.row.attached is not None:
        from core.store import attached  # it is written in terms of Level

        return attached.level(store, view, model)
    chunk_set = view.chunk_set(chunks)
    embedding_set = view.embedding_set(chunk_set, model)
    columns, missing = _own_columns(store, view, chunk_set, embedding_set, model)
    details, detail_id = _item_details() if chunk_set.key == 0 else _chunk_details(chunk_set)
    return SearchTarget(
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


def documents(store: Store, view: CollectionView) -> SearchTarget:
    """The documents by their ids, to be read or listed: our items, an attached table's rows or what these are part of.

    `level` of the items is what legs search there, and of an attached table these are always its rows.
    """
    if view.row.attached is not None:
        from core.store import attached  # it is written in terms of Level

        return attached.documents(view)
    return search_target(store, view, ITEMS)


def _of_items(relation: Table) -> Narrowing:
    """How a relation whose rows carry their item's key is narrowed."""
    return lambda condition: relation.c.item_key.in_(item_keys_where(condition))


def _own_columns(
    store: Store, view: CollectionView, chunk_set: ChunkSet, embedding_set: EmbeddingSet | None, model: str | None
) -> tuple[dict[str, SearchColumn], dict[str, str]]:
    lexemes = lexeme_table(chunk_set.key)
    columns = {"lexemes": SearchColumn(lexemes, lexemes.c.id, lexemes.c.tsv, narrowing=_of_items(lexemes))}
    missing = {name: store.capabilities.missing[name] for name in ("unaccent",) if name in store.capabilities.missing}
    if "pg_trgm" in store.capabilities.missing:
        missing["text"] = store.capabilities.missing["pg_trgm"]
    else:
        columns["text"] = _text_column(chunk_set)
    if embedding_set:
        vectors = vector_table(embedding_set.key, embedding_set.dimension)
        indexed = indexed_vector(vectors.c.embedding, embedding_set)
        columns["vectors"] = SearchColumn(
            vectors, vectors.c.id, vectors.c.embedding, indexed=indexed, narrowing=_of_items(vectors)
        )
    else:
        which = f"of the model {model!r} " if model else ""
        missing["vectors"] = store.capabilities.missing.get(
            "vector",
            f"{view.name!r} has no embeddings {which}over {chunk_set.name!r}. Embed them with `rankbook data embed`.",
        )
    return columns, missing


def _text_column(chunk_set: ChunkSet) -> SearchColumn:
    if chunk_set.key == 0:
        return SearchColumn(ITEM_TABLE, ITEM_TABLE.c.id, ITEM_TABLE.c.text)
    chunks = chunk_table(chunk_set.key)
    return SearchColumn(chunks, chunks.c.id, chunks.c.text, chunks.c.level != "parent", narrowing=_of_items(chunks))


def _item_details() -> tuple[Select[Any], ColumnElement[str]]:
    items = ITEM_TABLE
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
    chunks, items = chunk_table(chunk_set.key), ITEM_TABLE
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
