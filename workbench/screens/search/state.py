"""What is selected, as the address bar holds it. The address is the only truth: widgets are set from it and write to
it, so a link opens the same view, and the browser's back button works.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Self

import streamlit as st

from workbench.components import url_state
from workbench.components.url_state import put
from workbench.services.url_state import UrlState

LONGEST_QUERY = 1000


@dataclass(frozen=True)
class SearchState(UrlState):
    """A view of the search page. `opened` is the unit whose document is shown in full."""

    collection: str = ""
    level: str = ""
    query: str = ""
    opened: str = ""

    @classmethod
    def of(cls, parameters: Mapping[str, str]) -> Self:
        """Ids are taken as they are: one that came in with a blank at its end is found by it."""
        known = {field.name: parameters.get(field.name, "") for field in fields(cls)}
        return replace(cls(**known), query=known["query"].strip()[:LONGEST_QUERY])


def default(**values: str) -> None:
    """What holds where the address says nothing. It is not written there: the way back must not lead here again."""
    st.session_state["selection.default"] = {**st.session_state.get("selection.default", {}), **values}


def current() -> SearchState:
    """What the address says, and what holds where it says nothing."""
    said = SearchState.of(url_state.said())
    defaults: dict[str, str] = st.session_state.get("selection.default", {})
    return replace(said, **{name: value for name, value in defaults.items() if not getattr(said, name)})


def go(**changes: str) -> None:
    """Change the selection. In a callback, so that the run that follows sees it from its first line."""
    url_state.move_to(current().but(**changes).parameters())


def _followed(key: str, move: Callable[[str], None]) -> Callable[[], None]:
    return lambda: move((st.session_state[key] or "").strip())


def chooser(label: str, field: str, options: Sequence[str], named: Callable[[str], str], **also: str) -> str | None:
    """A select box for one field; None while the address names something that is not there. `also` goes with it."""
    key = f"selection.{field}"
    selected = getattr(current(), field)
    at = list(options).index(selected) if selected in options else None
    put(key, None if at is None else selected)
    return st.selectbox(
        label,
        options,
        at,
        format_func=named,
        key=key,
        placeholder="Choose",
        on_change=_followed(key, lambda value: go(**{field: value, "opened": "", **also})),
    )


def query_box(label: str, placeholder: str) -> None:
    """The search box."""
    key = "selection.query"
    put(key, current().query)
    st.text_input(
        label,
        current().query,
        key=key,
        placeholder=placeholder,
        max_chars=LONGEST_QUERY,
        label_visibility="collapsed",
        icon=":material/search:",
        on_change=_followed(key, lambda value: go(query=value, opened="")),
    )
