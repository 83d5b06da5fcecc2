"""What a measure is, which there are, and a metric: a measure with its cut-off and the like, as people write it.

A measure says everything about itself in one record. It must not know where rankings come from.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Literal, cast

import numpy as np
from numpy.typing import NDArray

from core.errors import SpecError, UnknownName
from evals.measures.ranks import Floats, Relevant, SeenRanks
from evals.measures.unjudged import JudgedHits

Level = Literal["items", "units"]  # of a ranking of chunks: the items of the chunks, or the chunks

DEFAULT_METRIC = "ndcg@10"
METRICS = (DEFAULT_METRIC, "recall@10", "mrr@10")  # of a table, where none are named


@dataclass(frozen=True, slots=True)
class HeldCharacters:
    """Characters: of the answers, of those that the passages hold, and of the passages, overlaps counted each time."""

    answers: int
    matched: int
    returned: int

    @property
    def recall(self) -> float:
        return self.matched / self.answers if self.answers else 0.0

    @property
    def precision(self) -> float:
        return self.matched / self.returned if self.returned else 0.0

    @property
    def iou(self) -> float:
        """Intersection over union: what was found, of the answers and all that was returned together."""
        union = self.answers + self.returned - self.matched
        return self.matched / union if union else 0.0


@dataclass(frozen=True, slots=True)
class Measure:
    """A way to score. `formula` is its documentation. One of `ranx`, `score` and `of_spans` computes it:

    - `ranx`, the name of a function of ranx.metrics; `obeys_cutoff` says whether ranx ends the ranking there;
    - `score`, given the grades of the hits, best first, None where nobody judged one, and all grades of the query;
    - `of_spans`, given the characters of the answers that the passages hold: such a measure needs answer spans.

    Of a measure that is not `graded`, grades are 0 or 1; those below a metric's least grade are 0 in any case. `most`
    is the greatest value there can be, None where there is none. A measure with `of_ranks` has a weight surface.
    `highest` is the most that a score can be where hits are unjudged, for measures that are not highest where all of
    these have the top grade.
    """

    formula: str
    ranx: str = ""
    score: Callable[[Sequence[int | None], Sequence[int]], float] | None = None
    of_spans: Callable[[HeldCharacters], float] | None = None
    graded: bool = False
    obeys_cutoff: bool = True
    most: float | None = 1.0
    of_ranks: Callable[[SeenRanks], Any] | None = None
    highest: Callable[[JudgedHits], float] | None = None


_REGISTERED: dict[str, Measure] = {}
MEASURES: Final[Mapping[str, Measure]] = MappingProxyType(_REGISTERED)


def register(name: str, measure: Measure) -> None:
    """The names are letters, digits, - and _, and begin with a letter."""
    if name in _REGISTERED:
        raise ValueError(f"the measure {name!r} is registered twice: {_REGISTERED[name]!r} and {measure!r}")
    _REGISTERED[name] = measure


CHUNKS = "chunk_"  # before a measure of labels: of chunks, by the labels that answer spans give them
_OF_CHUNKS = (
    " Of chunks in place of items: relevant is one that shares at least half of the shorter of the two with an answer "
    "span, and has that answer's grade; all such chunks of the variant's own chunk set count."
)
_FORM = re.compile(r"([a-z][a-z0-9_-]*)(?:\.(\d{1,3}))?(?:@(\d+))?(?::min(\d+))?")


@dataclass(frozen=True, slots=True)
class Metric:
    """A measure with its cut-off, its persistence (rbp alone), the least grade that counts as relevant, and its level.

    Written `ndcg@10`, `map`, `rbp.80@20`, `recall@100:min2`; at the level of chunks `chunk_ndcg@10`.
    """

    measure: str
    cutoff: int | None = None
    persistence: float | None = None
    least: int = 1
    level: Level = "items"

    def __post_init__(self) -> None:
        if self.measure not in MEASURES:
            raise UnknownName("metric", self.measure, MEASURES)
        if self.level == "units" and MEASURES[self.measure].of_spans:
            raise SpecError(f"{self.measure} is of chunks as it is: leave out {CHUNKS!r}.")
        for value, what in ((self.cutoff, "cut-off"), (self.least, "least grade")):
            if value is not None and value < 1:
                raise SpecError(f"The {what} of the metric {self.measure} is {value}; it must be 1 or more.")
        if self.measure != "rbp" and self.persistence is not None:
            raise SpecError(f"The metric {self.measure} has no persistence: only rbp has, as in rbp.80.")
        if self.measure == "rbp" and not 0 < round(self.persistence or 0, 3) == (self.persistence or 0) < 1:
            raise SpecError(
                "The metric rbp needs a persistence above 0 and below 1, written as in rbp.80 or rbp.95@20."
            )

    @classmethod
    def parse(cls, text: str) -> Metric:
        written = text.strip().lower()
        plain = written.removeprefix(CHUNKS)
        name, prefix = re.split(r"[@.:]", plain, maxsplit=1)[0], CHUNKS if plain != written else ""
        if name not in MEASURES:
            raise UnknownName("metric", prefix + name or text, [prefix + each for each in MEASURES])
        found = _FORM.fullmatch(plain)
        if found is None:
            raise SpecError(
                f"{text!r} is no metric. Behind {prefix}{name} may stand a cut-off and the least grade that counts as "
                f"relevant, whole numbers both: {prefix}{name}@10, {prefix}{name}@10:min2. rbp has its persistence "
                "first: rbp.80@20."
            )
        _, persistence, cutoff, least = found.groups()
        return cls(
            name,
            int(cutoff) if cutoff else None,
            float(f"0.{persistence}") if persistence else None,
            int(least) if least else 1,
            "units" if prefix else "items",
        )

    @classmethod
    def of(cls, metric: Metric | str) -> Metric:
        return cls.parse(metric) if isinstance(metric, str) else metric

    @property
    def most(self) -> float | None:
        """The greatest value there can be, None where there is none."""
        counted = self.measure == "hits" and self.cutoff is not None
        return self.cutoff if counted else MEASURES[self.measure].most

    def __str__(self) -> str:
        digits = f"{self.persistence:.3f}"[1:].removesuffix("0") if self.persistence is not None else ""
        cutoff = f"@{self.cutoff}" if self.cutoff is not None else ""
        least = f":min{self.least}" if self.least > 1 else ""
        return f"{CHUNKS if self.level == 'units' else ''}{self.measure}{digits}{cutoff}{least}"

    @property
    def explanation(self) -> str:
        """One line for a tooltip: the formula, the gain it uses, what is labelled, what cut-off and least grade do."""
        first = f" Of the first {self.cutoff} hits." if self.cutoff else ""
        least = f" Grades below {self.least} count as not relevant." if self.least > 1 else ""
        chunks = _OF_CHUNKS if self.level == "units" else ""
        return f"{MEASURES[self.measure].formula}{first}{least}{chunks}"


@dataclass(frozen=True, eq=False)
class RelevantRanks:
    """The place of each relevant item in each ranking, from 1, and 0 where it is not there: rankings x items.

    `deepest` is the last place that was looked at, None for all.
    """

    relevant: Relevant
    ranks: NDArray[np.int32]
    deepest: int | None = None

    def values(self, metric: Metric | str) -> Floats:
        """The metric, rankings x queries; 0 where no item of a query has the metric's least grade."""
        wanted = Metric.of(metric)
        cut = cut_off(wanted)
        if self.deepest is not None and (cut is None or cut > self.deepest):
            raise SpecError(f"{wanted} looks beyond place {self.deepest}, where this sweep ended. Sweep deeper for it.")
        counted = self.relevant.grades >= wanted.least
        seen = (self.ranks > 0) & (True if cut is None else self.ranks <= cut) & counted
        formula = cast("Callable[[SeenRanks], Floats]", MEASURES[wanted.measure].of_ranks)  # cut_off refuses others
        return formula(SeenRanks(self.relevant, self.ranks, seen, counted, cut))


def cut_off(metric: Metric | str) -> int | None:
    """The last place that a metric looks at; refuses one that does not follow from places."""
    wanted = Metric.of(metric)
    if MEASURES[wanted.measure].of_ranks is None or wanted.level != "items":
        known = [name for name, measure in MEASURES.items() if measure.of_ranks is not None]
        raise UnknownName("metric of a weight surface", str(wanted), known)
    if wanted.measure == "precision" and wanted.cutoff is None:
        raise SpecError("A weight surface of precision needs a cut-off, as in precision@10.")
    return wanted.cutoff
