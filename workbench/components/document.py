"""A document in full: its facts, its text with what a query marks in it, and its parts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any

import streamlit as st
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from core import bridge
from core.errors import InputError
from core.store.collections import CollectionView
from core.store.engine import Store
from core.store.names import ITEMS
from core.store.passages import whole_items
from core.store.resolve_target import documents, search_target
from core.store.schema import chunk_table
from core.types import Metadata
from workbench.components import cards, feedback
from workbench.components.cards import shortened, title_of
from workbench.components.theme import asset
from workbench.services.browse import LONGEST_TEXT, Read

LONGEST_FACT = 120


@dataclass(frozen=True, slots=True)
class Part:
    """A passage by its id, and where it stands in its document's text."""

    id: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Document:
    """An item with the passages of one chunk set, and the one that was found: none, where the whole item was."""

    item_id: str
    title: str
    text: str
    metadata: Metadata
    parts: tuple[Part, ...] = ()
    found: str = ""

    @property
    def passage(self) -> tuple[int, int] | None:
        return next(((part.start, part.end) for part in self.parts if part.id == self.found), None)

    def pieces(self) -> list[tuple[str, bool]]:
        """The text, cut where the passage begins and ends."""
        if self.passage is None:
            return [(self.text, False)]
        start, end = self.passage
        return [(self.text[:start], False), (self.text[start:end], True), (self.text[end:], False)]


async def read_document(store: Store, view: CollectionView, chunks: str, unit_id: str) -> Document:
    """The document of a unit of that level."""
    unit = search_target(store, view, chunks).described([unit_id])
    async with store.begin(view.namespace, read_only=True) as connection:
        found = (await connection.execute(unit)).first()
        if found is None:
            raise InputError(f"{view.name!r} has no {unit_id!r} any more. Search again to see what it has now.")
        item = (await connection.execute(documents(store, view).described([found.item_id]))).one()
        parts = await _parts(connection, view, chunks, unit_id)
    if view.in_parts:
        whole = (await whole_items(store, view, None, [found.item_id]))[found.item_id]
        parts = tuple(Part(each.id, each.start, each.end) for each in whole.chunks)
    return Document(item.item_id, item.title, item.text, item.metadata, parts, unit_id)


async def _parts(connection: AsyncConnection, view: CollectionView, chunks: str, unit_id: str) -> tuple[Part, ...]:
    """All passages of the item that has this one, in the order of its text."""
    if view.row.attached is not None or chunks == ITEMS:
        return ()
    table = chunk_table(view.chunk_set(chunks).key)
    item = select(table.c.item_key).where(table.c.id == unit_id).scalar_subquery()
    asked = select(table.c.id, table.c.start_at, table.c.end_at).where(table.c.item_key == item)
    rows = await connection.execute(asked.order_by(table.c.start_at, table.c.end_at.desc(), table.c.ordinal))
    return tuple(Part(row.id, row.start_at, row.end_at) for row in rows)


def show_document(store: Store, view: CollectionView, chunks: str, unit_id: str, closed: Callable[[], None]) -> None:
    """Open the dialog."""

    @st.dialog("Document", width="medium", on_dismiss=closed)
    def dialog() -> None:
        with feedback.draw_errors():
            document = bridge.run(read_document(store, view, chunks, unit_id))
            facts = [
                (name, cards.shortened(str(value), LONGEST_FACT)) for name, value in document.metadata.items() if value
            ]
            title = cards.title_of(document.title, document.item_id)
            cards.draw_document(
                f"document.{unit_id}",
                title,
                [("id", document.item_id), *facts],
                [*map(list, document.pieces())],
                in_browser(document.text, document.parts),
            )

    dialog()


def in_browser(text: str, parts: Iterable[Part]) -> list[list[str | int]]:
    """Passages with offsets as a browser counts, to which a letter beyond the first 65,536 is two."""
    ordered = list(parts)
    counted, at, wide = {0: 0}, 0, 0
    for offset in sorted({end for part in ordered for end in (part.start, part.end)}):
        wide += sum(letter > "\uffff" for letter in text[at:offset])
        at = offset
        counted[offset] = offset + wide
    return [[part.id, counted[part.start], counted[part.end]] for part in ordered]


_component = st.components.v2.component(
    "rankbook.collections_text",
    html='<div class="head"></div><div class="text" tabindex="0"></div>',
    css="\n".join(
        map(
            asset,
            ("components/assets/shared.css", "components/assets/titled.css", "components/assets/document_text.css"),
        )
    ),
    js="\n".join(map(asset, ("components/assets/titled.js", "components/assets/document_text.js"))),
)


def draw_text(key: str, document: Read) -> None:
    """The text, cut at its chunks' boundaries; overlapping chunks share a hatched piece."""
    facts = [[name, shortened(str(value), LONGEST_FACT)] for name, value in document.metadata.items() if value]
    data: dict[str, Any] = {
        "title": title_of(document.title, document.id),
        "facts": [["id", document.id], *facts],
        "pieces": [asdict(piece) for piece in document.pieces],
        "cut": f"The text goes on: {LONGEST_TEXT:,} characters are shown." if document.cut else "",
    }
    _component(key=key, data=data)
