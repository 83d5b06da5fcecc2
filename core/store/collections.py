"""Collections: made, found, listed, dropped; and the sets inside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import delete, func, select, text, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession
from sqlalchemy.schema import CreateTable, DropSchema, DropTable

from core.errors import StoreError, UnknownName
from core.store import names
from core.store.engine import Store
from core.store.gate import storable
from core.store.migrations import collection as collection_chain
from core.store.names import ITEMS
from core.store.schema import (
    ChunkSet,
    Collection,
    EmbeddingSet,
    chunk_table,
    lexeme_table,
    posting_table,
    term_table,
    vector_table,
)

WRITER_LOCK = "hashtextextended(:name, 7)"
LARGEST_INDEXED_DIMENSION = {"vector": 2000, "halfvec": 4000, "bit": 64_000}


@dataclass(frozen=True, slots=True)
class View:
    """A collection as it stood when looked at: its row and the sets it has."""

    row: Collection
    chunk_sets: tuple[ChunkSet, ...] = ()
    embedding_sets: tuple[EmbeddingSet, ...] = ()

    @property
    def name(self) -> str:
        return self.row.name

    @property
    def namespace(self) -> str:
        return self.row.namespace

    @property
    def finest(self) -> str:
        """The first chunk set, or the items where there is none: what a search means that names neither."""
        return next((each.name for each in self.chunk_sets if each.key), ITEMS)

    def chunk_set(self, name: str) -> ChunkSet:
        for each in self.chunk_sets:
            if each.name == name:
                return each
        raise UnknownName(f"chunk set of {self.name!r}", name, [each.name for each in self.chunk_sets])

    def embedding_set(self, chunk_set: ChunkSet, model: str | None = None) -> EmbeddingSet | None:
        """The set of that model over those chunks; without a model, the first there is."""
        for each in self.embedding_sets:
            if each.chunk_set == chunk_set.key and model in (None, each.model):
                return each
        return None


async def listed(store: Store) -> list[Collection]:
    async with store.begin() as connection:
        session = AsyncSession(connection)
        return list(await session.scalars(select(Collection).order_by(Collection.name)))


async def find(store: Store, name: str) -> View | None:
    """The collection, its schema brought up to date; None where there is none of that name."""
    if not storable(name):
        return None
    async with store.begin() as connection:
        row = await AsyncSession(connection, expire_on_commit=False).get(Collection, names.composed(name))
    if row is None:
        return None
    async with store.begin(row.namespace) as connection:
        if row.attached is None and not await connection.run_sync(collection_chain.is_current, row.namespace):
            await connection.run_sync(collection_chain.upgrade, row.namespace)
        return await _view(connection, row)


async def get(store: Store, name: str) -> View:
    found = await find(store, name)
    if found is None:
        known = [row.name for row in await listed(store)]
        raise UnknownName("collection", name, known, way_out="Add one with `rankbook data add`.")
    return found


async def _view(connection: AsyncConnection, row: Collection) -> View:
    if not await connection.run_sync(lambda sync: collection_chain.revision(sync, row.namespace)):
        return View(row)
    session = AsyncSession(connection, expire_on_commit=False)
    chunk_sets = await session.scalars(select(ChunkSet).order_by(ChunkSet.key))
    embedding_sets = await session.scalars(select(EmbeddingSet).order_by(EmbeddingSet.key))
    return View(row, tuple(chunk_sets), tuple(embedding_sets))


async def create(
    store: Store,
    name: str,
    *,
    language: str = "english",
    card: str = "",
    origin: Mapping[str, Any] | None = None,
    fields: Sequence[str] = (),
) -> View:
    """A new, empty collection with its schema, and the set of its items."""
    namespace, name = names.schema_of(name), names.composed(name)
    row = Collection(
        name=name,
        namespace=namespace,
        language=language,
        card=card,
        origin=dict(origin or {}),
        fields=[names.checked(field, what="The metadata field", room=200) for field in fields],
    )
    async with store.begin(namespace) as connection:
        await _check_language(connection, language)
        session = AsyncSession(connection)
        await _register(session, row)
        await connection.run_sync(collection_chain.upgrade, namespace)
        session.add(ChunkSet(key=0, name=ITEMS, chunker={"kind": "none"}))
        await session.flush()
        await _create_text_tables(connection, 0)
    return await get(store, name)


async def _register(session: AsyncSession, row: Collection) -> None:
    """Another process that makes the same one at this moment is met by the unique key, after its commit."""
    taken = f"There is a collection {row.name!r} already. Drop it first, or choose another name."
    if await session.get(Collection, row.name):
        raise StoreError(taken)
    session.add(row)
    try:
        await session.flush()
    except IntegrityError:
        raise StoreError(taken) from None


async def _check_language(connection: AsyncConnection, language: str) -> None:
    known = list(await connection.scalars(select(func.unnest(_regconfigs()))))
    if language not in known:
        raise UnknownName("text-search language", language, known)


def _regconfigs() -> Any:
    from sqlalchemy import column, table

    configurations = table("pg_ts_config", column("cfgname"))
    return select(func.array_agg(configurations.c.cfgname)).scalar_subquery()


async def add_chunk_set(store: Store, view: View, name: str, chunker: Mapping[str, Any]) -> View:
    """A chunking beside those there are. The same name with the same chunker is what there is already."""
    name = names.checked(name, what="The chunk set's name")
    for each in view.chunk_sets:
        if each.name == name:
            if each.chunker != dict(chunker):
                raise StoreError(
                    f"The chunk set {name!r} of {view.name!r} was made with {each.chunker}. Give the new chunking "
                    "another name; both can then be compared."
                )
            return view
    key = max(each.key for each in view.chunk_sets) + 1
    async with store.begin(view.namespace) as connection:
        await _refuse_beside_a_writer(connection, view.name)
        newest = await connection.scalar(select(ChunkSet.last_key).where(ChunkSet.key == 0))
        session = AsyncSession(connection)
        session.add(ChunkSet(key=key, name=name, chunker=dict(chunker), backfill_to=newest))
        await session.flush()
        await connection.execute(CreateTable(chunk_table(key)))
        await _create_text_tables(connection, key)
    return await get(store, view.name)


async def _create_text_tables(connection: AsyncConnection, key: int) -> None:
    for make in (lexeme_table, term_table, posting_table):
        await connection.execute(CreateTable(make(key)))


async def add_embedding_set(
    store: Store, view: View, chunk_set: ChunkSet, model: str, dimension: int, *, index: str = "vector"
) -> View:
    """A model beside those there are, over one chunk set."""
    store.capabilities.need("vector")
    if view.embedding_set(chunk_set, model):
        return view
    key = max((each.key for each in view.embedding_sets), default=0) + 1
    async with store.begin(view.namespace) as connection:
        await _refuse_beside_a_writer(connection, view.name)
        newest = await connection.scalar(select(ChunkSet.last_key).where(ChunkSet.key == chunk_set.key))
        session = AsyncSession(connection)
        session.add(
            EmbeddingSet(
                key=key, chunk_set=chunk_set.key, model=model, dimension=dimension, index=index, backfill_to=newest
            )
        )
        await session.flush()
        await connection.execute(CreateTable(vector_table(key, dimension)))
    return await get(store, view.name)


async def _refuse_beside_a_writer(connection: AsyncConnection, name: str) -> None:
    """A writer knows the sets it began with: one that came or went meanwhile would be left with holes."""
    taken = await connection.scalar(text(f"SELECT pg_try_advisory_xact_lock({WRITER_LOCK})"), {"name": name})
    if not taken:
        raise StoreError(f"Another process is loading the collection {name!r}. Wait until it is done.")


async def touch(connection: AsyncConnection, name: str) -> None:
    """Something in the collection changed: whoever cached an answer from it must ask again."""
    await connection.execute(
        update(Collection).where(Collection.name == name).values(version=Collection.version + 1, changed_at=func.now())
    )


async def drop(store: Store, name: str) -> None:
    """The collection with all that is in its schema. Somebody's attached table is left as it is."""
    view = await get(store, name)
    async with store.begin() as connection:
        await _refuse_beside_a_writer(connection, view.name)
        await connection.execute(DropSchema(view.namespace, cascade=True, if_exists=True))
        await connection.execute(delete(Collection).where(Collection.name == view.name))


async def drop_set(store: Store, view: View, chunk_set: ChunkSet) -> View:
    """A chunk set with its vectors and indexes; the items stay."""
    if chunk_set.key == 0:
        raise StoreError("The items themselves cannot be dropped apart from their collection.")
    async with store.begin(view.namespace) as connection:
        await _refuse_beside_a_writer(connection, view.name)
        for each in view.embedding_sets:
            if each.chunk_set == chunk_set.key:
                await connection.execute(DropTable(vector_table(each.key, each.dimension)))
        for make in (chunk_table, lexeme_table, term_table, posting_table):
            await connection.execute(DropTable(make(chunk_set.key)))
        await connection.execute(delete(EmbeddingSet).where(EmbeddingSet.chunk_set == chunk_set.key))
        await connection.execute(delete(ChunkSet).where(ChunkSet.key == chunk_set.key))
        await touch(connection, view.name)
    return await get(store, view.name)
