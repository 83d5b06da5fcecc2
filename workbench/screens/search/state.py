"""What is selected on the page Search, as its address holds it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import ClassVar, Self

import streamlit as st

from workbench.components.url_state import Address
from workbench.services.search import LONGEST_QUERY
from workbench.services.url_state import UrlState


@dataclass(frozen=True)
class SearchState(UrlState):
    """A view of the search page. `opened` is the unit whose document is shown in full."""

    CLEARS: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "collection": ("level", "query", "opened"),
        "level": ("opened",),
        "query": ("opened",),
    }

    collection: str = ""
    level: str = ""
    query: str = ""
    opened: str = ""

    @classmethod
    def of(cls, parameters: Mapping[str, str]) -> Self:
        """Ids are taken as they are: one that came in with a blank at its end is found by it."""
        known = {field.name: parameters.get(field.name, "") for field in fields(cls)}
        return replace(cls(**known), query=known["query"].strip()[:LONGEST_QUERY])


class SearchAddress(Address[SearchState]):
    def default(self, **values: str) -> None:
        """What holds where the address says nothing. It is not written there: the way back must not lead here again."""
        key = f"{self.name}.default"
        st.session_state[key] = {**st.session_state.get(key, {}), **values}

    def current(self) -> SearchState:
        state, defaults = super().current(), st.session_state.get(f"{self.name}.default", {})
        return replace(state, **{name: value for name, value in defaults.items() if not getattr(state, name)})


address = SearchAddress("selection", SearchState)
