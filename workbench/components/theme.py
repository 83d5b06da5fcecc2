"""How things look: the style sheet of all pages, a variant's colour and mark, and the files that are sent to
browsers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import streamlit as st

from evals.reports import palette
from workbench.services.legs import LEGS

MARK = Path(__file__).parent / "assets" / "mark.svg"


def stylesheet() -> str:
    """The frame's rules, and the legs' colours as variables that reach into components too."""
    colours = "".join(f"--leg-{kind}: light-dark({look.light}, {look.dark});" for kind, look in LEGS.items())
    headings = "".join(f".rb-leg-{kind} {{ --leg: var(--leg-{kind}); }}" for kind in LEGS)
    return f"<style>:root {{ {colours} }} {headings} {asset('components/assets/frame.css')}</style>"


def asset(name: str) -> str:
    """A style sheet, script or page that is sent to browsers, by its path below the workbench."""
    return (Path(__file__).parents[1] / name).read_text(encoding="utf-8")


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
