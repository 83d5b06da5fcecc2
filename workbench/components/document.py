"""A document in full: its text, the passage that was found, and its chunks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from typing import Any, Final

import streamlit as st

from core import bridge
from core.store.browse import ChunkSpan, DocumentText, TextPiece, read_document_of_unit
from core.store.collections import CollectionView
from core.store.engine import Store
from workbench.components import cards, feedback
from workbench.components.cards import shortened, title_of
from workbench.components.theme import asset

LONGEST_FACT = 120


def pieces(document: DocumentText, found: str) -> list[tuple[str, bool]]:
    """The text, cut where the chunk that was found begins and ends; whole where the item itself was found."""
    place = next(((each.start, each.end) for each in document.chunks if each.id == found), None)
    if place is None:
        return [(document.text, False)]
    start, end = place
    return [(document.text[:start], False), (document.text[start:end], True), (document.text[end:], False)]


def show_document(store: Store, view: CollectionView, chunks: str, unit_id: str, closed: Callable[[], None]) -> None:
    """Open the dialog."""

    @st.dialog("Document", width="medium", on_dismiss=closed)
    def dialog() -> None:
        with feedback.draw_errors():
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
    """Passages with offsets in UTF-16 units, as browsers count."""
    ordered = list(parts)
    counted, at, wide = {0: 0}, 0, 0
    for offset in sorted({end for part in ordered for end in (part.start, part.end)}):
        wide += sum(letter > "\uffff" for letter in text[at:offset])
        at = offset
        counted[offset] = offset + wide
    return [[part.id, counted[part.start], counted[part.end]] for part in ordered]


LONGEST_TEXT: Final = 500_000  # characters of a document that a page shows
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


def draw_text(key: str, document: DocumentText, pieces: Sequence[TextPiece]) -> None:
    """The text, cut at its chunks' boundaries; overlapping chunks share a hatched piece."""
    facts = [[name, shortened(str(value), LONGEST_FACT)] for name, value in document.metadata.items() if value]
    data: dict[str, Any] = {
        "title": title_of(document.title, document.id),
        "facts": [["id", document.id], *facts],
        "pieces": [asdict(piece) for piece in pieces],
        "cut": f"The text goes on: {LONGEST_TEXT:,} characters are shown." if len(document.text) > LONGEST_TEXT else "",
    }
    _component(key=key, data=data)
