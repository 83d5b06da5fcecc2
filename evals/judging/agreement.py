"""Agreement of several judges, the one grade that follows from theirs, and the worth of a language model's grades.

Pure functions of grades by judge. Cohen's kappa (1960, 1968) for two judges and Krippendorff's alpha for any number
are implemented here, as neither scipy nor numpy has them.
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


def agreement_word(agreement: float | None) -> str:
    if agreement is None:
        return "there is one grade only"
    return next((word for least, word in _WORDS if agreement > least), "none beyond chance")


def confusion(one: Sequence[int], other: Sequence[int]) -> tuple[list[int], NDArray[np.int64]]:
    """All grades, and how often the first judge gave the row's grade where the second gave the column's."""
    grades = sorted({*one, *other})
    place = {grade: at for at, grade in enumerate(grades)}
    table = np.zeros((len(grades), len(grades)), dtype=np.int64)
    for row, column in zip(one, other, strict=True):
        table[place[row], place[column]] += 1
    return grades, table


def cohen_kappa(one: Sequence[int], other: Sequence[int], weights: Weights = "none") -> float | None:
    """Agreement of two judges beyond chance; None if both gave one and the same grade throughout.

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
    """Agreement of any number of judges, by the grades of each unit; None if all grades are equal.

    Krippendorff, "Computing Krippendorff's alpha-reliability" (2011): 1 - observed / expected disagreement, counted
    over pairs of grades of the same unit and over all pairs; its metrics, delta squared, are in sections C to E.
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
    values = values.astype(np.float64)
    if level == "ordinal":  # a value stands in the middle of its share of all grades
        middles = np.cumsum(totals) - totals / 2
        cost = np.square(middles[:, None] - middles[None, :])
    else:
        cost = _cost(values, "none" if level == "nominal" else "quadratic")
    expected = (np.outer(totals, totals) - np.diag(totals)) / (totals.sum() - 1)
    return 1.0 - float((cost * coincidences).sum() / (cost * expected).sum())


@dataclass(frozen=True, slots=True)
class PairwiseAgreement:
    """Two judges on the pairs that both graded. `weighted` is kappa with quadratic weights."""

    one: str
    other: str
    shared: int
    same: float
    kappa: float | None
    weighted: float | None
    grades: tuple[int, ...] = ()
    table: tuple[tuple[int, ...], ...] = ()

    @classmethod
    def of(cls, one: str, first: ByPair, other: str, second: ByPair) -> PairwiseAgreement | None:
        """None if they share no pair."""
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

    def count(self, condition: Callable[[int, int], bool]) -> int:
        """How many pairs have two grades that satisfy a condition."""
        return sum(
            self.table[row][column]
            for row, first in enumerate(self.grades)
            for column, second in enumerate(self.grades)
            if condition(first, second)
        )


@dataclass(frozen=True, slots=True)
class Agreement:
    """Every two judges that share pairs, and all judges together by Krippendorff's alpha for ordered grades."""

    judges: tuple[tuple[str, int], ...]
    two: tuple[PairwiseAgreement, ...]
    shared: int  # pairs with two judges or more
    alpha: float | None

    def sentence(self) -> str:
        if not self.shared:
            return (
                "No pair has two judges yet, so there is no agreement to speak of. Have somebody grade the same pairs."
            )
        alpha = "cannot be told" if self.alpha is None else f"is {self.alpha:.2f}"
        word = agreement_word(self.alpha)
        return f"Over {self.shared} pairs with several judges, Krippendorff's alpha {alpha} ({word})."


def agreement(by_judge: Mapping[str, ByPair]) -> Agreement:
    """The agreement of all judges in the mapping, people and models alike."""
    units: dict[PairId, list[int]] = defaultdict(list)
    for judge in sorted(by_judge):
        for pair, grade in by_judge[judge].items():
            units[pair].append(grade)
    two = [PairwiseAgreement.of(a, by_judge[a], b, by_judge[b]) for a, b in combinations(sorted(by_judge), 2)]
    shared = [grades for _, grades in sorted(units.items()) if len(grades) > 1]
    counts = tuple((judge, len(grades)) for judge, grades in sorted(by_judge.items()))
    return Agreement(counts, tuple(each for each in two if each), len(shared), krippendorff_alpha(shared))


def settled_grade(grades: Sequence[int]) -> int:
    """One grade of several judges: the median, or of an even number the lower of the middle two.

    The lower one, because at least half of the judges have to agree on a grade.
    """
    return sorted(grades)[(len(grades) - 1) // 2]


@dataclass(frozen=True, slots=True)
class Calibration:
    """A model's grades compared with people's: rows of the table are people's grades, columns the model's."""

    model: str
    compared: PairwiseAgreement | None

    def sentence(self) -> str:
        pairs = self.compared
        if pairs is None:
            return (
                f"{self.model} has graded nothing that people have graded too: what its grades are worth is not known."
            )
        kappa = "cannot be told" if pairs.weighted is None else f"is {pairs.weighted:.2f}"
        higher = pairs.count(lambda people, model: model > people)
        lower = pairs.count(lambda people, model: model < people)
        both = pairs.count(lambda people, model: people > 0 and model > 0)
        by_people = pairs.count(lambda people, _: people > 0)
        by_model = pairs.count(lambda _, model: model > 0)
        return (
            f"On {pairs.shared} pairs that people graded too, {self.model} gives the same grade on {pairs.same:.0%}; "
            f"weighted kappa {kappa} ({agreement_word(pairs.weighted)}). It grades {higher} higher and {lower} lower. "
            f"Of {by_people} that people find relevant it finds {both}; of the {by_model} that it finds relevant, "
            f"{both} are so."
        )

    def plain(self) -> dict[str, Any]:
        """As JSON, the sentence included."""
        pairs = self.compared
        figures = {} if pairs is None else {name: getattr(pairs, name) for name in pairs.__dataclass_fields__}
        return {"model": self.model, "sentence": self.sentence(), **figures}


def calibration(model: str, grades: ByPair, people: ByPair) -> Calibration:
    """How a model's grades compare with those of people on the pairs that both graded."""
    return Calibration(model, PairwiseAgreement.of("people", people, model, grades))
