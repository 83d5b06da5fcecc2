"""Collections in the catalogue: created, found, listed, extended by chunk sets and embedding sets, dropped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from shlex import quote
from typing import Any, Final

from sqlalchemy import Text, bindparam, column, delete, func, literal, select, table, text, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession
from sqlalchemy.schema import CreateTable, DropSchema

from core.errors import StoreError, UnknownName
from core.store import citus, locks, names, readable_tables
from core.store.engine import Store
from core.store.migrations import collection as collection_chain
from core.store.names import ITEMS, ROWS
from core.store.sanitize import LARGEST_INDEXED_VALUE, storable
from core.store.schema import (
    HERE,
    ChunkSet,
    Collection,
    EmbeddingSet,
    ItemRow,
    chunk_table,
    lexeme_table,
    posting_table,
    term_table,
    vector_table,
)

# Tables with their indexes and what PostgreSQL keeps beside them for long values.
SIZES: Final = text("""
    SELECT nspname AS namespace, sum(pg_total_relation_size(pg_class.oid))::bigint AS bytes
    FROM pg_class
    JOIN pg_namespace ON pg_namespace.oid = relnamespace
    WHERE relkind IN ('r', 'm') AND nspname = ANY(:namespaces)
    GROUP BY nspname
""").bindparams(bindparam("namespaces"))
PARENTS = "parents"  # what presets call the chunk set whose chunks have parents
LARGEST_INDEXED_DIMENSION = {"vector": 2000, "halfvec": 4000, "bit": 64_000}


@dataclass(frozen=True, slots=True)
class CollectionView:
    """A collection as it was when read: its row and its sets."""

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
    def version_key(self) -> str:
        """Changes with the content, and when the collection is dropped and made again, which may repeat a version."""
        return f"{self.row.version} {self.row.created_at.timestamp()}"

    @property
    def default_chunk_set(self) -> str:
        """The chunk set of a search that names none: the first one, or the items where there is none."""
        if self.in_parts:
            return ROWS
        return next((each.name for each in self.chunk_sets if each.key), ITEMS)

    @property
    def in_parts(self) -> bool:
        """Whether it is an attached table whose rows are parts of documents, like chunks."""
        return bool((self.row.attached or {}).get("table", {}).get("parent"))

    @property
    def incomplete_sets(self) -> list[str]:
        """The sets whose watermarks say that they lack something of what was loaded."""
        sets = [
            each.name
            for each in self.chunk_sets
            if each.derived_to < each.backfill_to or min(each.lexed_to, each.posted_to) < each.last_key
        ]
        return sets + [each.model for each in self.embedding_sets if each.embedded_to < each.backfill_to]

    @property
    def interrupted(self) -> bool:
        """Whether a load was begun and not ended. It may still be at work, see `locks.is_being_loaded`."""
        return self.row.loaded_at is None or bool(self.incomplete_sets)

    def chunk_set(self, name: str) -> ChunkSet:
        for each in self.chunk_sets:
            if each.name == name:
                return each
        chunker = "parent_child" if name == PARENTS else "headings"
        way_out = f"Make it with `rankbook data chunk {quote(self.name)} {quote(f'{name}={chunker}')}`."
        raise UnknownName(f"chunk set of {self.name!r}", name, [each.name for each in self.chunk_sets], way_out=way_out)

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


async def find(store: Store, name: str) -> CollectionView | None:
    """The collection of that name, its schema brought up to date, or None."""
    if not storable(name):
        return None
    async with store.begin() as connection:
        session = AsyncSession(connection, expire_on_commit=False)
        row = await session.get(Collection, names.composed(name))
        if row is None:
            return None
        await connection.execution_options(schema_translate_map={HERE: row.namespace})
        revision = await connection.run_sync(collection_chain.revision, row.namespace)
        if row.attached is None and not collection_chain.is_newest(revision, row.namespace):
            await connection.run_sync(collection_chain.upgrade, row.namespace)
            await citus.follow(connection, row.namespace)
        elif revision is None:  # an attached table without side tables
            return CollectionView(row)
        return await view_within(connection, row)


async def view_within(connection: AsyncConnection, row: Collection) -> CollectionView:
    """The collection with its sets, as this transaction sees them."""
    session = AsyncSession(connection, expire_on_commit=False)
    chunk_sets = await session.scalars(select(ChunkSet).order_by(ChunkSet.key))
    embedding_sets = await session.scalars(select(EmbeddingSet).order_by(EmbeddingSet.key))
    return CollectionView(row, tuple(chunk_sets), tuple(embedding_sets))


async def get(store: Store, name: str) -> CollectionView:
    found = await find(store, name)
    if found is None:
        known = [row.name for row in await listed(store)]
        raise UnknownName("collection", name, known, way_out="Add one with `rankbook data add`.")
    return found


async def create(
    store: Store,
    name: str,
    *,
    language: str = "english",
    card: str = "",
    origin: Mapping[str, Any] | None = None,
    fields: Sequence[str] = (),
) -> CollectionView:
    """A new, empty collection with its schema, and the set of its items."""
    namespace, name = names.schema_of(name), names.composed(name)
    row = Collection(
        name=name,
        namespace=namespace,
        language=language,
        card=card,
        origin=dict(origin or {}),
        fields=names.checked_fields(fields),
    )
    async with store.begin(namespace, fresh=True) as connection:
        await check_language(connection, language)
        session = AsyncSession(connection)
        await register(session, row)
        await connection.run_sync(collection_chain.upgrade, namespace)
        await citus.distribute(connection, namespace, store.where)
        await create_item_set(connection)
        await citus.follow(connection, namespace)
    return await get(store, name)


async def register(session: AsyncSession, row: Collection) -> None:
    """Enter the row, or refuse a name that is taken, also by a process that takes it at this very moment."""
    await refuse_taken(session, row.name)
    session.add(row)
    try:
        await session.flush()
    except IntegrityError:
        raise _taken(row.name) from None


async def refuse_taken(session: AsyncSession, name: str) -> None:
    if await session.get(Collection, name):
        raise _taken(name)


def _taken(name: str) -> StoreError:
    return StoreError(f"There is a collection {name!r} already. Drop it first, or choose another name.")


async def check_language(connection: AsyncConnection, language: str) -> None:
    """Refuse a text-search configuration that the server does not have."""
    if language not in (known := await languages(connection)):
        raise UnknownName("text-search language", language, known)


async def languages(connection: AsyncConnection) -> list[str]:
    """The text-search configurations that the server has."""
    known = select(column("cfgname", Text)).select_from(table("pg_ts_config")).order_by("cfgname")
    return list(await connection.scalars(known))


async def add_chunk_set(store: Store, view: CollectionView, name: str, chunker: Mapping[str, Any]) -> CollectionView:
    """Another chunking of the items. The same name with the same chunker is the set that there is."""
    name = names.checked(name, what="The chunk set's name")
    for each in view.chunk_sets:
        if each.name == name:
            if each.chunker != dict(chunker):
                raise StoreError(
                    f"The chunk set {name!r} of {view.name!r} was made with {each.chunker}. Give the new chunking "
                    "another name; both can then be compared."
                )
            return view
    refuse_attached(view)
    async with store.begin(view.namespace, fresh=True) as connection:
        await locks.require_no_writer(connection, view.name)
        known = await connection.scalar(select(ChunkSet.key).where(ChunkSet.name == name))
        if known is None:
            key = await _next_key(connection, ChunkSet)
            newest = await connection.scalar(select(ChunkSet.last_key).where(ChunkSet.key == 0))
            session = AsyncSession(connection)
            session.add(ChunkSet(key=key, name=name, chunker=dict(chunker), backfill_to=newest))
            await session.flush()
            await create_set_tables(connection, key)
            await citus.follow(connection, view.namespace)
    fresh = await get(store, view.name)
    return fresh if known is None else await add_chunk_set(store, fresh, name, chunker)


async def _next_key(connection: AsyncConnection, of: type[ChunkSet] | type[EmbeddingSet]) -> int:
    """Called under the writer lock: a view that was read before may be out of date."""
    return int(await connection.scalar(select(func.coalesce(func.max(of.key), 0) + 1)) or 1)


async def create_item_set(connection: AsyncConnection) -> None:
    """The set of the items themselves, with its tables."""
    session = AsyncSession(connection)
    session.add(ChunkSet(key=0, name=ITEMS, chunker={"kind": "none"}))
    await session.flush()
    await create_set_tables(connection, 0)


async def create_set_tables(connection: AsyncConnection, key: int) -> None:
    """The tables of one chunk set: its chunks, unless it is the items, and what is searched by words."""
    for make in (*([chunk_table] if key else []), lexeme_table, term_table, posting_table):
        await connection.execute(CreateTable(make(key)))


async def add_embedding_set(
    store: Store, view: CollectionView, chunk_set: ChunkSet, model: str, dimension: int, *, index: str = "vector"
) -> CollectionView:
    """The vectors of another model over one chunk set. A model that is there already changes nothing."""
    store.capabilities.need("vector")
    if view.embedding_set(chunk_set, model):
        return view
    refuse_attached(view)
    async with store.begin(view.namespace, fresh=True) as connection:
        await locks.require_no_writer(connection, view.name)
        same = (EmbeddingSet.chunk_set == chunk_set.key, EmbeddingSet.model == model)
        if await connection.scalar(select(EmbeddingSet.key).where(*same)) is None:
            made = EmbeddingSet(chunk_set=chunk_set.key, model=model, dimension=dimension, index=index)
            made.key = await _next_key(connection, EmbeddingSet)
            newest = select(ChunkSet.last_key).where(ChunkSet.key == made.chunk_set)
            made.backfill_to = await connection.scalar(newest) or 0
            table = vector_table(made.key, made.dimension)
            session = AsyncSession(connection)
            session.add(made)
            await session.flush()
            await connection.execute(CreateTable(table))
            await citus.follow(connection, view.namespace)
    return await get(store, view.name)


def refuse_attached(view: CollectionView) -> None:
    if view.row.attached is not None:
        raise StoreError(
            f"{view.name!r} is an attached table, which is searched as it is and never loaded. Give the collection "
            "to be made another name."
        )


async def mark_loading(connection: AsyncConnection, name: str) -> None:
    """A load begins: until `mark_loaded`, the collection counts as one whose load was interrupted."""
    await connection.execute(update(Collection).where(Collection.name == name).values(loaded_at=None))


async def mark_loaded(connection: AsyncConnection, name: str) -> None:
    await connection.execute(update(Collection).where(Collection.name == name).values(loaded_at=func.now()))


async def touch(connection: AsyncConnection, name: str) -> None:
    """Something in the collection changed: results cached from it are out of date."""
    await connection.execute(
        update(Collection).where(Collection.name == name).values(version=Collection.version + 1, changed_at=func.now())
    )


async def drop(store: Store, name: str) -> None:
    """Drop the collection with its schema. An attached table is left as it is."""
    view = await get(store, name)
    async with store.begin(fresh=True) as connection:
        await drop_within(connection, view)


async def drop_within(connection: AsyncConnection, view: CollectionView) -> None:
    """The same in the caller's transaction."""
    await locks.require_no_writer(connection, view.name)
    await connection.execute(DropSchema(view.namespace, cascade=True, if_exists=True))
    await connection.execute(delete(Collection).where(Collection.name == view.name))
    if view.row.attached is not None:
        await readable_tables.withdraw(connection, view.name)


