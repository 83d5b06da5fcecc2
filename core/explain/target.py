"""Which units of search a document is: itself, its chunks, or a parent's children. An unknown one gets near ids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from sqlalchemy import Row, func, select

from core.errors import InputError
from core.retriever import RequestContext
from core.store import passages
from core.store.gate import storable
from core.store.levels import level
from core.store.names import ITEMS
from core.store.passages import WholeItem
from core.store.schema import ID_MARK, ChunkSet
from core.types import Metadata
from core.variant import Variant

NEAREST = 5


@dataclass(frozen=True, slots=True)
class Target:
    """A document that somebody misses. `units` are the ids by which the legs may bring it up."""

    id: str
    kind: Literal["item", "chunk", "parent", "late chunk"]
    item_id: str
    units: tuple[str, ...]
    metadata: Metadata = field(default_factory=dict)
    title: str = ""


async def target_of(context: RequestContext, variant: Variant, document: str) -> Target:
    """The document by the id of an item or of a chunk, at the level that the variant searches."""
    chunk_set = _chunk_set(context, variant)
    if item := await _item(context, chunk_set, document):
        return Target(document, "item", item.id, _units(item, chunk_set), item.metadata, item.title)
    if context.view.in_parts and (row := await _row(context, document)):
        return Target(document, "chunk", row.item_id, (document,), row.metadata, row.title)
    owner = await _item(context, chunk_set, document.rpartition(ID_MARK)[0]) if ID_MARK in document else None
    if owner and variant.late:
        return Target(document, "late chunk", owner.id, (owner.id,), owner.metadata, owner.title)
    if owner and chunk_set and any(each.id == document for each in owner.chunks):
        return _chunk(document, owner)
    raise InputError(await _unknown(context, document, owner, chunk_set))


def _chunk_set(context: RequestContext, variant: Variant) -> ChunkSet | None:
    """None where items are searched."""
    if context.view.row.attached is not None or variant.chunks == ITEMS:
        return None
    return context.view.chunk_set(variant.chunks)


async def _item(context: RequestContext, chunk_set: ChunkSet | None, document: str) -> WholeItem | None:
    return (await passages.whole_items(context.store, context.view, chunk_set, [document])).get(document)


async def _row(context: RequestContext, document: str) -> Row[Any] | None:
    """A row of an attached table whose rows are parts of documents."""
    if not storable(document):
        return None
    rows = level(context.store, context.view, ITEMS).described([document])
    async with context.store.begin(context.view.namespace, read_only=True) as connection:
        found: Row[Any] | None = (await connection.execute(rows)).first()
        return found


def _units(item: WholeItem, chunk_set: ChunkSet | None) -> tuple[str, ...]:
    if chunk_set is None and not item.chunks:
        return (item.id,)
    return tuple(each.id for each in item.chunks if each.level != "parent")


def _chunk(document: str, owner: WholeItem) -> Target:
    children = tuple(each.id for each in owner.chunks if each.parent_id == document)
    is_parent = any(each.id == document and each.level == "parent" for each in owner.chunks)
    if is_parent:
        return Target(document, "parent", owner.id, children, owner.metadata, owner.title)
    return Target(document, "chunk", owner.id, (document,), owner.metadata, owner.title)


async def _unknown(context: RequestContext, document: str, owner: WholeItem | None, chunk_set: ChunkSet | None) -> str:
    where = f"{context.view.name!r}"
    if owner and chunk_set is None:
        return f"Whole items are searched here, so {document!r} is none of the units. Ask for its item: {owner.id!r}."
    if owner:
        near = [each.id for each in owner.chunks][:NEAREST]
        what = f"The item {owner.id!r} has no chunk {document!r} in the chunk set {getattr(chunk_set, 'name', '')!r}."
        return f"{what} It has: {', '.join(near)}." if near else f"{what} It has none there."
    near = list(await _near(context, document))
    if not near:
        return f"There is no document {document!r} in {where}, which is empty."
    return f"There is no document {document!r} in {where}. The nearest ids are: {', '.join(map(repr, near))}."


async def _near(context: RequestContext, document: str) -> Sequence[str]:
    """The ids most like it: by trigrams where the server has them, else the next in order."""
    store, items = context.store, level(context.store, context.view, ITEMS)
    column = items.columns.get("text") or items.column("lexemes")
    asked = document if storable(document) else ""
    closeness = func.similarity(column.id, asked).desc() if "text" in items.columns else column.id < asked
    ids = select(column.id).where(column.where).order_by(closeness, column.id).limit(NEAREST)
    async with store.begin(context.view.namespace, read_only=True) as connection:
        return list(await connection.scalars(ids))
