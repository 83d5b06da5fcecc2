"""The search target of a collection: its own tables, or the table that it is attached to."""

from __future__ import annotations

from sqlalchemy import Table, and_, select

from core.store import attached
from core.store.collections import CollectionView
from core.store.engine import Store
from core.store.indexes import indexed_vector
from core.store.names import ITEMS
from core.store.schema import ITEM_TABLE, chunk_table, lexeme_table, vector_table
from core.store.search_target import (
    Narrowing,
    Postings,
    SearchColumn,
    SearchTarget,
    item_field,
    item_keys_where,
    placeless,
)


def search_target(store: Store, view: CollectionView, chunks: str, model: str | None = None) -> SearchTarget:
    """The units of that chunk set. Without a model, vectors are those of the first embedding set there is."""
    if view.row.attached is not None:
        return attached.search_target(store, view, model)
    chunk_set, capabilities = view.chunk_set(chunks), store.capabilities
    embedding_set = view.embedding_set(chunk_set, model)
    lexemes, units = lexeme_table(chunk_set.key), chunk_table(chunk_set.key)
    columns = {"lexemes": SearchColumn(lexemes, lexemes.c.id, lexemes.c.tsv, narrowing=_of_items(lexemes))}
    missing = {name: capabilities.missing[name] for name in ("unaccent",) if name in capabilities.missing}
    if "pg_trgm" in capabilities.missing:
        missing["text"] = capabilities.missing["pg_trgm"]
    elif chunk_set.key == 0:
        columns["text"] = SearchColumn(ITEM_TABLE, ITEM_TABLE.c.id, ITEM_TABLE.c.text)
    else:
        columns["text"] = SearchColumn(
            units, units.c.id, units.c.text, units.c.level != "parent", narrowing=_of_items(units)
        )
    if embedding_set:
        vectors = vector_table(embedding_set.key, embedding_set.dimension)
        indexed = indexed_vector(vectors.c.embedding, embedding_set)
        columns["vectors"] = SearchColumn(
            vectors, vectors.c.id, vectors.c.embedding, indexed=indexed, narrowing=_of_items(vectors)
        )
    else:
        which = f"of the model {model!r} " if model else ""
        missing["vectors"] = capabilities.missing.get(
            "vector",
            f"{view.name!r} has no embeddings {which}over {chunk_set.name!r}. Embed them with `rankbook data embed`.",
        )
    items = ITEM_TABLE.c
    if chunk_set.key == 0:
        of_item = (items.id, items.id.label("item_id"), items.title, items.text, items.metadata)
        details, detail_id = select(*of_item, *placeless()), items.id
    else:
        parents = units.alias("parent")
        is_parent = and_(parents.c.item_key == units.c.item_key, parents.c.key == units.c.parent_key)
        of_chunk = (
            units.c.id,
            items.id.label("item_id"),
            items.title,
            units.c.text,
            items.metadata,
            units.c.heading_path,
            units.c.page_first,
            units.c.page_last,
            units.c.level,
            parents.c.id.label("parent_id"),
            units.c.start_at,
            units.c.end_at,
        )
        joined = select(*of_chunk).join_from(units, ITEM_TABLE, items.key == units.c.item_key)
        details, detail_id = joined.outerjoin(parents, is_parent), units.c.id
    return SearchTarget(
        view.namespace,
        view.row.language,
        columns,
        missing,
        details,
        detail_id,
        embedding_set.model if embedding_set else None,
        lexicon=Postings.of(chunk_set.key, distributed=capabilities.distributed),
        index=embedding_set.index if embedding_set else "vector",
        extensions=frozenset(capabilities.extensions),
        sorts_on=capabilities.sorts_on,
        field_of=item_field,
    )


def documents(store: Store, view: CollectionView) -> SearchTarget:
    """The documents by their ids, to be read or listed: items, or the documents that an attached table's rows make up.

    Of an attached table, `search_target` gives the rows instead.
    """
    if view.row.attached is not None:
        return attached.documents(view)
    return search_target(store, view, ITEMS)


def _of_items(relation: Table) -> Narrowing:
    """How a condition on items narrows a relation whose rows carry their item's key."""
    return lambda condition: relation.c.item_key.in_(item_keys_where(condition))
