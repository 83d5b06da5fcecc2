"""What the address of the Variants page says, and what its names stand for. Knows no Streamlit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from core import presets
from core.errors import UnknownName
from evals.variants import SavedVariant
from workbench.behind.addressed import UrlState

VIEWS: Final = ("form", "toml", "difference", "sql")
FIRST: Final = "hybrid-retriever"


@dataclass(frozen=True)
class VariantsState(UrlState):
    """A view of the page, all of it text. `beside` is what it is held against; the last two are for its SQL."""

    variant: str = ""
    beside: str = ""
    view: str = ""
    collection: str = ""
    query: str = ""

    @property
    def shown(self) -> str:
        """What holds where the address does not say: a link with another variant beside is to their difference."""
        return self.view if self.view in VIEWS else "difference" if self.beside else VIEWS[0]


@dataclass(frozen=True, slots=True)
class Entry:
    """A variant of the page: a preset, or a kept one, with the text that it is written in."""

    name: str
    text: str
    kept: SavedVariant | None = None


def entry(name: str, own: Sequence[SavedVariant]) -> Entry:
    """What the name stands for: a preset comes before a kept one, as everywhere."""
    if name in presets.names():
        return Entry(name, (presets.FOLDER / f"{name}.toml").read_text(encoding="utf-8"))
    found = next((each for each in own if each.name == name), None)
    if found is None:
        raise UnknownName("variant", name, names(own))
    return Entry(name, found.text, found)


def names(own: Sequence[SavedVariant]) -> list[str]:
    return [*(each.name for each in own), *presets.names()]
