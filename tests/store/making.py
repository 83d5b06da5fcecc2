"""Small collections on the real server, and what stands in one, told without the keys inside."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from sqlalchemy import Executable, Table, text
from sqlalchemy.ext.asyncio import AsyncConnection

from core import bridge
from core.embedding import Embedder
from core.store import collections
from core.store.collections import CollectionView
from core.store.engine import Store
from core.store.indexes import Explain, values_in_place
from core.store.ingest import Ingest, IngestReport
from core.store.names import written
from core.store.schema import (
    ChunkSet,
    chunk_table,
    lexeme_table,
    posting_table,
    term_table,
    vector_table,
)
from core.store.schema import ItemRow as StoredItem
from core.store.verify import verify
from core.types import Item
from tests.conftest import OURS
from tests.fakes import HashingEmbedder, rows

FIXED = {"kind": "fixed", "max_tokens": 8, "overlap": 0}
FAMILY = {"kind": "parent_child", "parents": "tokens", "parent_tokens": 12, "child_tokens": 4}


def some_name() -> str:
    return f"{OURS}{uuid.uuid4().hex[:12]}"


def make(
    store: Store,
    name: str,
    embedders: Sequence[Embedder] = (),
    chunks: Mapping[str, Mapping[str, Any]] | None = None,
    *,
    index: str = "vector",
    **options: Any,
) -> CollectionView:
    """A collection with chunk sets, every one of them and the items embedded with every model."""

    async def work() -> CollectionView:
        view = await collections.create(store, name, **options)
        for chunk_set, chunker in ({"small": FIXED} if chunks is None else chunks).items():
            view = await collections.add_chunk_set(store, view, chunk_set, chunker)
        for each in embedders:
            for known in view.chunk_sets:
                view = await collections.add_embedding_set(store, view, known, each.model, each.dimension, index=index)
        return view

    return bridge.run(work())


def is_superuser(store: Store) -> bool:
    async def work() -> bool:
        async with store.begin() as connection:
            return bool(await connection.scalar(text("SELECT usesuper FROM pg_user WHERE usename = current_user")))

    return bridge.run(work())


def fresh(store: Store, name: str) -> CollectionView:
    return bridge.run(collections.get(store, name))


def ingest(
    store: Store, name: str, items: Sequence[Item], embedders: Sequence[Embedder] = (), *, prune: bool = False
) -> IngestReport:
    return bridge.run(loader(store, name, embedders).run(rows(items), prune=prune))


def complete(store: Store, name: str, embedders: Sequence[Embedder] = ()) -> IngestReport:
    return bridge.run(loader(store, name, embedders).complete())


def loader(store: Store, name: str, embedders: Sequence[Embedder] = ()) -> Ingest:
    tokenizer = embedders[0] if embedders else HashingEmbedder()
    return Ingest(store, fresh(store, name), {each.model: each for each in embedders}, tokenizer)


def wrong(store: Store, name: str) -> dict[str, int]:
    """The checks that found something."""
    return {found.check: found.wrong for found in bridge.run(verify(store, fresh(store, name))) if found.wrong}


def tables(view: CollectionView, chunk_set: int = 0) -> dict[str, Table]:
    made = {
        "items": cast("Table", StoredItem.__table__),
        "chunk_sets": cast("Table", ChunkSet.__table__),
        "chunks": chunk_table(chunk_set),
        "lexemes": lexeme_table(chunk_set),
        "terms": term_table(chunk_set),
        "postings": posting_table(chunk_set),
    }
    for each in view.embedding_sets:
        if each.chunk_set == chunk_set:
            made.setdefault("vectors", vector_table(each.key, each.dimension))
    return made


def query(
    store: Store, view: CollectionView, statement: str, chunk_set: int = 0, **values: Any
) -> list[tuple[Any, ...]]:
    """Run a statement with the collection's tables in braces; rows where it gives any."""

    async def work() -> list[tuple[Any, ...]]:
        async with store.begin(view.namespace) as connection:
            found = await connection.execute(written(statement, view.namespace, **tables(view, chunk_set)), values)
            return [tuple(row) for row in found] if found.returns_rows else []

    return bridge.run(work())


CONTENTS = {
    "items": "SELECT id, title, text, metadata::text, encode(digest, 'hex') FROM {items}",
    "lexemes": "SELECT id, tsv::text, length, cut FROM {lexemes}",
    "postings": """
        SELECT lexemes.id, term.lexeme, posting.length, posting.frequency FROM {postings} AS posting
        JOIN {terms} AS term ON term.key = posting.term_key
        JOIN {lexemes} AS lexemes ON lexemes.item_key = posting.item_key AND lexemes.key = posting.key""",
    "terms": "SELECT lexeme, documents FROM {terms} WHERE documents > 0",
    "statistics": "SELECT name, units, length FROM {chunk_sets}",
}
OF_CHUNKS = {
    "chunks": """
        SELECT chunk.id, item.id, chunk.ordinal, chunk.start_at, chunk.end_at, chunk.text, chunk.level, parent.id,
               chunk.heading_path::text, chunk.page_first, chunk.page_last, chunk.metadata::text
        FROM {chunks} AS chunk
        JOIN {items} AS item ON item.key = chunk.item_key
        LEFT JOIN {chunks} AS parent ON parent.item_key = chunk.item_key AND parent.key = chunk.parent_key""",
}
OF_VECTORS = {"vectors": "SELECT id, embedding::text FROM {vectors}"}


def contents(store: Store, name: str) -> dict[str, list[tuple[Any, ...]]]:
    """Everything in a collection, sorted, but for its keys: equal for two that were made in different ways."""
    view = fresh(store, name)
    found = {}
    for chunk_set in view.chunk_sets:
        embedded = any(each.chunk_set == chunk_set.key for each in view.embedding_sets)
        wanted = CONTENTS | (OF_CHUNKS if chunk_set.key else {}) | (OF_VECTORS if embedded else {})
        for what, statement in wanted.items():
            found[f"{chunk_set.name}: {what}"] = sorted(query(store, view, statement, chunk_set.key), key=repr)
    return found


async def explain(connection: AsyncConnection, statement: Executable, *values: Any) -> str:
    async with values_in_place(connection):
        return "\n".join(await connection.scalars(Explain(statement, "TEXT"), *values))


def documents(count: int, *, words: int = 20, first: int = 0) -> list[Item]:
    """Documents whose words tell them apart, with a title and metadata here and there."""
    return [
        Item(
            f"d{number:05d}",
            " ".join(f"word{(number * 7 + at) % 97}" for at in range(words)) + f". unique{number} common.",
            title=f"Title {number}" if number % 3 == 0 else "",
            metadata={"number": number, "kind": "odd" if number % 2 else "even"},
        )
        for number in range(first, first + count)
    ]


def ids(items: Iterable[Item]) -> set[str]:
    return {item.id for item in items}
