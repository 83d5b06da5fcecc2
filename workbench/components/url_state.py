"""The address bar: reading it, moving to another address, and widgets that show one of its fields and change it.

The address is the only truth. A change is made in a widget's callback, so that the run that follows sees it from its
first line, and is one step of the browser's history.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from workbench.services.url_state import UrlState

MOVED = "address.moved"
UNDER_WAY = 0.6  # seconds in which a browser that does not know of a move yet may still ask for a whole page
LONGEST = 8  # moves in a row that are remembered

S = TypeVar("S", bound=UrlState)
T = TypeVar("T", bound=str | None)


@dataclass(frozen=True, slots=True)
class Move:
    """From an address of a page to another, by way of those that the browser may not know of either."""

    page: str
    before: tuple[Mapping[str, str], ...]
    after: Mapping[str, str]
    at: float = field(default_factory=time.monotonic)


def parameters() -> dict[str, str]:
    """The address, by its fields.

    A run that the browser asked for before it knew of a move still brings the old address. It must not undo the move.
    """
    now = {name: str(value) for name, value in st.query_params.items()}
    move: Move | None = st.session_state.get(MOVED)
    if move is None or _page() != move.page or now == move.after or now not in move.before:
        return now
    # Going back asks for a whole page, and so does a browser that is led there; a clock asks for a part of it.
    run = get_script_run_ctx()
    late = run is not None and not run.fragment_ids_this_run and time.monotonic() - move.at > UNDER_WAY
    if run is None or run.is_history_navigation or late:
        del st.session_state[MOVED]
        return now
    st.query_params.from_dict(move.after)
    return dict(move.after)


def move_to(after: Mapping[str, str]) -> None:
    """Go to that address. For callbacks."""
    before, after = parameters(), dict(after)
    if before != after:
        last: Move | None = st.session_state.get(MOVED)
        earlier = last.before if last is not None and (last.page, last.after) == (_page(), before) else ()
        st.session_state[MOVED] = Move(_page(), (*earlier[-LONGEST:], before), after)
    st.query_params.from_dict(after)


def _page() -> str:
    run = get_script_run_ctx()
    return "" if run is None else run.page_script_hash


def put(key: str, value: Any) -> str:
    """Set a widget, only where it differs: setting it anew would wipe out what somebody is typing. Gives the key."""
    if key not in st.session_state or st.session_state[key] != value:
        st.session_state[key] = value
    return key


class Chooser:
    """Widgets for fields of an address.

    `name` begins the keys of the widgets; `go` writes fields by their names. A field of the address is text: several
    values are joined by a separator, a switch is "1" or empty.
    """

    def __init__(self, name: str, go: Callable[..., None]) -> None:
        self.name, self._go = name, go

    def go(self, **changes: str) -> None:
        """Change these fields. For callbacks."""
        self._go(**changes)

    def select(
        self,
        label: str,
        field: str,
        options: Sequence[str],
        chosen: T,
        *,
        named: Callable[[str], str] = str,
        empty: str = "",
        first: str = "",
        clears: Sequence[str] = (),
        **look: Any,
    ) -> T:
        """A select box. Nothing is chosen in it where `chosen` is no option.

        `empty` says what no choice means, so that the choice can be taken back. The option `first` is an empty field.
        `clears` are fields that become empty.
        """
        key = self._put(field, chosen if chosen in options else None)
        st.selectbox(
            label,
            options,
            None if empty or chosen not in options else 0,  # which one is chosen is in the widget's state
            format_func=named,
            key=key,
            on_change=self._write,
            args=(key, field, first, clears),
            **{"placeholder": empty or "Choose", **look},
        )
        return chosen

    def tabs(
        self, label: str, field: str, options: Mapping[str, str], chosen: str, *, first: str = "", **look: Any
    ) -> None:
        """Buttons in a row. Their labels are read as Markdown. The option `first` is an empty field."""
        key = self._put(field, chosen if chosen in options else None)

        def write() -> None:
            if st.session_state[key] is not None:  # the chosen one was clicked again
                self._write(key, field, first)

        look = {"label_visibility": "collapsed", **look}
        st.segmented_control(label, list(options), format_func=options.__getitem__, key=key, on_change=write, **look)

    def text(self, label: str, field: str, chosen: str, **look: Any) -> None:
        key = self._put(field, chosen)
        st.text_input(label, chosen, key=key, on_change=self._write, args=(key, field), **look)

    def number(
        self, label: str, field: str, chosen: float, most: float = 1000.0, step: float = 5.0, **look: Any
    ) -> None:
        key = self._put(field, chosen)
        write: dict[str, Any] = {"on_change": self._write, "args": (key, field)}
        st.number_input(label, 0.0, most, chosen, step, format="%g", key=key, **write, **look)

    def toggle(self, label: str, field: str, chosen: bool, **look: Any) -> None:
        key = self._put(field, chosen)
        st.toggle(label, chosen, key=key, on_change=self._write, args=(key, field), **look)

    def several(
        self,
        label: str,
        field: str,
        options: Sequence[str],
        chosen: Sequence[str],
        most: int,
        *,
        named: Callable[[str], str] = str,
        separator: str = ",",
        **look: Any,
    ) -> None:
        """Some of the options. What is chosen and no option is left out."""
        known = [each for each in chosen if each in options]
        key = self._put(field, known)
        write: dict[str, Any] = {"on_change": self._write, "args": (key, field, "", (), separator)}
        st.multiselect(label, options, known, format_func=named, key=key, max_selections=most, **write, **look)

    def _put(self, field: str, value: Any) -> str:
        key = put(f"{self.name}.{field}", value)
        st.session_state[_drawn(key)] = value
        return key

    def _write(self, key: str, field: str, first: str = "", clears: Sequence[str] = (), separator: str = ",") -> None:
        value = st.session_state[key]
        if value == st.session_state.get(_drawn(key)):
            return  # an echo of what the widget was set to must not undo a move made by another widget meanwhile
        match value:
            case bool():
                text = "1" if value else ""
            case float():
                text = f"{value:g}"
            case list():
                text = separator.join(value)
            case _:
                text = (value or "").strip()
        self.go(**{field: "" if text == first else text, **dict.fromkeys(clears, "")})


def _drawn(key: str) -> str:
    return f"{key} as drawn"


class Address(Chooser, Generic[S]):
    """The address of a page as its state, with widgets for its fields."""

    def __init__(self, name: str, state: type[S]) -> None:
        super().__init__(name, self.go)
        self.state = state

    def current(self) -> S:
        return self.state.of(parameters())

    def go(self, **changes: str) -> None:
        """Go to the current state with these changes. For callbacks."""
        move_to(self.current().replace(**changes).parameters())

    def widgets(self, name: str) -> Chooser:
        """The same address for widgets with keys of another name: a page may have two for one field."""
        return Chooser(name, self.go)
