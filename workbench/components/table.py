"""The table of the workbench: cells that can be buttons, rows that open, a filter that answers while one types, pages.

Owns its model and its component. Texts are a stranger's: the script sets them as text, never as markup.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import streamlit as st

from evals.presentation import palette
from evals.statistics.verdicts import MARKS
from workbench.components.theme import asset

Action = dict[str, str]  # what a button stands for
Tone = Literal["", "win", "loss", "even", "faint", "best", "good", "zero", "unjudged"]
_TONES: Mapping[str, Tone] = {"better": "win", "worse": "loss"}
VERDICTS: Mapping[str, tuple[str, Tone]] = {
    str(verdict): (mark, _TONES.get(verdict, "")) for verdict, mark in MARKS.items()
}
ASSETS = "components/assets"
_component = st.components.v2.component(
    "rankbook.table",
    html='<div class="filter" hidden><input type="search" autocomplete="off" spellcheck="false"></div>'
    '<div class="rows"></div><div class="foot" hidden></div>',
    css=f":host{{{palette.variables()}}}\n{asset(f'{ASSETS}/shared.css')}\n{asset(f'{ASSETS}/table.css')}",
    js=asset(f"{ASSETS}/table.js"),
)


@dataclass(frozen=True, slots=True)
class RichCell:
    """A cell that is more than a text. `beside` is faint behind the text, `under` below it, `hint` a tooltip.

    With `action` it is a button, drawn as a pill where `pill`; `on` is whether it is pressed, None where it is no
    switch; `says` is its label where the text alone does not tell. `style` sets a variant's mark before the text,
    `heat` from 0 to 1 is its ground, `tone` its colour and `sign` a mark behind it.
    """

    text: str
    beside: str = ""
    under: str = ""
    hint: str = ""
    strong: bool = False
    tone: Tone = ""
    sign: str = ""
    style: int | None = None
    heat: float | None = None
    action: Action | None = None
    pill: bool = False
    on: bool | None = None
    says: str = ""

    def data(self) -> dict[str, Any]:
        given = {name: value for name, value in asdict(self).items() if value not in ("", None)}
        if self.style is not None:
            given |= {"colour": palette.colour(self.style), "shape": palette.shape(self.style)}
        return given


@dataclass(frozen=True, slots=True)
class DataColumn:
    """A heading. Numbers are set to the `right`; `wide` columns are left out on a phone, `long` ones may wrap."""

    head: str | RichCell
    hint: str = ""
    right: bool = False
    wide: bool = False
    long: bool = False

    def data(self) -> dict[str, Any]:
        cell = {"text": self.head, "hint": self.hint} if isinstance(self.head, str) else self.head.data()
        return {**cell, "right": self.right, "wide": self.wide, "long": self.long}


@dataclass(frozen=True, slots=True)
class DataRow:
    """A row by the id that opens it."""

    id: str
    cells: Sequence[str | RichCell]
    hint: str = ""


@dataclass(frozen=True, slots=True)
class DataFilter:
    """The filter of a table and its page; `says` is how many rows there are."""

    find: str
    placeholder: str
    says: str
    page: int
    pages: int


@dataclass(frozen=True, slots=True)
class DataTable:
    """`label` names it for those who cannot see it. A `tall` one scrolls in itself, a `dense` one is a heat map.

    Where a click changes `reveal`, the page scrolls to the table.
    """

    label: str
    columns: Sequence[DataColumn]
    rows: Sequence[DataRow]
    notes: Sequence[str] = ()
    selected: str = ""
    tall: bool = False
    dense: bool = False
    reveal: str = ""
    empty: str = "Nothing here."
    filter: DataFilter | None = None


def of_cells(
    label: str,
    heads: Sequence[RichCell],
    rows: Sequence[Sequence[RichCell]],
    right: Container[int] = (),
    selected: int | None = None,
    **more: Any,
) -> DataTable:
    """A table of rich cells, whose rows do not open. Columns numbered in `right` hold numbers."""
    columns = [DataColumn(head, right=at in right) for at, head in enumerate(heads)]
    lines = [DataRow(str(at), cells) for at, cells in enumerate(rows)]
    return DataTable(label, columns, lines, selected="" if selected is None else str(selected), **more)


def signed(value: float | None) -> RichCell:
    """A difference, in the colour of gains or losses."""
    if value is None:
        return RichCell("-", tone="faint")
    tone: Tone = "win" if value > 0 else "loss" if value < 0 else "faint"
    return RichCell(f"{value:+.3f}" if value else "0.000", tone=tone)


def draw(
    key: str,
    table: DataTable,
    *,
    on_action: Callable[[Action], None] | None = None,
    on_open: Callable[[str], None] | None = None,
    on_find: Callable[[str], None] | None = None,
    on_page: Callable[[str], None] | None = None,
) -> None:
    """The table. The callbacks take what a pressed button stands for, a row's id, the text of the filter, a page."""

    def event(name: str, call: Callable[[Any], None] | None) -> Callable[[], None]:
        def follow() -> None:
            if call is not None and (value := st.session_state[key].get(name)) is not None:
                is_action = name == "action"
                call({str(field): str(each) for field, each in dict(value).items()} if is_action else str(value))

        return follow

    data = {
        **{name: getattr(table, name) for name in ("label", "selected", "tall", "dense", "reveal", "empty")},
        "columns": [column.data() for column in table.columns],
        "rows": [
            {
                "id": row.id,
                "hint": row.hint,
                "cells": [cell if isinstance(cell, str) else cell.data() for cell in row.cells],
            }
            for row in table.rows
        ],
        "notes": list(table.notes),
        "filter": asdict(table.filter) if table.filter else None,
        "opens": on_open is not None,
    }
    _component(
        key=key,
        data=data,
        on_action_change=event("action", on_action),
        on_open_change=event("open", on_open),
        on_find_change=event("find", on_find),
        on_page_change=event("page", on_page),
    )
