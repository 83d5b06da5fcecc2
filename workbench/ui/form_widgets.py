"""One widget for one field of a form: what it looks like, and its value as TOML has it.

The value to show stands in the session under the widget's key already. What goes into the source is not decided here.
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
        "switch": lambda: st.checkbox(entry.label, **common),
        "choice": lambda: _choice(entry, common),
        "whole": lambda: _number(entry, common, int, 1, "%d"),
        "number": lambda: _number(entry, common, float, 0.05, "%g"),
        "texts": lambda: _texts(entry, common, offered or ()),
        "text": lambda: _text(entry, common, offered),
    }
    return made[entry.kind]()


def _choice(entry: Entry, common: dict[str, Any]) -> Any:
    widget: Widget = st.selectbox
    cleared = {"index": None, "placeholder": LEFT_OUT} if entry.optional or entry.required else {}
    return widget(entry.label, entry.choices, format_func=str, **cleared, **common)


def _number(entry: Entry, common: dict[str, Any], of: type[int] | type[float], step: float, form: str) -> Any:
    widget: Widget = st.number_input
    value = st.session_state[common["key"]]
    st.session_state[common["key"]] = None if value is None else of(value)  # a whole number may stand for any other
    bounds = {"min_value": entry.least, "max_value": entry.most}
    limits: dict[str, Any] = {name: None if bound is None else of(bound) for name, bound in bounds.items()}
    if entry.optional or entry.required:
        limits |= {"value": None}  # can be cleared
    made = widget(entry.label, step=step, format=form, placeholder=LEFT_OUT, **limits, **common)
    return entry.default if made is None else made


def _texts(entry: Entry, common: dict[str, Any], offered: Sequence[str]) -> Any:
    widget: Widget = st.multiselect
    there = dict.fromkeys([*offered, *st.session_state[common["key"]]])
    return widget(entry.label, list(there), accept_new_options=True, placeholder="Type or choose", **common)


def _text(entry: Entry, common: dict[str, Any], offered: Sequence[str] | None) -> Any:
    value = st.session_state[common["key"]]
    long = value is not None and "\n" in value
    if offered is not None and not long:
        widget: Widget = st.selectbox
        there = [each for each in dict.fromkeys([*offered, value]) if each]
        empty = entry.default or LEFT_OUT
        return widget(entry.label, there, index=None, accept_new_options=True, placeholder=empty, **common)
    widget = st.text_area if long else st.text_input
    made = widget(entry.label, value=None, max_chars=entry.longest, placeholder=LEFT_OUT, **common)
    return made if made or not entry.optional else None
