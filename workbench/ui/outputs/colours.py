"""One colour and mark for each variant, the same all over a page and in what is exported of it.

Owns which names are in view together. The colours themselves are `evals.presentation.palette`'s.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import streamlit as st

from evals.presentation import palette

IN_VIEW = "variants.styles"


def in_view(styles: Mapping[str, int]) -> None:
    """What holds on this page, until it is drawn again: a view of a part of it goes by the whole."""
    st.session_state[IN_VIEW] = dict(styles)


def styles(names: Iterable[str]) -> dict[str, int]:
    """The number of each one's colour and mark, as the palette counts them."""
    wanted = list(names)
    known: dict[str, int] = st.session_state.get(IN_VIEW, {})
    every = known if set(wanted) <= known.keys() else palette.styles([*known, *wanted])
    return {name: every[name] for name in wanted}
