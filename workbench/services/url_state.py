"""A view as the address bar says it: the fields of a frozen dataclass, all of it text, of which empty is none.

Owns the way between an address and values, the same for every page. What the fields mean is each page's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Self

LONGEST = 2000  # characters of a field: whoever writes a longer address means no view of ours
LONGEST_NUMBER = 8  # digits of a page


@dataclass(frozen=True)
class UrlState:
    """What is selected on a page."""

    @classmethod
    def of(cls, parameters: Mapping[str, str]) -> Self:
        return cls(**{each.name: parameters.get(each.name, "").strip()[:LONGEST] for each in fields(cls)})

    def parameters(self) -> dict[str, str]:
        """What the address bar has to say."""
        return {name: value for name, value in asdict(self).items() if value}

    def but(self, **changes: str) -> Self:
        """The same with other values."""
        return replace(self, **changes)


def page_number(text: str) -> int:
    """A page as an address says it, counted from 1; the first where it says none."""
    return max(1, int(text)) if text.isdecimal() and len(text) <= LONGEST_NUMBER else 1
