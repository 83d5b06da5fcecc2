"""A document in full, with the passage that was found, and every other passage that it was cut into."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import streamlit as st

from core import bridge
from core.store.browse import ChunkSpan, DocumentText, read_document_of_unit
from core.store.collections import CollectionView
from core.store.engine import Store
from workbench.ui import cards, errors

LONGEST_FACT = 120


def pieces(document: DocumentText, found: str) -> list[tuple[str, bool]]:
    """The text, cut where the chunk that was found begins and ends; whole where the item itself was found."""
    place = next(((each.start, each.end) for each in document.chunks if each.id == found), None)
    if place is None:
        return [(document.text, False)]
    start, end = place
    return [(document.text[:start], False), (document.text[start:end], True), (document.text[end:], False)]


def show(store: Store, view: CollectionView, chunks: str, unit_id: str, closed: Callable[[], None]) -> None:
    """Open the dialog."""

    @st.dialog("Document", width="medium", on_dismiss=closed)
    def dialog() -> None:
        with errors.shown():
            document = bridge.run(read_document_of_unit(store, view, unit_id, chunks))
            facts = [
                (name, cards.shortened(str(value), LONGEST_FACT)) for name, value in document.metadata.items() if value
            ]
            title = cards.title_of(document.title, document.id)
            cards.draw_document(
                f"document.{unit_id}",
                title,
                [("id", document.id), *facts],
                [*map(list, pieces(document, unit_id))],
                in_browser(document.text, document.chunks),
            )

    dialog()


def in_browser(text: str, parts: Iterable[ChunkSpan]) -> list[list[str | int]]:
    """Passages with offsets as a browser counts, to which a letter beyond the first 65,536 is two."""
    ordered = list(parts)
    counted, at, wide = {0: 0}, 0, 0
    for offset in sorted({end for part in ordered for end in (part.start, part.end)}):
        wide += sum(letter > "\uffff" for letter in text[at:offset])
        at = offset
        counted[offset] = offset + wide
    return [[part.id, counted[part.start], counted[part.end]] for part in ordered]
