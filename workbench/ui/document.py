"""A document in full, with the passage that was found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import streamlit as st
from sqlalchemy import select

from core import bridge
from core.errors import InputError
from core.store.collections import View
from core.store.engine import Store
from core.store.levels import level
from core.store.names import ITEMS
from core.store.schema import chunk_table
from core.types import Metadata
from workbench.ui import cards, errors

LONGEST_FACT = 120


@dataclass(frozen=True, slots=True)
class Document:
    """An item, and where in its text the passage stands; nowhere, where the whole item was the find."""

    item_id: str
    title: str
    text: str
    metadata: Metadata
    passage: tuple[int, int] | None = None

    def pieces(self) -> list[tuple[str, bool]]:
        """The text, cut where the passage begins and ends."""
        if self.passage is None:
            return [(self.text, False)]
        start, end = self.passage
        return [(self.text[:start], False), (self.text[start:end], True), (self.text[end:], False)]


async def read(store: Store, view: View, chunks: str, unit_id: str) -> Document:
    """The document of a unit of that level."""
    unit = level(store, view, chunks).described([unit_id])
    async with store.begin(view.namespace, read_only=True) as connection:
        found = (await connection.execute(unit)).first()
        if found is None:
            raise InputError(f"{view.name!r} has no {unit_id!r} any more. Search again to see what it has now.")
        item = (await connection.execute(level(store, view, ITEMS).described([found.item_id]))).one()
        return Document(
            item.item_id, item.title, item.text, item.metadata, await _passage(connection, view, chunks, unit_id)
        )


async def _passage(connection: Any, view: View, chunks: str, unit_id: str) -> tuple[int, int] | None:
    if view.row.attached is not None or chunks == ITEMS:
        return None
    table = chunk_table(view.chunk_set(chunks).key)
    where = select(table.c.start_at, table.c.end_at).where(table.c.id == unit_id)
    row = (await connection.execute(where)).one()
    return row.start_at, row.end_at


def show(store: Store, view: View, chunks: str, unit_id: str, closed: Callable[[], None]) -> None:
    """Open the dialog."""

    @st.dialog("Document", width="medium", on_dismiss=closed)
    def dialog() -> None:
        with errors.shown():
            document = bridge.run(read(store, view, chunks, unit_id))
            facts = [
                (name, cards.shortened(str(value), LONGEST_FACT)) for name, value in document.metadata.items() if value
            ]
            title = cards.title_of(document.title, document.item_id)
            cards.draw_document(
                f"document.{unit_id}", title, [("id", document.item_id), *facts], [*map(list, document.pieces())]
            )

    dialog()
