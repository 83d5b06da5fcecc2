"""Select boxes over a list of queries: of which kind, in which order. Shared by the views that list queries.

Both are in the address, as all that is looked at; what is no choice any more gives way to the first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import streamlit as st

from workbench.ui.outputs.base import CellView


def which(shown: CellView, groups: Sequence[str], orders: Mapping[str, str]) -> str:
    """Draws both, and gives the order."""
    kind, order = st.columns([1, 1])
    with kind:
        _choose(shown, "Kind", "kind", {"": "All kinds", **{key: name_of(key) for key in groups}})
    with order:
        return _choose(shown, "Order", "order", orders)


def _choose(shown: CellView, label: str, field: str, options: Mapping[str, str]) -> str:
    key, values = shown.key(field), list(options)
    said = getattr(shown.selected, field)
    chosen = said if said in values else values[0]
    if st.session_state.get(key) != chosen:
        st.session_state[key] = chosen

    def followed() -> None:
        value = str(st.session_state[key])
        shown.select(**{field: "" if value == values[0] else value})

    st.selectbox(label, values, format_func=lambda value: options[value], key=key, on_change=followed)
    return chosen


def group(shown: CellView, groups: Sequence[str]) -> str:
    """The kind that is chosen; empty for all."""
    return shown.selected.kind if shown.selected.kind in groups else ""


# -- kinds and tags under one key --------------------------------------------------------------------------------------


def key_of(by: str, name: str) -> str:
    return f"{by}:{name}"


def name_of(key: str) -> str:
    by, _, name = key.partition(":")
    return (name or "(no kind)") if by == "kind" else f"#{name}"


def groups_of(queries: Iterable[Mapping[str, Any]]) -> list[str]:
    """Every kind and tag that these queries have."""
    given = list(queries)
    kinds = {key_of("kind", each.get("kind", "")) for each in given}
    tags = {key_of("tag", tag) for each in given for tag in each.get("tags", ())}
    return [*sorted(kinds), *sorted(tags)]


def is_in(query: Mapping[str, Any], key: str) -> bool:
    """Whether the query is of that kind, or has that tag."""
    by, _, name = key.partition(":")
    return not key or (query.get("kind", "") == name if by == "kind" else name in query.get("tags", ()))


def about(query: str, given: Mapping[str, Any]) -> str:
    """What is said faintly below a query's text."""
    return " · ".join(filter(None, [query, given.get("kind", "")]))
