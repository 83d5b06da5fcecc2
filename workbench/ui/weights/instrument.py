"""The instrument over a weight surface: a component that fuses and scores while the pointer is down; and controls.

Python hands over plain values once a surface and once a query; the scripts beside this file do the rest, and tell when
a point is let go of. As everywhere, the address bar is the only truth.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import streamlit as st

from core.legs import describe
from workbench.behind.search.labelling import QueryLabels
from workbench.behind.weights.weighing import Plain
from workbench.ui.address import put
from workbench.ui.cards import badge_of
from workbench.ui.theme import read

SCRIPTS = (
    "count",
    "plot",
    "following",
    "moving",
    "standing",
    "instrument",
)  # in this order: components know no imports

_component = st.components.v2.component(
    "rankbook.weights",
    html=read("weights/instrument.html"),
    css=f"{read('shared.css')}\n{read('weights/instrument.css')}",
    js="\n".join(read(f"weights/{name}.js") for name in SCRIPTS),
)


@dataclass(frozen=True, slots=True)
class Stand:
    """Where one stands on a surface, what that is compared with, and at which query one looks; "" is the default."""

    weights: str = ""
    against: str = ""
    query: str = ""


def draw(key: str, surface: Plain, query: Plain, stand: Stand, select: Callable[..., None]) -> None:
    """The instrument. Its three events each change one thing of where one stands, which `select` is told by name."""
    turn = f"{key}.turn"

    def moved() -> None:
        if (value := st.session_state[key].get("moved")) is not None:
            st.session_state[turn] = value["turn"]
            select(weights=str(value["weights"]))

    def heard(event: str) -> Callable[[], None]:
        def follow() -> None:
            if (value := st.session_state[key].get(event)) is not None:
                select(**{event: str(value)})

        return follow

    _component(
        key=key,
        data={
            "surface": surface,
            "query": query,
            "weights": stand.weights,
            "against": stand.against,
            "heard": st.session_state.get(turn),
        },
        on_moved_change=moved,
        on_query_change=heard("query"),
        on_against_change=heard("against"),
    )


def labelled(surface: Plain) -> Plain:
    """The surface with its legs as people know them."""
    legs = [
        {**leg, "label": leg_label(leg["kind"]) if leg["name"] == leg["kind"] else leg["name"]}
        for leg in surface["legs"]
    ]
    return {**surface, "legs": legs}


def shown(query: Plain, titles: list[str], grades: dict[str, int]) -> Plain:
    """A query's candidates as its list shows them."""
    judged = QueryLabels(query["kind"], grades)
    return {**query, "titles": titles, "badges": [badge_of(judged, item) for item in query["items"]]}


# -- controls that write to the address --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Controls:
    """Widgets that show what the address says, and change it by `select`, which is told a field by its name."""

    name: str
    select: Callable[..., None]

    def chooser(
        self, label: str, field: str, options: list[str], chosen: str, named: Callable[[str], str] = str, **look: Any
    ) -> None:
        """A select box for one field. Without a choice where the address names something that is not there."""
        key = put(f"{self.name}.{field}", chosen if chosen in options else None)
        followed = self._followed(key, field)
        at = options.index(chosen) if chosen in options else None
        st.selectbox(label, options, at, format_func=named, key=key, placeholder="Choose", on_change=followed, **look)

    def several(self, label: str, field: str, options: list[str], chosen: list[str], most: int) -> None:
        """Some of the options, in the order of the options, separated by commas in the address."""
        known = [each for each in chosen if each in options]
        key = put(f"{self.name}.{field}", known)
        followed = self._followed(key, field)
        st.multiselect(label, options, known, format_func=leg_label, key=key, max_selections=most, on_change=followed)

    def number(
        self, label: str, field: str, chosen: float, most: float = 1000.0, step: float = 5.0, **look: Any
    ) -> None:
        key = put(f"{self.name}.{field}", chosen)
        followed = self._followed(key, field)
        st.number_input(label, 0.0, most, chosen, step, format="%g", key=key, on_change=followed, **look)

    def _followed(self, key: str, field: str) -> Callable[[], None]:
        def follow() -> None:
            value = st.session_state[key]
            text = f"{value:g}" if isinstance(value, float) else ",".join(value) if isinstance(value, list) else value
            self.select(**{field: text or ""})

        return follow


def leg_label(kind: str) -> str:
    return describe(kind).label
