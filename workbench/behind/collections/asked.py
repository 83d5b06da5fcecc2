"""What the address of the Collections page says. Knows neither Streamlit nor the store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Final

VIEWS: Final = ("about", "documents", "queries", "extend", "check", "out")
WAYS: Final = ("path", "public", "upload")  # to add a collection
LONGEST: Final = 1000
_BELOW: Final[dict[str, tuple[str, ...]]] = {  # what means nothing any more once the thing it belongs to is another
    "add": ("collection", "view", "find", "page", "document", "query", "chunks"),
    "collection": ("add", "view", "find", "page", "document", "query", "chunks"),
    "view": ("find", "page", "document", "query"),
    "find": ("page",),
}


@dataclass(frozen=True, slots=True)
class Asked:
    """A view of the page, all of it text. What is empty is left to its default.

    `find` and `page` are the filter and the page of the list on view; `document` and `query` are ids of what is open.
    """

    collection: str = ""
    view: str = ""
    find: str = ""
    page: str = ""
    document: str = ""
    query: str = ""
    chunks: str = ""
    add: str = ""

    @classmethod
    def of(cls, parameters: Mapping[str, str]) -> Asked:
        return cls(**{each.name: parameters.get(each.name, "")[:LONGEST] for each in fields(cls)})

    def parameters(self) -> dict[str, str]:
        """What the address bar has to say."""
        return {name: value for name, value in asdict(self).items() if value}

    def but(self, **changes: str) -> Asked:
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
    def number(self) -> int:
        """The page, counted from 1."""
        return max(1, int(self.page)) if self.page.isdecimal() and len(self.page) < 9 else 1
