"""Attaching: the mapping is checked against the server, then remembered. Nothing of theirs is written."""

from __future__ import annotations

from sqlalchemy import func, inspect, select
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession

from core.errors import SpecError, StoreError
from core.store import collections, names, readable_tables
from core.store.attached.inspection import inspect as inspect_table
from core.store.attached.mapping import AttachedTable, Attachment, Facts, relation_name
from core.store.collections import View
from core.store.engine import Store
from core.store.roles import RoleStore
from core.store.schema import CachedEmbedding, Collection

BYTES_A_NUMBER = 4  # the cache keeps float32


async def attach(
    store: Store, name: str, mapping: AttachedTable, *, card: str = "", dimension: int | None = None
) -> View:
    """A collection over somebody's table. `dimension` is the model's, where the caller knows it."""
    namespace, name = names.schema_of(name), names.composed(name)
    await _check_free(store, name, namespace)
    facts = await inspect_table(store, mapping)
    if mapping.embedding:
        store.capabilities.need("vector")
        _check_dimension(mapping, facts, dimension or await _known_dimension(store, mapping))
    attachment = Attachment(table=mapping, facts=facts)
    async with store.begin() as connection:
        await _remember(connection, name, namespace, attachment, card)
        await let_read_within(store, connection, name, mapping)
    return await collections.get(store, name)


async def let_read_within(store: Store, connection: AsyncConnection, name: str, mapping: AttachedTable) -> None:
    """Whoever may search the collection may be let read the table, where the owner attaches it and so says it.

    What an editor attaches others may read where editors themselves can, which needs no leave.
    """
    if not isinstance(store, RoleStore):
        await readable_tables.allow(connection, name, mapping.namespace, mapping.table)


async def let_read(store: Store, name: str, written: str) -> AttachedTable:
    """The owner says so afterwards, and names the table: refused where the collection is attached to another."""
    view = await collections.get(store, name)
    mapping = Attachment.of(view).table
    if relation_name(written) != (mapping.namespace, mapping.table):
        raise SpecError(f"{name!r} is attached to {mapping.full_name}, and not to {written}. Nothing was changed.")
    async with store.begin() as connection:
        await let_read_within(store, connection, view.name, mapping)
    return mapping


async def _check_free(store: Store, name: str, namespace: str) -> None:
    async with store.begin() as connection:
        await collections.refuse_taken(AsyncSession(connection), name)
        schemas = await connection.run_sync(lambda sync: inspect(sync).get_schema_names())
    if namespace in schemas:
        # Dropping the collection drops that schema: it must never be one that holds somebody's table.
        raise StoreError(f"There is a schema {namespace!r} already, which {name!r} would need. Choose another name.")


async def _remember(connection: AsyncConnection, name: str, namespace: str, attachment: Attachment, card: str) -> None:
    table = attachment.table
    await collections.check_language(connection, table.language)
    row = Collection(
        name=name,
        namespace=namespace,
        language=table.language,
        card=card,
        origin={"attached": table.full_name},
        attached=attachment.model_dump(mode="json"),
    )
    await collections.register(AsyncSession(connection), row)
    await collections.mark_loaded(connection, name)  # there is nothing to load


async def _known_dimension(store: Store, mapping: AttachedTable) -> int | None:
    """What the model's cached vectors say, without loading the model."""
    size = select(func.length(CachedEmbedding.vector)).where(CachedEmbedding.model == mapping.model).limit(1)
    async with store.begin(read_only=True) as connection:
        found = await connection.scalar(size)
    return found // BYTES_A_NUMBER if found else None


def _check_dimension(mapping: AttachedTable, facts: Facts, known: int | None) -> None:
    if known is not None and facts.dimension not in (None, known):
        raise SpecError(
            f"The vectors in {mapping.embedding!r} of {mapping.full_name} have {facts.dimension} dimensions, those of "
            f"the model {mapping.model!r} have {known}. Name the model that made the embeddings."
        )
