"""A table of strangers' texts: a row can be opened, a filter answers while one types, pages can be turned.

Python hands over plain values; the script beside this file sets them as text, and tells what was clicked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import streamlit as st

from workbench.components.theme import asset

Heard = Callable[[str], None]
HTML = '<div class="filter"><input type="search" autocomplete="off" spellcheck="false"></div><div class="rows"></div>'
_component = st.components.v2.component(
    "rankbook.textgrid",
    html=f'{HTML}<div class="foot" hidden></div>',
    css=f"{asset('components/assets/shared.css')}\n{asset('components/assets/table.css')}",
    js=asset("components/assets/table.js"),
)


@dataclass(frozen=True, slots=True)
class Column:
    """A heading, with what it means. Numbers stand to the right; `wide` ones are left out on a phone."""

    name: str
    hint: str = ""
    right: bool = False
    wide: bool = False
    long: bool = False


@dataclass(frozen=True, slots=True)
class Line:
    """A row; its id is what is told when it is opened."""

    id: str
    cells: tuple[str, ...]
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Filter:
    """What the rows were filtered by, and which page of them this is."""

    find: str
    asks: str
    told: str
    page: int
    pages: int


def draw(  # noqa: PLR0913 - a table has that many sides
    key: str,
    label: str,
    columns: Sequence[Column],
    lines: Sequence[Line],
    *,
    selected: str = "",
    opened: Heard | None = None,
    filtered: Filter | None = None,
    found: Heard | None = None,
    turned: Heard | None = None,
    empty: str = "Nothing here.",
    low: bool = False,
) -> None:
    """The table. `opened` hears the id of a row, `found` what is being typed, `turned` a page's number.

    A `low` one scrolls. What does not fit beside something else is left out by its width, as on a phone.
    """
    data = {
        "label": label,
        "columns": [asdict(column) for column in columns],
        "rows": [asdict(line) for line in lines],
        "selected": selected,
        "opens": opened is not None,
        "empty": empty,
        "low": low,
        "find": filtered.find if filtered else None,
        "asks": filtered.asks if filtered else "",
        "told": filtered.told if filtered else "",
        "page": filtered.page if filtered else 1,
        "pages": filtered.pages if filtered else 1,
    }
    _component(
        key=key,
        data=data,
        on_open_change=_heard(key, "open", opened),
        on_find_change=_heard(key, "find", found),
        on_page_change=_heard(key, "page", turned),
    )


def _heard(key: str, event: str, told: Heard | None) -> Callable[[], None]:
    def follow() -> None:
        value: Any = st.session_state[key].get(event)
        if told is not None and value is not None:
            told(str(value))

    return follow
