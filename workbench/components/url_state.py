"""What the address bar says, moves to another address, and widgets that write one field of it and are set from it.

What the fields mean is each page's own; `page` begins the keys of widgets, so that pages do not share any. The address
is the only truth: a change is made in the callback, so that the run that follows sees it from its first line.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

MOVED = "address.moved"
UNDER_WAY = 0.6  # seconds in which a whole page may still be asked for by a browser that has not heard of a move
LONGEST = 8  # moves in a row that are remembered


@dataclass(frozen=True, slots=True)
class Move:
    """From an address of a page to another, by way of those that the browser may not have heard of either."""

    page: str
    before: tuple[Mapping[str, str], ...]
    after: Mapping[str, str]
    at: float = field(default_factory=time.monotonic)


def said() -> dict[str, str]:
    """What it says.

    A run that the browser asked for before it heard of a move still brings the address from before: it must not undo
    the move.
    """
    now = {name: str(value) for name, value in st.query_params.items()}
    move: Move | None = st.session_state.get(MOVED)
    if move is None or _page() != move.page or now == move.after or now not in move.before:
        return now
    if _was_heard(move):
        del st.session_state[MOVED]
        return now
    st.query_params.from_dict(move.after)
    return dict(move.after)


def move_to(parameters: Mapping[str, str]) -> None:
    """That address. In a callback."""
    before, after = said(), dict(parameters)
    if before != after:
        last: Move | None = st.session_state.get(MOVED)
        earlier = last.before if last is not None and (last.page, last.after) == (_page(), before) else ()
        st.session_state[MOVED] = Move(_page(), (*earlier[-LONGEST:], before), after)
    st.query_params.from_dict(after)


def go(**changes: str) -> None:
    """The address with these fields changed; an empty one is left out."""
    move_to({name: value for name, value in {**said(), **changes}.items() if value})


def _was_heard(move: Move) -> bool:
    """Whether the browser means the address from before. Its way back asks for a whole page; a clock, for a part."""
    run = get_script_run_ctx()
    if run is None or run.is_history_navigation:
        return True
    return not run.fragment_ids_this_run and time.monotonic() - move.at > UNDER_WAY


def _page() -> str:
    run = get_script_run_ctx()
    return "" if run is None else run.page_script_hash


def chooser(
    page: str,
    label: str,
    field: str,
    options: Sequence[str],
    chosen: str,
    *,
    named: Callable[[str], str] = str,
    empty: str = "",
    clears: Sequence[str] = (),
    **shown: Any,
) -> None:
    """A select box. Without a choice where the address names what is not there; `clears` are fields that go with it.

    Where `empty` says what none means, the choice can be taken back.
    """
    at = list(options).index(chosen) if chosen in options else None
    key = put(f"{page}.{field}", None if at is None else chosen)
    st.selectbox(
        label,
        options,
        None if empty else at,
        format_func=named,
        key=key,
        placeholder=empty or "Choose",
        on_change=_followed(key, field, clears),
        **shown,
    )


def tabs(page: str, label: str, field: str, options: Mapping[str, str], chosen: str) -> None:
    """Buttons in a row. Their words are ours: Streamlit reads them as Markdown."""
    key = put(f"{page}.{field}", chosen)

    def follow() -> None:
        if (value := st.session_state[key]) is not None:  # the chosen one clicked again
            go(**{field: value})

    st.segmented_control(
        label,
        list(options),
        default=chosen if chosen in options else None,
        format_func=options.__getitem__,
        key=key,
        on_change=follow,
        label_visibility="collapsed",
    )


def text(page: str, label: str, field: str, chosen: str, **shown: Any) -> None:
    key = put(f"{page}.{field}", chosen)
    st.text_input(label, chosen, key=key, on_change=_followed(key, field, ()), **shown)


def put(key: str, value: Any) -> str:
    """Set a widget, only where it differs: setting it anew would wipe out what somebody is typing. Gives the key."""
    if key not in st.session_state or st.session_state[key] != value:
        st.session_state[key] = value
    return key


def _followed(key: str, field: str, clears: Sequence[str]) -> Callable[[], None]:
    def follow() -> None:
        go(**{field: (st.session_state[key] or "").strip(), **dict.fromkeys(clears, "")})

    return follow