async def add_fields(store: Store, view: CollectionView, fields: Sequence[str]) -> CollectionView:
    """Add metadata fields that filters use. Their indexes are built with the next load."""
    refuse_attached(view)
    async with store.begin(view.namespace) as connection:
        there = list(await connection.scalar(select(Collection.fields).where(Collection.name == view.name)) or ())
        new = [field for field in names.checked_fields(fields) if field not in there]
        if not new:
            return view
        await locks.require_no_writer(connection, view.name)
        for field in new:
            await _refuse_long_values(connection, view.name, field)
        await connection.execute(update(Collection).where(Collection.name == view.name).values(fields=[*there, *new]))
    return await get(store, view.name)


async def _refuse_long_values(connection: AsyncConnection, name: str, field: str) -> None:
    """Refuse a field if items that are there already hold more in it than an index can."""
    size = func.pg_column_size(ItemRow.meta.op("->")(literal(field, Text)))
    found = select(func.count(), func.min(ItemRow.id), func.max(size)).where(size > LARGEST_INDEXED_VALUE)
    count, item, largest = (await connection.execute(found)).one()
    if count:
        raise StoreError(
            f"The metadata field {field!r} of {name!r} cannot be indexed: {count:,} documents, {item!r} for one, hold "
            f"up to {largest:,} bytes there, and an indexed value may take {LARGEST_INDEXED_VALUE:,}. Leave the field "
            "out, or shorten these values."
        )


async def sizes_on_disk(store: Store, namespaces: Sequence[str]) -> dict[str, int]:
    """The bytes that the tables of these schemas take, with their indexes."""
    async with store.begin(read_only=True) as connection:
        rows = await connection.execute(SIZES, {"namespaces": list(namespaces)})
        return {row.namespace: row.bytes for row in rows}
