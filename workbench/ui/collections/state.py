"""What is selected on the Collections page, as the address bar holds it, and ways to other pages."""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import urlencode

import streamlit as st

from workbench.behind.collections.asked import CollectionsState
from workbench.ui import address
from workbench.ui.address import put


def current() -> CollectionsState:
    return CollectionsState.of(address.said())


def go(**changes: str) -> None:
    """Change it. In a callback, so that the run that follows sees it from its first line."""
    address.move_to(current().but(**changes).parameters())


def goes(field: str) -> Callable[[str], None]:
    """What hears a value and puts it into one field."""
    return lambda value: go(**{field: value})


def chooser(
    label: str, field: str, options: Sequence[str], chosen: str, named: Callable[[str], str] = str, **shown: Any
) -> str:
    """A select box for one field of the address."""
    key = _shown(field, chosen if chosen in options else None)
    st.selectbox(
        label, options, format_func=named, key=key, placeholder="Choose", on_change=_followed(key, field), **shown
    )
    return chosen


def reader(
    label: str, field: str, options: Sequence[str], chosen: str, named: Callable[[str], str] = str, **shown: Any
) -> None:
    """As `chooser`, of something that need not be chosen: "" is either an option, or nothing."""
    key = _shown(field, chosen if chosen in options else None)
    first = 0 if chosen in options else None  # which one it is stands in the widget's state

    def follow() -> None:
        value = (st.session_state[key] or "").strip()
        if value not in (st.session_state.get(_drawn(key)) or "", getattr(current(), field)):
            go(**{field: value})

    st.selectbox(label, options, first, format_func=named, key=key, on_change=follow, **shown)


def tabs(label: str, field: str, options: dict[str, str], chosen: str | None) -> None:
    """Buttons in a row for one field of the address. Their words are ours: they are read as Markdown."""
    key = _shown(field, chosen)
    st.segmented_control(
        label,
        list(options),
        format_func=options.__getitem__,
        key=key,
        on_change=_followed(key, field),
        label_visibility="collapsed",
    )


def _shown(field: str, value: str | None) -> str:
    key = put(f"collections.{field}", value)
    st.session_state[_drawn(key)] = value
    return key


def _drawn(key: str) -> str:
    return f"{key} as drawn"


def _followed(key: str, field: str) -> Callable[[], None]:
    def follow() -> None:
        value = st.session_state[key]
        # None: the chosen one was clicked again. The same, or as drawn: an echo of what the widget was set to, which
        # must not undo a move that another widget made in the same breath.
        if value not in (None, st.session_state.get(_drawn(key)), getattr(current(), field)):
            go(**{field: value})

    return follow


def links(pages: dict[str, tuple[str, dict[str, str]]]) -> None:
    """Ways to other pages, by their words: a path beside this page's and what its address is to say."""
    made = [
        f'<a class="rb-link" href="./{path}?{html.escape(urlencode(said))}" target="_self">{html.escape(words)}</a>'
        for words, (path, said) in pages.items()
    ]
    st.html(f'<p class="rb-links">{" ".join(made)}</p>', width="content")


def links_of(name: str, *, labelled: bool, query_set: str = "") -> None:
    """Where to go with a collection."""
    search = {"Search it": ("", {"collection": name})}
    of_set = {"query_set": query_set} if query_set else {}
    links(search | ({"Evaluate it": ("weights", {"collection": name, **of_set})} if labelled else {}))
