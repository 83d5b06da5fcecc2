"""How things look: the style sheet of all pages, a variant's colour and mark, and the files that are sent to
browsers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import streamlit as st

MARK = Path(__file__).parent / "assets" / "mark.svg"


def stylesheet() -> str:
    """The frame's rules, and the legs' colours as variables that reach into components too."""
    from core.legs import leg_descriptions  # which takes its time: whoever starts the server wants the options alone
    from evals.presentation import palette

    legs = leg_descriptions()
    pairs = {kind: palette.STYLES[(about.slot or 0) % len(palette.STYLES)] for kind, about in legs.items()}
    colours = "".join(f"--leg-{kind}: light-dark({light}, {dark});" for kind, (light, dark) in pairs.items())
    headings = "".join(f".rb-leg-{kind} {{ --leg: var(--leg-{kind}); }}" for kind in legs)
    return f"<style>:root {{ {colours} }} {headings} {asset('components/assets/frame.css')}</style>"


def asset(name: str) -> str:
    """A style sheet, script or HTML file that is sent to browsers, by its path below the workbench."""
    return (Path(__file__).parents[1] / name).read_text(encoding="utf-8")


IN_VIEW = "variants.styles"


def in_view(styles: Mapping[str, int]) -> None:
    """Set the styles of this page until it is drawn again: a view of a part uses those of the whole."""
    st.session_state[IN_VIEW] = dict(styles)


def styles(names: Iterable[str]) -> dict[str, int]:
    """The number of each variant's colour and mark in the palette."""
    from evals.presentation import palette

    wanted = list(names)
    known: dict[str, int] = st.session_state.get(IN_VIEW, {})
    every = known if set(wanted) <= known.keys() else palette.styles([*known, *wanted])
    return {name: every[name] for name in wanted}
