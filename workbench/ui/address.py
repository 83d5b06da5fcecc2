"""Widgets that write one field of the address bar, and are set from it. What the fields mean is each page's own.

`page` begins the keys, so that pages do not share widgets. The address is the only truth: a change is made in the
callback, so that the run that follows sees it from its first line.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import streamlit as st


def said() -> dict[str, str]:
    return {name: str(value) for name, value in st.query_params.items()}


def go(**changes: str) -> None:
    """The address with these fields changed; an empty one is left out."""
    st.query_params.from_dict({name: value for name, value in {**said(), **changes}.items() if value})


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
    key = _set(page, field, None if at is None else chosen)
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
    key = _set(page, field, chosen)

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
    key = _set(page, field, chosen)
    st.text_input(label, chosen, key=key, on_change=_followed(key, field, ()), **shown)


def _set(page: str, field: str, value: str | None) -> str:
    """Only where it differs: setting it anew would wipe out what somebody is typing."""
    key = f"{page}.{field}"
    if key not in st.session_state or st.session_state[key] != value:
        st.session_state[key] = value
    return key


def _followed(key: str, field: str, clears: Sequence[str]) -> Callable[[], None]:
    def follow() -> None:
        go(**{field: (st.session_state[key] or "").strip(), **dict.fromkeys(clears, "")})

    return follow
