"""Documents of a collection for people who look through it: listed, found by title, read with their chunks.

Reads only, and ranks nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Final, Generic, TypeVar

from sqlalchemy import Select, func, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from core.errors import InputError
from core.store.collections import CollectionView
from core.store.engine import Store
from core.store.names import ITEMS
from core.store.passages import whole_items
from core.store.resolve_target import documents, search_target
from core.store.sanitize import storable
from core.store.schema import ID_MARK, ItemRow, chunk_table
from core.types import Metadata

T = TypeVar("T")
ROWS_A_PAGE: Final = 25
MOST_COUNTED: Final = 10_000  # beyond this, counting and paging would cost more than a narrower filter
MOST_MATCHES: Final = 6
_CHUNK_ID: Final = re.compile(rf"{ID_MARK}\d{{4,}}\Z")


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """One page of a list. `total` stops just above MOST_COUNTED."""

    rows: tuple[T, ...]
    number: int
    total: int

    @property
    def pages(self) -> int:
        return max(1, -(-self.total // ROWS_A_PAGE))

    @property
    def range_text(self) -> str:
        """`26-50 of 215`."""
        if not self.total:
            return ""
        first = (self.number - 1) * ROWS_A_PAGE + 1
        total = f"more than {MOST_COUNTED:,}" if self.total > MOST_COUNTED else f"{self.total:,}"
        return f"{first:,}\u2013{first + len(self.rows) - 1:,} of {total}"


@dataclass(frozen=True, slots=True)
class DocumentMatch:
    """A document by its id and its title."""

    id: str
    title: str


@dataclass(frozen=True, slots=True)
class ChunkSpan:
    """A chunk's place in its document's text."""

    id: str
    start: int
    end: int
    ordinal: int = 0
    level: str = "passage"
    heading_path: tuple[str, ...] = ()
    page: int | None = None


@dataclass(frozen=True, slots=True)
class TextPiece:
    """Text between two chunk boundaries: the ordinals of the chunks around it, and the chunks that begin with it."""

    text: str
    within: tuple[int, ...] = ()
    begins: tuple[ChunkSpan, ...] = ()


@dataclass(frozen=True, slots=True)
class DocumentText:
    """A document in full, with its chunks of one chunk set in the order of the text."""

    id: str
    title: str
    text: str
    metadata: Metadata
    chunks: tuple[ChunkSpan, ...] = ()

    def pieces(self, longest: int) -> tuple[TextPiece, ...]:
        """The first characters of the text, cut at every chunk boundary.

        A parent chunk only begins a piece: its children are what a search finds in the text.
        """
        text = self.text[:longest]
        spans = sorted((each for each in self.chunks if each.start < len(text)), key=lambda it: (it.start, it.ordinal))
        edges = sorted({0, len(text), *(edge for span in spans for edge in (span.start, min(span.end, len(text))))})
        pieces, at, open_spans = [], 0, list[ChunkSpan]()
        for start, end in pairwise(edges):
            begins = []
            while at < len(spans) and spans[at].start == start:
                begins.append(spans[at])
                at += 1
            open_spans = [span for span in [*open_spans, *begins] if span.end > start]
            within = tuple(span.ordinal for span in open_spans if span.level != "parent")
            pieces.append(TextPiece(text[start:end], within, tuple(begins)))
        return tuple(pieces) or (TextPiece(text),)


# -- lists -------------------------------------------------------------------------------------------------------------


async def list_documents(store: Store, view: CollectionView, find: str, number: int) -> Page[DocumentMatch]:
    """The documents whose id or title contains the text, in the order of their ids."""
    items = documents(store, view)
    listed = items.details.subquery()
    wanted = select(listed.c.id, listed.c.title)
    if find.strip():
        wanted = wanted.where(contains(find.strip(), listed.c.id, listed.c.title))
    async with store.begin(items.namespace, read_only=True) as connection:
        rows, number, total = await read_page(connection, wanted, listed.c.id, number)
    return Page(tuple(DocumentMatch(row.id, row.title) for row in rows), number, total)


def contains(find: str, *columns: Any) -> Any:
    """Whether one of these columns contains the text, whatever its case."""
    return or_(*(column.icontains(find, autoescape=True) for column in columns))


async def read_page(
    connection: AsyncConnection, wanted: Select[Any], order: Any, number: int
) -> tuple[Sequence[Any], int, int]:
    """The rows of that page, or of the last where there are fewer; the page's number, and how many rows there are."""
    counted = select(func.count()).select_from(wanted.limit(MOST_COUNTED + 1).subquery())
    total = int(await connection.scalar(counted) or 0)
    number = min(number, max(1, -(-total // ROWS_A_PAGE)))
    page = wanted.order_by(order).limit(ROWS_A_PAGE).offset((number - 1) * ROWS_A_PAGE)
    return (await connection.execute(page)).all(), number, total


async def find_documents(store: Store, view: CollectionView, typed: str) -> list[DocumentMatch]:
    """The document of that id or exact title alone; else those with the text in their title, the closest first.

    The id of a chunk is returned as it is, and so is a text that matches nothing: `explain` names the nearest ids.
    """
    typed = typed.strip()
    if not typed or not storable(typed):
        raise InputError("Type the id of a document, or some of its title.")
    if _CHUNK_ID.search(typed):
        return [DocumentMatch(typed, "")]
    items = documents(store, view).details.subquery()
    wanted = or_(items.c.item_id == typed, items.c.title.icontains(typed, autoescape=True))
    first = (items.c.item_id != typed, func.lower(items.c.title) != typed.lower(), func.length(items.c.title))
    statement = select(items.c.item_id, items.c.title).where(wanted).order_by(*first, items.c.item_id)
    async with store.begin(view.namespace, read_only=True) as connection:
        rows = await connection.execute(statement.limit(MOST_MATCHES))
        matches = [DocumentMatch(row.item_id, row.title or "") for row in rows]
    exact = [each for each in matches if each.id == typed or each.title.lower() == typed.lower()]
    return exact[:1] or matches or [DocumentMatch(typed, "")]


# -- one document ------------------------------------------------------------------------------------------------------


async def read_document(store: Store, view: CollectionView, item_id: str, chunks: str) -> DocumentText:
    """A document with its chunks of that set; without chunks where it is searched as a whole."""
    items = documents(store, view)
    async with store.begin(items.namespace, read_only=True) as connection:
        row = (await connection.execute(items.described([item_id]))).first()
        if row is None:
            raise InputError(f"{view.name!r} has no document {item_id!r} any more. Choose another one from the list.")
        spans: tuple[ChunkSpan, ...] = ()
        if view.row.attached is None and chunks != ITEMS:
            table = chunk_table(view.chunk_set(chunks).key).c
            of_item = select(ItemRow.key).where(ItemRow.id == item_id).scalar_subquery()
            columns = (table.id, table.start_at, table.end_at, table.ordinal, table.level, table.heading_path)
            wanted = select(*columns, table.page_first).where(table.item_key == of_item)
            rows = await connection.execute(wanted.order_by(table.start_at, table.end_at.desc(), table.ordinal))
            spans = tuple(ChunkSpan(*each[:5], tuple(each.heading_path), each.page_first) for each in rows)
    return DocumentText(row.item_id, row.title, row.text, row.metadata or {}, spans)


async def read_document_of_unit(store: Store, view: CollectionView, unit_id: str, chunks: str) -> DocumentText:
    """The document of a search result, which is a chunk of that set, a whole item, or a row of an attached table."""
    async with store.begin(view.namespace, read_only=True) as connection:
        unit = (await connection.execute(search_target(store, view, chunks).described([unit_id]))).first()
    if unit is None:
        raise InputError(f"{view.name!r} has no {unit_id!r} any more. Search again to see what it has now.")
    document = await read_document(store, view, unit.item_id, chunks)
    if not view.in_parts:
        return document
    whole = (await whole_items(store, view, None, [unit.item_id]))[unit.item_id]
    return replace(document, chunks=tuple(ChunkSpan(each.id, each.start, each.end) for each in whole.chunks))


async def chunk_offsets(store: Store, view: CollectionView, ids: Iterable[str]) -> dict[str, list[tuple[int, int]]]:
    """Where the chunks of these documents begin and end, in the collection's first chunk set; empty without one."""
    chunk_set = next((each for each in view.chunk_sets if each.key), None)
    if view.row.attached is not None or chunk_set is None:
        return {}
    chunks, offsets = chunk_table(chunk_set.key), dict[str, list[tuple[int, int]]]()
    wanted = select(ItemRow.id, chunks.c.start_at, chunks.c.end_at).join(chunks, chunks.c.item_key == ItemRow.key)
    async with store.begin(view.namespace, read_only=True) as connection:
        rows = await connection.execute(wanted.where(ItemRow.id.in_(ids)).order_by(ItemRow.id, chunks.c.start_at))
        for row in rows:
            offsets.setdefault(row.id, []).append((row.start_at, row.end_at))
    return offsets
