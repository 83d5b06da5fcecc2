"""What is selected on the page Collections, as the address says it, and ways to other pages."""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import urlencode

import streamlit as st

from workbench.components import url_state
from workbench.components.url_state import put
from workbench.services.url_state import UrlState, page_number

VIEWS: Final = ("about", "documents", "queries", "ask", "extend", "check", "out")
WAYS: Final = ("path", "public", "upload", "attach")  # to add a collection
BYS: Final = ("write", "generate", "labels")  # queries and labels come in
_SHOWN: Final = ("view", "set", "by", "find", "page", "document", "query", "chunks")
_BELOW: Final[dict[str, tuple[str, ...]]] = {  # what means nothing any more once the thing it belongs to is another
    "add": ("collection", "table", "like", *_SHOWN),
    "collection": ("add", "table", "like", *_SHOWN),
    "like": ("table",),
    "view": ("by", "find", "page", "document", "query"),
    "set": ("find", "page", "query"),
    "find": ("page",),
}


@dataclass(frozen=True)
class CollectionsState(UrlState):
    """A view of the page, all of it text. What is empty is left to its default.

    `find` and `page` are the filter and the page of the list on view; `document` and `query` are ids of what is open.
    `set` is the query set, `by` the way in which queries come in; `like` and `table` say what is to be attached.
    """

    collection: str = ""
    view: str = ""
    find: str = ""
    page: str = ""
    document: str = ""
    query: str = ""
    chunks: str = ""
    set: str = ""
    by: str = ""
    add: str = ""
    like: str = ""
    table: str = ""

    def but(self, **changes: str) -> CollectionsState:
        """The same with other values, without what belonged to the old ones."""
        gone = {below: "" for name in changes for below in _BELOW.get(name, ())}
        return replace(self, **{**gone, **changes})

    @property
    def shown(self) -> str:
        return self.view if self.view in VIEWS else VIEWS[0]

    @property
    def way(self) -> str:
        return self.add if self.add in WAYS else ""

    @property
    def coming(self) -> str:
        """How queries come in."""
        return self.by if self.by in BYS else BYS[0]

    @property
    def number(self) -> int:
        """The page, counted from 1."""
        return page_number(self.page)


def current() -> CollectionsState:
    return CollectionsState.of(url_state.said())


def go(**changes: str) -> None:
    """Change it. In a callback, so that the run that follows sees it from its first line."""
    url_state.move_to(current().but(**changes).parameters())


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
