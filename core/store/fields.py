"""Metadata fields that filters use: added to a collection, unless a stored value is too long for an index."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Text, func, literal, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from core.errors import StoreError
from core.store import collections, names, writers
from core.store.collections import View
from core.store.engine import Store
from core.store.gate import LARGEST_INDEXED_VALUE
from core.store.schema import Collection, Item


async def add(store: Store, view: View, fields: Sequence[str]) -> View:
    """More metadata fields that filters use. Their indexes are built with the next load."""
    collections.refuse_attached(view)
    async with store.begin(view.namespace) as connection:
        there = list(await connection.scalar(select(Collection.fields).where(Collection.name == view.name)) or ())
        new = [field for field in names.checked_fields(fields) if field not in there]
        if not new:
            return view
        await writers.refuse_beside(connection, view.name)
        for field in new:
            await _refuse_long_values(connection, view.name, field)
        await connection.execute(update(Collection).where(Collection.name == view.name).values(fields=[*there, *new]))
    return await collections.get(store, view.name)


async def _refuse_long_values(connection: AsyncConnection, name: str, field: str) -> None:
    """Of items that were let in before the field was to be indexed."""
    size = func.pg_column_size(Item.meta.op("->")(literal(field, Text)))
    found = select(func.count(), func.min(Item.id), func.max(size)).where(size > LARGEST_INDEXED_VALUE)
    count, item, largest = (await connection.execute(found)).one()
    if count:
        raise StoreError(
            f"The metadata field {field!r} of {name!r} cannot be indexed: {count:,} documents, {item!r} for one, hold "
            f"up to {largest:,} bytes there, and an indexed value may take {LARGEST_INDEXED_VALUE:,}. Leave the field "
            "out, or shorten these values."
        )
