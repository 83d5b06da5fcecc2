"""What the address of the Runs page says, and which kept runs its filters leave. Knows no Streamlit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from evals.measures import METRICS
from evals.runs.run_store import RunSummary
from workbench.behind.addressed import UrlState, page_number
from workbench.behind.variants.stages import in_words

VIEWS: Final = ("scores", "made", "compare")
BY: Final = ("kind", "tag")
PAGE: Final = 10  # rows: what is open stands below them
FOREIGN: Final = "another engine's"


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


def pipeline(run: RunSummary) -> str:
    return in_words(run.variant) if run.variant else FOREIGN


def metrics_of(runs: Iterable[RunSummary]) -> list[str]:
    """Those that runs have scores of, the usual ones first. Beside them stand others under names with a blank."""
    there = dict.fromkeys(name for run in runs for name in run.scores if " " not in name)
    return sorted(there, key=lambda name: (METRICS.index(name) if name in METRICS else len(METRICS), name))


def found(runs: Sequence[RunSummary], words: str) -> list[RunSummary]:
    """Those in one of whose names, pin, collection, split, id or pipeline each of the words stands."""
    wanted = words.lower().split()
    return [run for run in runs if all(word in _text(run) for word in wanted)]


def _text(run: RunSummary) -> str:
    of = run.subject
    return "\n".join((run.name, *run.names, *run.pins, of.collection, of.split, run.id, pipeline(run))).lower()
