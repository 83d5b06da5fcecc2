"""One colour and mark for each variant, the same in every cell: a leg's is its own, others get theirs as they come.

Owns who has which, for as long as the page is open. The colours themselves are `evals.report.palette`'s.
"""

from __future__ import annotations

from collections.abc import Iterable

import streamlit as st

LEGS = ("vector", "fulltext", "trigram", "bm25", "fuzzy")  # the palette's first, as everywhere in the workbench
KEPT = "variants.styles"


def styles(names: Iterable[str]) -> dict[str, int]:
    """The number of each one's colour and mark, as the palette counts them."""
    taken: dict[str, int] = st.session_state.setdefault(KEPT, {})
    return {name: _style(name, taken) for name in names}


def _style(name: str, taken: dict[str, int]) -> int:
    if name in LEGS:
        return LEGS.index(name)
    return taken.setdefault(name, len(LEGS) + len(taken))
