"""The instrument of the weights page: a component that fuses and scores while the pointer is down; and its controls.

Python hands over plain values once a surface and once a query; the scripts beside this file do the rest, and tell when
a point is let go of. As everywhere, the address bar is the only truth.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import streamlit as st

from workbench.ui.cards import badge_of
from workbench.ui.labelling import Judged
from workbench.ui.theme import LEGS, read
from workbench.weighing import Plain
from workbench.weights_asked import Asked

SCRIPTS = ("weights_count.js", "weights_plot.js", "weights.js")  # in this order: components know no imports

_component = st.components.v2.component(
    "rankbook.weights",
    html=read("weights.html"),
    css=f"{read('shared.css')}\n{read('weights.css')}",
    js="\n".join(map(read, SCRIPTS)),
)


def current() -> Asked:
    """What the address says."""
    return Asked.of(st.query_params)


def go(**changes: str) -> None:
    """Change it. In a callback, so that the run that follows sees it from its first line."""
    st.query_params.from_dict(current().but(**changes).parameters())


def draw(surface: Plain, query: Plain, weights: str, against: str) -> None:
    """The instrument. Its three events each change one thing of the address."""
    key, turn = "weights.instrument", "weights.turn"

    def moved() -> None:
        if (value := st.session_state[key].get("moved")) is not None:
            st.session_state[turn] = value["turn"]
            go(weights=str(value["weights"]))

    def heard(event: str) -> Callable[[], None]:
        def follow() -> None:
            if (value := st.session_state[key].get(event)) is not None:
                go(**{event: str(value)})

        return follow

    _component(
        key=key,
        data={
            "surface": surface,
            "query": query,
            "weights": weights,
            "against": against,
            "heard": st.session_state.get(turn),
        },
        on_moved_change=moved,
        on_query_change=heard("query"),
        on_against_change=heard("against"),
    )


def labelled(surface: Plain) -> Plain:
    """The surface with its legs as people know them."""
    legs = [
        {**leg, "label": LEGS[leg["kind"]].label if leg["name"] == leg["kind"] and leg["kind"] in LEGS else leg["name"]}
        for leg in surface["legs"]
    ]
    return {**surface, "legs": legs}


def shown(query: Plain, titles: list[str], grades: dict[str, int]) -> Plain:
    """A query's candidates as its list shows them."""
    judged = Judged(query["kind"], grades)
    return {**query, "titles": titles, "badges": [badge_of(judged, item) for item in query["items"]]}


# -- controls that write to the address --------------------------------------------------------------------------------


def chooser(label: str, field: str, options: list[str], chosen: str, named: Callable[[str], str] = str) -> None:
    """A select box for one field. Without a choice where the address names something that is not there."""
    key = _shown(field, chosen if chosen in options else None)
    st.selectbox(label, options, format_func=named, key=key, placeholder="Choose", on_change=_followed(key, field))


def several(label: str, field: str, options: list[str], chosen: list[str], most: int) -> None:
    """Some of the options, in the order of the options, separated by commas in the address."""
    key = _shown(field, [each for each in chosen if each in options])
    st.multiselect(label, options, format_func=leg_label, key=key, max_selections=most, on_change=_followed(key, field))


def number(label: str, field: str, chosen: float) -> None:
    key = _shown(field, chosen)
    st.number_input(
        label, min_value=0.0, max_value=1000.0, step=5.0, format="%g", key=key, on_change=_followed(key, field)
    )


def leg_label(kind: str) -> str:
    return LEGS[kind].label if kind in LEGS else kind


def _shown(field: str, value: Any) -> str:
    """Only where it differs: setting it anew would wipe out what somebody is typing."""
    key = f"weights.{field}"
    if key not in st.session_state or st.session_state[key] != value:
        st.session_state[key] = value
    return key


def _followed(key: str, field: str) -> Callable[[], None]:
    def follow() -> None:
        value = st.session_state[key]
        text = f"{value:g}" if isinstance(value, float) else ",".join(value) if isinstance(value, list) else value
        go(**{field: text or ""})

    return follow
