"""A table whose headings, rows and cells can be picked: a component, as Streamlit's own cannot hold buttons.

Owns its form. Texts are set with `textContent`, so that nothing in them is markup.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import streamlit as st

from evals.presentation import palette
from evals.statistics.verdicts import MARKS
from workbench.ui.outputs.beside import beside
from workbench.ui.theme import read

Action = dict[str, str]  # what a button stands for
Tone = Literal["", "win", "loss", "even", "faint", "best", "good", "zero", "unjudged"]
_TONES: Mapping[str, Tone] = {"better": "win", "worse": "loss"}
VERDICTS: Mapping[str, tuple[str, Tone]] = {
    str(verdict): (mark, _TONES.get(verdict, "")) for verdict, mark in MARKS.items()
}


@dataclass(frozen=True, slots=True)
class Cell:
    """`beside` is said faintly behind the text, `under` below it, `hint` when one looks closer.

    With `pick` it is a button, and a pill where it stands beside the row's matter; `on` says whether it is pressed,
    None that it is none to press in. `said` is what it does, where its text alone does not tell. `style` sets a
    variant's mark before the text, `heat` from 0 to 1 a ground behind it; `tone` and `sign` colour and mark what it
    says.
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
    pick: Action | None = None
    pill: bool = False
    on: bool | None = None
    said: str = ""

    def plain(self) -> dict[str, Any]:
        made = {name: value for name, value in asdict(self).items() if value not in ("", None)}
        if self.style is not None:
            made |= {"colour": palette.colour(self.style), "shape": palette.shape(self.style)}
        return made


@dataclass(frozen=True, slots=True)
class Grid:
    """Rows under headings; columns numbered in `right` hold numbers. `label` names it for those who cannot see it.

    A `tall` one scrolls in a window of its own, a `dense` one is a heatmap. Where a click changes `reveal`, the page
    scrolls to it.
    """

    label: str
    heads: Sequence[Cell]
    rows: Sequence[Sequence[Cell]]
    right: Sequence[int] = ()
    notes: Sequence[str] = ()
    chosen: int | None = None
    tall: bool = False
    reveal: str = ""
    empty: str = "Nothing to show."
    dense: bool = False

    def plain(self) -> dict[str, Any]:
        """As the component is given it."""
        return {
            "label": self.label,
            "heads": [each.plain() for each in self.heads],
            "rows": [[each.plain() for each in row] for row in self.rows],
            "right": list(self.right),
            "notes": list(self.notes),
            "chosen": self.chosen,
            "tall": self.tall,
            "dense": self.dense,
            "reveal": self.reveal,
            "empty": self.empty,
        }


def signed(value: float | None) -> Cell:
    """A difference, in the colour of gains or losses."""
    if value is None:
        return Cell("-", tone="faint")
    return Cell(f"{value:+.3f}" if value else "0.000", tone="win" if value > 0 else "loss" if value < 0 else "faint")


_component = st.components.v2.component(
    "rankbook.grid",
    html='<div class="frame" tabindex="0" role="region"></div>',
    css=f":host{{{palette.variables()}}}\n{read('shared.css')}\n{beside('grid.css')}",
    js=beside("grid.js"),
)


def draw(key: str, grid: Grid, picked: Callable[[Action], None]) -> None:
    """Show it. `picked` is told, in a callback, what the pressed button stands for."""

    def heard() -> None:
        value = st.session_state[key].get("picked")
        if value is not None:
            picked({str(name): str(each) for name, each in dict(value).items()})

    _component(key=key, data=grid.plain(), on_picked_change=heard)
