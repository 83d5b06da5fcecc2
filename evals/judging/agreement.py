"""Several judges: how far they agree, what one grade comes of them, and what a language model's grades are worth.

Pure: grades by judge go in, figures and sentences come out. Written by the formulas, as neither scipy nor numpy has
them: Cohen 1960 and 1968 for two judges, Krippendorff for any number of judges and any gaps.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

PairId = tuple[str, str]  # query and item
ByPair = Mapping[PairId, int]
Weights = Literal["none", "linear", "quadratic"]
Level = Literal["nominal", "ordinal", "interval"]
Floats = NDArray[np.float64]

# Landis & Koch, "The measurement of observer agreement for categorical data", Biometrics 33 (1977), 159-174.
_WORDS = ((0.8, "almost perfect"), (0.6, "substantial"), (0.4, "moderate"), (0.2, "fair"), (0.0, "slight"))


def in_words(agreement: float | None) -> str:
    if agreement is None:
        return "there is one grade only"
    return next((word for least, word in _WORDS if agreement > least), "none beyond chance")


def confusion(one: Sequence[int], other: Sequence[int]) -> tuple[list[int], NDArray[np.int64]]:
    """The grades there are, and how often the first judge gave the row's grade and the second the column's."""
    grades = sorted({*one, *other})
    place = {grade: at for at, grade in enumerate(grades)}
    table = np.zeros((len(grades), len(grades)), dtype=np.int64)
    for row, column in zip(one, other, strict=True):
        table[place[row], place[column]] += 1
    return grades, table


def cohen_kappa(one: Sequence[int], other: Sequence[int], weights: Weights = "none") -> float | None:
    """Agreement of two judges beyond chance; None where both gave one and the same grade throughout.

    Cohen, "A coefficient of agreement for nominal scales" (1960); with weights, "Weighted kappa" (1968): a disagreement
    counts by the distance of the grades, or by its square.
    """
    grades, table = confusion(one, other)
    if not len(one):
        return None
    observed = table / table.sum()
    chance = np.outer(observed.sum(axis=1), observed.sum(axis=0))
    cost = _cost(np.array(grades, dtype=np.float64), weights)
    expected = float((cost * chance).sum())
    return None if expected == 0 else 1.0 - float((cost * observed).sum()) / expected


def _cost(grades: Floats, weights: Weights) -> Floats:
    distance = np.abs(grades[:, None] - grades[None, :])
    if weights == "none":
        return (distance > 0).astype(np.float64)
    squared: Floats = np.square(distance)
    return distance if weights == "linear" else squared


def krippendorff_alpha(units: Iterable[Sequence[int]], level: Level = "ordinal") -> float | None:
    """Agreement of any number of judges: the grades of each unit, however many gave one. None without any spread.

    Krippendorff, "Computing Krippendorff's alpha-reliability" (2011): 1 - observed / expected disagreement, counted
    over pairs of grades of the same unit and over all pairs.
    """
    paired = [np.array(grades) for grades in units if len(grades) > 1]
    values = np.unique(np.concatenate(paired)) if paired else np.array([])
    if len(values) < 2:
        return None
    coincidences = np.zeros((len(values), len(values)))
    for grades in paired:
        counts = (grades[:, None] == values[None, :]).sum(axis=0)
        coincidences += (np.outer(counts, counts) - np.diag(counts)) / (len(grades) - 1)
    totals = coincidences.sum(axis=1)
    cost = _disagreement(values.astype(np.float64), totals, level)
    expected = (np.outer(totals, totals) - np.diag(totals)) / (totals.sum() - 1)
    return 1.0 - float((cost * coincidences).sum() / (cost * expected).sum())


def _disagreement(values: Floats, totals: Floats, level: Level) -> Floats:
    """The metric delta squared, sections C to E of the paper."""
    if level == "nominal":
        return _cost(values, "none")
    if level == "interval":
        return _cost(values, "quadratic")
    upto = np.cumsum(totals) - totals / 2  # an ordinal value stands in the middle of its share of all grades
    ordinal: Floats = np.square(upto[:, None] - upto[None, :])
    return ordinal


@dataclass(frozen=True, slots=True)
class TwoJudges:
    """Two judges over the pairs that both graded. `weighted` counts a disagreement by its square (quadratic)."""

    one: str
    other: str
    shared: int
    same: float
    kappa: float | None
    weighted: float | None
    grades: tuple[int, ...] = ()
    table: tuple[tuple[int, ...], ...] = ()

    @classmethod
    def of(cls, one: str, first: ByPair, other: str, second: ByPair) -> TwoJudges | None:
        """None where they share no pair."""
        shared = sorted(first.keys() & second.keys())
        if not shared:
            return None
        left, right = [first[pair] for pair in shared], [second[pair] for pair in shared]
        grades, table = confusion(left, right)
        return cls(
            one,
            other,
            len(shared),
            float(np.trace(table)) / len(shared),
            cohen_kappa(left, right),
            cohen_kappa(left, right, "quadratic"),
            tuple(grades),
            tuple(tuple(int(count) for count in row) for row in table),
        )

    def count(self, wanted: Callable[[int, int], bool]) -> int:
        """How many pairs have grades of which that is true."""
        return sum(
            self.table[row][column]
            for row, mine in enumerate(self.grades)
            for column, theirs in enumerate(self.grades)
            if wanted(mine, theirs)
        )


@dataclass(frozen=True, slots=True)
class Agreement:
    """Every two judges that share pairs; and all of them together, by Krippendorff's alpha for ordered grades."""

    judges: tuple[tuple[str, int], ...]
    two: tuple[TwoJudges, ...]
    shared: int  # pairs with two judges or more
    alpha: float | None

    def sentence(self) -> str:
        if not self.shared:
            return (
                "No pair has two judges yet, so there is no agreement to speak of. Have somebody grade the same pairs."
            )
        told = "cannot be told" if self.alpha is None else f"is {self.alpha:.2f}"
        return f"Over {self.shared} pairs with several judges, Krippendorff's alpha {told} ({in_words(self.alpha)})."


