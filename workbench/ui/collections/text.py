"""A document in full with its chunks shown as bands, the boundaries visible. Its texts go to the page as text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

import streamlit as st

from core.store.browse import DocumentText, TextPiece
from workbench.ui.cards import shortened, title_of
from workbench.ui.theme import read

LONGEST_FACT = 120
LONGEST_TEXT: Final = 500_000  # characters of a document that a page shows
_component = st.components.v2.component(
    "rankbook.collections_text",
    html='<div class="head"></div><div class="text" tabindex="0"></div>',
    css="\n".join(map(read, ("shared.css", "titled.css", "collections/text.css"))),
    js="\n".join(map(read, ("titled.js", "collections/text.js"))),
)


def draw(key: str, document: DocumentText, pieces: Sequence[TextPiece]) -> None:
    """The text, cut at its chunks' boundaries; overlapping chunks share a hatched piece."""
    facts = [[name, shortened(str(value), LONGEST_FACT)] for name, value in document.metadata.items() if value]
    data: dict[str, Any] = {
        "title": title_of(document.title, document.id),
        "facts": [["id", document.id], *facts],
        "pieces": [asdict(piece) for piece in pieces],
        "cut": f"The text goes on: {LONGEST_TEXT:,} characters are shown." if len(document.text) > LONGEST_TEXT else "",
    }
    _component(key=key, data=data)
