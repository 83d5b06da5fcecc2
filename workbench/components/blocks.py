"""Blocks of an output drawn on a page: sentences, tables, charts, results, code.

Every text may be a stranger's: it goes through the element tree, or into a widget that shows text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any
from xml.etree.ElementTree import Element

import streamlit as st

from evals.display import Table, el, written
from evals.presentation import html, palette
from evals.presentation.types import Block, Chart, Code, SearchResults, Text
from workbench.components.theme import asset

CONFIG = {"displayModeBar": False, "scrollZoom": False, "doubleClick": False}
LONG = 18  # lines of code; longer ones scroll in a window of their own
WINDOW = 380  # pixels of that window
_COLOUR = re.compile(r"<([a-z0-9]+)>")
_STYLE = f"<style>.rb-block{{{palette.variables()}}}{asset('components/assets/blocks.css')}</style>"


def draw_all(blocks: Iterable[Block], key: str) -> None:
    """One below the other. `key` is unique on the page."""
    for at, block in enumerate(blocks):
        draw(block, f"{key}.{at}")


def draw(block: Block, key: str) -> None:
    match block:
        case Text():
            html_of(el("p", block.text, class_=f"rb-said {block.tone}"))
        case Table():
            html_of(html.table(block))
        case Chart():
            figure(block, key)
        case SearchResults():
            html_of(html.search_results(block))
        case Code():
            heading(block.title)
            many = block.text.count("\n") >= LONG
            st.code(block.text, language=block.language or None, height=WINDOW if many else "content")


def html_of(*elements: Element) -> None:
    """Elements in the style of a cell's output."""
    st.html(_STYLE + written(el("div", *elements, class_="rb-block")))


def heading(text: str, hint: str = "") -> None:
    """A heading of a part of an output."""
    if text:
        html_of(el("h4", text, title=hint or None))


# -- charts ------------------------------------------------------------------------------------------------------------


def figure(block: Chart, key: str, **options: Any) -> Any:
    """A chart in the page's colours, that scrolls where it is wider than the page. Options are Streamlit's."""
    heading(block.title, block.description)
    if not block.figure.get("data"):
        html_of(el("p", "There is nothing to draw.", class_="nothing"))
        return None
    with st.container(key=f"{key}.scrolled"):
        if block.width:
            st.html(f"<style>{_widened(f'{key}.scrolled', block.width)}</style>")
        return st.plotly_chart(
            coloured(block.figure, dark=is_dark()),
            theme=None,
            key=key,
            alt=block.description,
            config=CONFIG,
            **options,
        )


def is_dark() -> bool:
    return bool(st.context.theme.type == "dark")


def coloured(value: Any, *, dark: bool) -> Any:
    """A figure with colours for their names in angle brackets; unknown names stay."""
    if isinstance(value, dict):
        return {key: coloured(each, dark=dark) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [coloured(each, dark=dark) for each in value]
    name = _COLOUR.fullmatch(value) if isinstance(value, str) else None
    return palette.named().get(name[1], (value, value))[dark] if name else value


def _widened(key: str, pixels: int) -> str:
    """Streamlit gives a container its key as a class, with a dash for what no class may hold."""
    name = f".st-key-{re.sub('[^a-zA-Z0-9_-]', '-', key)}"
    return f"{name}{{overflow-x:auto}}{name} [data-testid=stElementContainer]{{min-width:{pixels}px}}"
