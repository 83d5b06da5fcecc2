"""What the address of the Collections page says. Knows neither Streamlit nor the store."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from workbench.behind.addressed import UrlState, page_number

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
