"""The verdict on a pair of systems: better, worse, tied within x, or too few queries to tell.

Owns the rules, the words and the marks; it must not compute statistics. In this order:

- too few: the queries are worth fewer than `fewest` equal ones;
- better, worse: the interval of the difference leaves 0 out, which it does just where p is at most 1 - level (0.05);
- tied: the whole interval lies within +-`tie`, or every query scores the same;
- too few: everything else. How large a difference would have been seen is said with it.

Intervals and p values hold for all that is looked at together (`simultaneous`): there is nothing left to correct.

A tie is thus a finding of its own, not the lack of one (two one-sided tests: Schuirmann 1987, doi:10.1007/BF01068419;
the interval of `level` in place of 2 * level - 1 is on the careful side).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field, model_validator

FORMER = ("test", "correction")  # options of before one procedure gave interval and verdict: read, and passed over


class Rules(BaseModel):
    """How differences are judged."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    level: float = Field(0.95, gt=0, lt=1, description="Of intervals, which hold all at once.")
    tie: float = Field(
        0.02,
        gt=0,
        description="Differences up to this do not matter. By default under half of the 0.05 that are noticeable "
        "(Sparck Jones 1974, Journal of Documentation 30(4)), for metrics from 0 to 1.",
    )
    fewest: int = Field(
        20,
        ge=2,
        description="Fewer queries tell nothing. 20 leave 1 chance in 20 to meet none of what happens in 1 query of 7.",
    )
    power: float = Field(0.8, gt=0, lt=1, description="The chance with which a detectable difference is found.")
    samples: int = Field(10_000, ge=100, description="Draws of signs, and resamples of a bootstrap.")
    seed: int = Field(0, ge=0, description="The same seed gives the same numbers.")

    @model_validator(mode="before")
    @classmethod
    def _passes_over_former_options(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        return {name: value for name, value in given.items() if name not in FORMER}


class Verdict(StrEnum):
    """For machines; a finding's sentence is for people."""

    BETTER = "better"
    WORSE = "worse"
    TIED = "tied"
    TOO_FEW = "too few"
    NONE = "none"  # of what decides nothing, however many queries there are

    @property
    def opposite(self) -> Verdict:
        return {Verdict.BETTER: Verdict.WORSE, Verdict.WORSE: Verdict.BETTER}.get(self, self)


MARKS: Final[Mapping[str, str]] = {
    Verdict.BETTER: "▲",
    Verdict.WORSE: "▼",
    Verdict.TIED: "=",
    Verdict.TOO_FEW: "?",
}
MEANINGS: Final[Mapping[str, str]] = {
    Verdict.BETTER: "better",
    Verdict.WORSE: "worse",
    Verdict.TIED: "tied",
    Verdict.TOO_FEW: "too few queries to tell",
}
TOP: Final = "the best, or too close to the best to tell"  # what a table marks in each column


def legend(baseline: str, top: str = "*") -> str:
    """What the marks of a table mean, the same everywhere; `top` is how the best are marked there."""
    told = ", ".join(f"{mark} {MEANINGS[verdict]}" for verdict, mark in MARKS.items())
    return f"{top} {TOP}. Against {baseline}: {told}."


@dataclass(frozen=True, slots=True)
class Difference:
    """A system minus a baseline over the same queries, in numbers. None: too few queries, or no spread, to know it.

    `effective` is what weighted queries are worth in equal ones; `among` how many differences were looked at together,
    for all of which the interval and `p` hold.
    """

    system: str
    baseline: str
    queries: int
    effective: float
    mean: float | None
    low: float | None
    high: float | None
    p: float
    effect: float | None
    wins: int
    ties: int
    losses: int
    detectable: float | None
    among: int = 1

    def flipped(self) -> Difference:
        """The baseline minus the system."""
        return replace(
            self,
            system=self.baseline,
            baseline=self.system,
            mean=_minus(self.mean),
            low=_minus(self.high),
            high=_minus(self.low),
            effect=_minus(self.effect),
            wins=self.losses,
            losses=self.wins,
        )


@dataclass(frozen=True, slots=True)
class Finding:
    """A difference, judged. `sentence` names both systems and ends in a full stop."""

    difference: Difference
    verdict: Verdict
    sentence: str

    def undecided(self, why: str) -> Finding:
        """The same without a verdict, and why there is none."""
        mean = self.difference.mean
        seen = "" if mean is None else f" ({self.difference.system} {mean:+.3f} against {self.difference.baseline})"
        return replace(self, verdict=Verdict.NONE, sentence=f"{why}: the difference decides nothing{seen}.")


def found(difference: Difference, rules: Rules) -> Finding:
    verdict = judged(difference, rules)
    return Finding(difference, verdict, _sentence(difference, verdict, rules))


def judged(difference: Difference, rules: Rules) -> Verdict:
    """By the rules at the head of this module."""
    low, high = difference.low, difference.high
    if low is None or high is None or difference.effective < rules.fewest - 1e-9:
        return Verdict.TOO_FEW
    if difference.ties == difference.queries:
        return Verdict.TIED
    if low > 0 or high < 0:
        return Verdict.BETTER if low > 0 else Verdict.WORSE
    return Verdict.TIED if -rules.tie <= low and high <= rules.tie else Verdict.TOO_FEW


def alongside_best(means: Mapping[str, float], better: Callable[[str, str], bool]) -> tuple[str, ...]:
    """The systems that none of these is surely better than, by falling mean and then name: a table's top group.

    Some are tied with the best and of some too little is known; `better(one, other)` tells what is sure.
    """
    top: list[str] = []
    for name in sorted(means, key=lambda name: (-means[name], name)):
        if not any(better(one, name) for one in top):
            top.append(name)
    return tuple(top)


def queries_to_see(size: float, difference: Difference) -> int | None:
    """Queries it would take to detect a difference of this size, going by this pair's spread. None: unknown."""
    if difference.detectable is None:
        return None
    return math.ceil(difference.queries * (difference.detectable / size) ** 2)


def _minus(value: float | None) -> float | None:
    return None if value is None else 0.0 - value  # 0 stays 0, and not -0


def _sentence(difference: Difference, verdict: Verdict, rules: Rules) -> str:
    known = difference
    weight = f", which weigh as {known.effective:.0f} equal ones" if known.effective < known.queries - 0.5 else ""
    queries = f"{known.queries} {'query' if known.queries == 1 else 'queries'}{weight}"
    if verdict == Verdict.TIED and known.ties == known.queries:
        return f"{known.system} and {known.baseline} score the same on all {queries}: tied."
    if known.mean is None or known.low is None:
        pair = f"{known.system} from {known.baseline}"
        if known.mean is None:
            return f"Nothing tells {pair}: there is no query that both were scored on."
        return f"Too few queries to tell {pair}: there is one, which says nothing of others."
    together = f" of {known.among} seen together" if known.among > 1 else ""
    interval = f"{100 * rules.level:g}% interval{together} {known.low:+.3f} to {known.high:+.3f}"
    numbers = f"difference {known.mean:+.3f}, {interval}"
    outcomes = f"{queries}: {known.wins} won, {known.ties} equal, {known.losses} lost"
    if verdict == Verdict.TIED:
        return f"{known.system} and {known.baseline} are tied within {rules.tie:g} ({numbers}; {outcomes})."
    if verdict == Verdict.TOO_FEW:
        return (
            f"Too few queries to tell {known.system} from {known.baseline}: {_missing(known, rules, numbers, queries)}"
        )
    p = "< 0.001" if known.p < 0.001 else f"= {known.p:.3f}"
    size = abs(known.mean)
    small = f" It is a small difference: under {rules.tie:g}." if size < rules.tie else ""
    return f"{known.system} is {verdict} than {known.baseline} by {size:.3f} ({interval}, p {p}; {outcomes}).{small}"


def _missing(difference: Difference, rules: Rules, numbers: str, queries: str) -> str:
    """What a verdict would take."""
    if difference.effective < rules.fewest - 1e-9:
        return f"a verdict takes {rules.fewest} ({numbers}; {queries})."
    if difference.detectable is None:
        return f"the difference is {difference.mean:+.3f} on each of {queries}."
    needed = queries_to_see(rules.tie, difference)
    more = f" To see {rules.tie:g} takes about {needed}." if needed and needed > difference.queries else ""
    return f"a difference under {difference.detectable:.3f} cannot be seen with {queries} ({numbers}).{more}"
