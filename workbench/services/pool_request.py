"""What somebody judges: whose session it is, which pool of which runs, and what can be chosen for it."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Final, Self
from urllib.parse import urlencode

from evals.judging.queue import QueueSpec
from evals.runs.run_store import SHOWN, RunSummary
from evals.variants import every_name
from workbench.services.url_state import UrlState

PAGE: Final = "judge"  # the page's path
LONGEST_NAME: Final = 100
DEPTHS: Final = ("5", "10", "20", "50", "100")
DEPTH: Final = "10"
METRICS: Final = ("ndcg@10", "precision@10", "recall@10")
SITTINGS: Final = ("25", "50", "100", "250")
SITTING: Final = "50"
LISTED: Final = 2000  # pairs of a pool that lists by query are made of
SEPARATOR: Final = "\n"


@dataclass(frozen=True)
class JudgeState(UrlState):
    """A sitting, all of it text. `variants` are names of variants or ids of kept runs, one a line.

    `what` is "settle" for what would tell two of them apart soonest, else the pool; `layout` is "list" for a list a
    query, else one document at a time. `again` asks for what others have judged too. `begun` says that it goes on.
    """

    collection: str = ""
    query_set: str = ""
    split: str = ""
    judge: str = ""
    what: str = ""
    variants: str = ""
    depth: str = ""
    metric: str = ""
    many: str = ""
    again: str = ""
    layout: str = ""
    begun: str = ""

    @classmethod
    def of(cls, parameters: Mapping[str, str]) -> Self:
        said = super().of(parameters)
        return said.but(judge=said.judge[:LONGEST_NAME].strip())

    @property
    def link(self) -> str:
        """From any page beside it."""
        return f"{PAGE}?{urlencode(self.parameters())}"

    @property
    def entries(self) -> list[str]:
        return list(dict.fromkeys(each for each in self.variants.split(SEPARATOR) if each.strip()))

    @property
    def settles(self) -> bool:
        return self.what == "settle"

    @property
    def lists(self) -> bool:
        return self.layout == "list"

    @property
    def missing(self) -> str:
        """What is still to be chosen before anybody can begin; empty where nothing is."""
        if not self.judge:
            return "Say who judges."
        if self.settles and len(self.entries) != 2:
            return "Choose the two that are to be told apart."
        return "" if self.entries else "Choose the variants whose results are judged."

    @property
    def pool(self) -> tuple[str, ...]:
        """What a sitting hangs on: two that are equal in it are the same sitting, in whatever window."""
        return tuple(value for name, value in asdict(self).items() if name != "begun")

    @property
    def most(self) -> int:
        """How many pairs a sitting holds."""
        return _number(self.many, SITTING, 1000)

    @property
    def deep(self) -> int:
        return _number(self.depth, DEPTH, 1000)

    def spec(self) -> QueueSpec:
        """The queue. Judges get orders of their own, so that two at work at once meet late and not at every document.

        What would settle two runs is as much as would be enough: the sitting says where that is more than it holds.
        """
        return QueueSpec.model_validate(
            {
                "order": "settle" if self.settles else "depth",
                "metric": self.metric or METRICS[0],
                "depth": self.deep,
                "limit": None if self.settles else LISTED if self.lists else self.most,
                "seed": order_of(self.judge),
                "again": bool(self.again),
            }
        )


def order_of(judge: str) -> int:
    """The seed of a judge's order."""
    return zlib.crc32(judge.encode())


def joined(entries: Iterable[str]) -> str:
    return SEPARATOR.join(entries)


def _number(text: str, usual: str, most: int) -> int:
    """What an address says in words is left to the default."""
    given = text if text.isdecimal() and len(text) <= 4 and int(text) else usual
    return min(int(given), most)


LEAST = 8  # characters of an id that an address may shorten it to


def choices(kept: Iterable[RunSummary], asked: JudgeState) -> dict[str, str]:
    """What the address calls each, and what people do, in the order in which they are offered."""
    fitting = [run for run in kept if _fits(run, asked)]
    newest = sorted(fitting, key=lambda run: (run.made_at, run.id), reverse=True)
    return {**{name: name for name in every_name()}, **{run.id: told(run) for run in newest}}


def chosen(entries: Iterable[str], offered: Mapping[str, str]) -> list[str]:
    """Those of an address that are offered; an id may be shortened. The others running tells."""
    found = (_whole(entry, offered) for entry in entries)
    return list(dict.fromkeys(each for each in found if each in offered))


def told(run: RunSummary) -> str:
    """With its date, by which runs of one name are told apart."""
    return f"Run of {_moment(run.made_at)}: {run.name} ({run.id[:SHOWN]})"


def _moment(when: datetime) -> str:
    return f"{when.astimezone():%Y-%m-%d %H:%M}"


def _fits(run: RunSummary, asked: JudgeState) -> bool:
    return run.subject.split == asked.split and run.subject.query_set == asked.query_set


def _whole(entry: str, offered: Mapping[str, str]) -> str:
    if entry in offered or len(entry) < LEAST:
        return entry
    runs = (key for key, shown in offered.items() if shown != key)
    return next((key for key in runs if key.startswith(entry)), entry)
