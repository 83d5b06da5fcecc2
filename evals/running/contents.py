"""What stands in a collection, as a digest: equal for collections loaded alike, wherever. Reads and never changes.

The sum over all items is taken once for each state of a collection of ours: whatever changes it moves its version in
the same transaction, whichever process does so. Somebody's table has no version of ours, and is looked at every time.
"""

from __future__ import annotations

import hashlib
from typing import Any
from weakref import WeakKeyDictionary

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    FromClause,
    Select,
    Text,
    cast,
    func,
    literal_column,
    select,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from core.store import attached
from core.store.attached.reading import Theirs
from core.store.collections import View
from core.store.engine import Store
from core.store.levels import level
from core.store.names import ITEMS
from core.store.schema import Collection, Item

Counted = tuple[str, ...]  # the rows, and a sum over them that any change of one moves
_counted: WeakKeyDictionary[Store, dict[str, tuple[str, Counted]]] = WeakKeyDictionary()


async def content_of(store: Store, view: View) -> str:
    """A digest of the items, chunkings and embeddings there are.

    Somebody's table moves without a version of ours: its rows' own transactions tell, or where it has none, its texts.
    """
    sets = [(each.name, repr(sorted(each.chunker.items()))) for each in view.chunk_sets]
    sets += [(str(each.chunk_set), f"{each.model} {each.index}") for each in view.embedding_sets]
    async with store.begin(view.namespace, read_only=True) as connection:
        counted = await _count(connection, store, view)
    told = repr((view.row.language, _mapping(view), sorted(sets), counted))
    return hashlib.blake2b(told.encode(), digest_size=16).hexdigest()


def _mapping(view: View) -> dict[str, Any] | None:
    """All that is kept of an attached table, but for the server's counters: they move where nothing else does."""
    kept = view.row.attached
    if kept is None or not kept.get("aside"):
        return kept
    return {**kept, "aside": {name: value for name, value in kept["aside"].items() if name != "writes"}}


async def _count(connection: AsyncConnection, store: Store, view: View) -> Counted:
    """From memory where the collection is in the state in which it was counted."""
    kept, state = _counted.setdefault(store, {}), _state(view)
    own = view.row.attached is None
    now = await connection.scalar(state) if own else None
    if now is not None and view.name in kept and kept[view.name][0] == now:
        return kept[view.name][1]
    counted = tuple(str(each) for each in (await connection.execute(_counting(store, view))).one())
    if now is not None and await connection.scalar(state) == now:  # else it changed meanwhile, and is counted again
        kept[view.name] = now, counted
    return counted


def _state(view: View) -> Select[Any]:
    """Another whenever anything in the collection is, and where it was restored to a version that it once had."""
    written = cast(literal_column("collections.xmin"), Text)
    said = func.concat_ws(" ", Collection.version, Collection.created_at, written)
    return select(said).where(Collection.name == view.name)


def _counting(store: Store, view: View) -> Any:
    where, mark = _marks(store, view)
    return select(func.count(), func.sum(mark)).select_from(where)


def _marks(store: Store, view: View) -> tuple[FromClause, ColumnElement[Any]]:
    if view.row.attached is None:
        return Item.__table__, func.hashtextextended(Item.id + func.encode(Item.digest, "hex"), 0)
    attachment = attached.Attachment.of(view)
    if attachment.facts.kind == "table":
        return Theirs(attachment.table, attachment.facts).relation, cast(cast(literal_column("xmin"), Text), BigInteger)
    details = level(store, view, ITEMS).details.subquery()
    said = [details.c.id, details.c.title, details.c.text, cast(details.c.metadata, Text)]
    if attachment.table.parent is not None:
        said.append(details.c.item_id)
    told = func.concat_ws("\n", *said)
    return details, func.hashtextextended(told, 0)
