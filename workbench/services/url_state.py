"""The state of a page as its address holds it: fields of a frozen dataclass, all of them text, empty by default.

Owns the conversion between an address and such a state. What the fields mean is decided by each page.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import ClassVar, Self
from urllib.parse import urlencode

LONGEST = 2000  # characters of a field; the rest of a longer one is ignored
LONGEST_NUMBER = 8  # digits of a page's number


@dataclass(frozen=True)
class UrlState:
    """What is selected on a page. `CLEARS` says for a field which others lose their meaning when it changes."""

    CLEARS: ClassVar[Mapping[str, tuple[str, ...]]] = {}

    @classmethod
    def of(cls, parameters: Mapping[str, str]) -> Self:
        return cls(**{each.name: parameters.get(each.name, "").strip()[:LONGEST] for each in fields(cls)})

    def parameters(self) -> dict[str, str]:
        """The address of this state; empty fields are left out."""
        return {name: value for name, value in asdict(self).items() if value}

    def replace(self, **changes: str) -> Self:
        """With these values, and without those that the changed fields clear."""
        cleared = {other: "" for name in changes for other in self.CLEARS.get(name, ())}
        return replace(self, **{**cleared, **changes})

    def link(self, page: str) -> str:
        """A link to this state of a page, from any other page."""
        return f"{page}?{urlencode(self.parameters())}"


def page_number(text: str) -> int:
    """The number of a page in a list, from 1; 1 where the text is no such number."""
    return max(1, int(text)) if text.isdecimal() and len(text) <= LONGEST_NUMBER else 1
