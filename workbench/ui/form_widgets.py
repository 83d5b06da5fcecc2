"""One widget for one field of a form: what it looks like, and its value as TOML has it.

The value to show stands in the session under the widget's key already; it is the default too, for a widget that is
mounted anew knows no other. What can be cleared has none. What goes into the source is not decided here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import streamlit as st

from workbench.behind.form_fields import Entry

LEFT_OUT = "not set"
Widget = Callable[..., Any]


def value_of(entry: Entry, key: str, offered: Sequence[str] | None, *, disabled: bool) -> Any:
    """Draw it; its value."""
    common: dict[str, Any] = {"key": key, "help": f"{entry.help} In TOML: `{entry.name}`", "disabled": disabled}
    made: dict[str, Callable[[], Any]] = {
        "switch": lambda: st.checkbox(entry.label, bool(st.session_state[key]), **common),
        "choice": lambda: _choice(entry, common),
        "whole": lambda: _number(entry, common, int, 1, "%d"),
        "number": lambda: _number(entry, common, float, 0.05, "%g"),
        "texts": lambda: _texts(entry, common, offered or ()),
        "text": lambda: _text(entry, common, offered),
    }
    return made[entry.kind]()


def _choice(entry: Entry, common: dict[str, Any]) -> Any:
    widget: Widget = st.selectbox
    at = None if _cleared(entry) else place_of(st.session_state[common["key"]], entry.choices)
    return widget(entry.label, entry.choices, at, format_func=str, placeholder=LEFT_OUT, **common)


def _cleared(entry: Entry) -> bool:
    """Whether it can be taken out again, for which a widget must have no default."""
    return entry.optional or entry.required


def place_of(value: Any, choices: Sequence[Any]) -> int | None:
    """Where among the choices; None where it is none of them."""
    return list(choices).index(value) if value in choices else None


def _number(entry: Entry, common: dict[str, Any], of: type[int] | type[float], step: float, form: str) -> Any:
    widget: Widget = st.number_input
    value = st.session_state[common["key"]]
    value = None if value is None else of(value)  # a whole number may stand for any other
    st.session_state[common["key"]] = value
    bounds = {"min_value": entry.least, "max_value": entry.most}
    limits: dict[str, Any] = {name: None if bound is None else of(bound) for name, bound in bounds.items()}
    if value is not None or _cleared(entry):
        limits |= {"value": None if _cleared(entry) else value}
    made = widget(entry.label, step=step, format=form, placeholder=LEFT_OUT, **limits, **common)
    return entry.default if made is None else made


def _texts(entry: Entry, common: dict[str, Any], offered: Sequence[str]) -> Any:
    widget: Widget = st.multiselect
    chosen = st.session_state[common["key"]]
    there = dict.fromkeys([*offered, *chosen])
    return widget(entry.label, list(there), chosen, accept_new_options=True, placeholder="Type or choose", **common)


def _text(entry: Entry, common: dict[str, Any], offered: Sequence[str] | None) -> Any:
    value = st.session_state[common["key"]]
    long = value is not None and "\n" in value
    if offered is not None and not long:
        widget: Widget = st.selectbox
        there = [each for each in dict.fromkeys([*offered, value]) if each]
        empty = entry.default or LEFT_OUT
        at = None if _cleared(entry) else place_of(value, there)
        return widget(entry.label, there, at, accept_new_options=True, placeholder=empty, **common)
    widget = st.text_area if long else st.text_input
    made = widget(entry.label, value, max_chars=entry.longest, placeholder=LEFT_OUT, **common)
    return made if made or not entry.optional else None
