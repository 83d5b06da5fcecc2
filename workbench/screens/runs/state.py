"""What is selected on the page Runs, as its address holds it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from workbench.components.url_state import Address
from workbench.services.url_state import UrlState, page_number

VIEWS: Final = ("scores", "made", "compare")
BY: Final = ("kind", "tag")
PAGE: Final = 10  # rows: what is open stands below them


@dataclass(frozen=True)
class RunsState(UrlState):
    """A view of the page, all of it text. `run` and `beside` are ids, names or pins, as on the command line.

    `new` opens a way to make a run, `variants` are those to evaluate, one a line.
    """

    run: str = ""
    beside: str = ""
    view: str = ""
    metric: str = ""
    by: str = ""
    collection: str = ""
    split: str = ""
    find: str = ""
    page: str = ""
    new: str = ""
    variants: str = ""

    @property
    def shown(self) -> str:
        """What holds where the address does not say: a link with another run beside is to their comparison."""
        return self.view if self.view in VIEWS else "compare" if self.beside else VIEWS[0]

    @property
    def grouped(self) -> str:
        return self.by if self.by in BY else BY[0]

    @property
    def number(self) -> int:
        """The page, counted from 1."""
        return page_number(self.page)


address = Address("runs", RunsState)