def agreement(by_judge: Mapping[str, ByPair]) -> Agreement:
    """The agreement of all judges given. Whether a model is among them is for the caller to say."""
    units: dict[PairId, list[int]] = defaultdict(list)
    for judge in sorted(by_judge):
        for pair, grade in by_judge[judge].items():
            units[pair].append(grade)
    two = [TwoJudges.of(a, by_judge[a], b, by_judge[b]) for a, b in combinations(sorted(by_judge), 2)]
    shared = [grades for _, grades in sorted(units.items()) if len(grades) > 1]
    counts = tuple((judge, len(given)) for judge, given in sorted(by_judge.items()))
    return Agreement(counts, tuple(each for each in two if each), len(shared), krippendorff_alpha(shared))


def settled_grade(grades: Sequence[int]) -> int:
    """One grade of several judges: the median, the lower of the two in the middle where their number is even.

    The lower, because a grade has to be agreed on by half of the judges at least.
    """
    return sorted(grades)[(len(grades) - 1) // 2]


@dataclass(frozen=True, slots=True)
class Calibration:
    """A model's grades held against people's: rows of the table are people's grades, columns the model's."""

    model: str
    compared: TwoJudges | None

    def sentence(self) -> str:
        found = self.compared
        if found is None:
            return (
                f"{self.model} has graded nothing that people have graded too: what its grades are worth is not known."
            )
        kappa = "cannot be told" if found.weighted is None else f"is {found.weighted:.2f}"
        higher, lower = (
            found.count(lambda people, model: model > people),
            found.count(lambda people, model: model < people),
        )
        both, mine, theirs = (
            found.count(lambda people, model: people > 0 and model > 0),
            found.count(lambda people, _: people > 0),
            found.count(lambda _, model: model > 0),
        )
        return (
            f"On {found.shared} pairs that people graded too, {self.model} gives the same grade on {found.same:.0%}; "
            f"weighted kappa {kappa} ({in_words(found.weighted)}). It grades {higher} higher and {lower} lower. Of "
            f"{mine} that people find relevant it finds {both}; of the {theirs} that it finds relevant, {both} are so."
        )

    def plain(self) -> dict[str, Any]:
        """As data, the sentence included."""
        found = self.compared
        figures = {} if found is None else {name: getattr(found, name) for name in found.__dataclass_fields__}
        return {"model": self.model, "sentence": self.sentence(), **figures}


def calibration(model: str, grades: ByPair, people: ByPair) -> Calibration:
    """How a model's grades compare with those of people on the pairs that both graded."""
    return Calibration(model, TwoJudges.of("people", people, model, grades))
