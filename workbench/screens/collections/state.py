"""What is selected on the page Collections, as its address holds it; and links to other pages."""

from __future__ import annotations

import html
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final
from urllib.parse import urlencode

import streamlit as st

from workbench.components.url_state import Address
from workbench.services.url_state import UrlState, page_number

VIEWS: Final = ("about", "documents", "queries", "ask", "extend", "check", "out")
WAYS: Final = ("path", "public", "upload", "attach")  # to add a collection
BYS: Final = ("write", "generate", "labels")  # queries and labels come in
_SHOWN: Final = ("view", "set", "by", "find", "page", "document", "query", "chunks")


@dataclass(frozen=True)
class CollectionsState(UrlState):
    """`find` and `page` are the filter and the page of the list; `document` and `query` are ids of what is open.

    `set` is the query set, `by` the way in which queries are added; `like` and `table` say what to attach.
    """

    CLEARS: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "add": ("collection", "table", "like", *_SHOWN),
        "collection": ("add", "table", "like", *_SHOWN),
        "like": ("table",),
        "view": ("by", "find", "page", "document", "query"),
        "set": ("find", "page", "query"),
        "find": ("page",),
    }

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

    @property
    def shown(self) -> str:
        return self.view if self.view in VIEWS else VIEWS[0]

    @property
    def way(self) -> str:
        return self.add if self.add in WAYS else ""

    @property
    def coming(self) -> str:
        """The way in which queries are added."""
        return self.by if self.by in BYS else BYS[0]

    @property
    def number(self) -> int:
        """The page of the list, from 1."""
        return page_number(self.page)


address = Address("collections", CollectionsState)


def links(pages: dict[str, tuple[str, dict[str, str]]]) -> None:
    """Links by their words: the page and the fields of its address."""
    made = [
        f'<a class="rb-link" href="./{path}?{html.escape(urlencode(said))}" target="_self">{html.escape(words)}</a>'
        for words, (path, said) in pages.items()
    ]
    st.html(f'<p class="rb-links">{" ".join(made)}</p>', width="content")


def links_of(name: str, *, labelled: bool, query_set: str = "") -> None:
    """Links to search and evaluate a collection."""
    search = {"Search it": ("", {"collection": name})}
    of_set = {"query_set": query_set} if query_set else {}
    links(search | ({"Evaluate it": ("weights", {"collection": name, **of_set})} if labelled else {}))
