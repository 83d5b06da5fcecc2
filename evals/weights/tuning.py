"""Weights found honestly: chosen by labelled queries, scored by others, and refused where there are too few to tell.

Owns the choosing; surfaces are given, `tuned` says what came of it. What is chosen is a fusion (of the surfaces handed
over: methods, k, normalisations) and a point on it, both anew in every fold, so that neither flatters itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from core.errors import InputError, SpecError
from core.routing import classifiers
from evals.splits import Split
from evals.weights import crossfit, simplex
from evals.weights.surface import Surface
from evals.weights.tuned import Choice, Gain, Kinds, Procedure, Simple, Tuned, called, mean

__all__ = ["Choice", "Gain", "Kinds", "Procedure", "Tuned", "classified", "tune"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
DEFAULTS = Procedure()


def classified(split: Split, classifier: str = "rules") -> dict[str, str]:
    """Each query's kind as a search would see it."""
    teller = classifiers[classifier]()
    return {each: teller.classify(query.text) for each, query in split.queries.items()}


def tune(
    surfaces: Surface | Sequence[Surface],
    procedure: Procedure = DEFAULTS,
    *,
    kinds: Mapping[str, str] | None = None,
    offered: Sequence[Surface] = (),
) -> Tuned:
    """The best of all surfaces' points, and what it is worth. With kinds by query id, weights for each kind as well.

    `offered` are surfaces under other fusions, which are not tuned: their equal weights are to be beaten too.
    """
    given = (surfaces,) if isinstance(surfaces, Surface) else tuple(surfaces)
    _check(given)
    return _Tuner(given, procedure, kinds, tuple(offered)).tuned()


def _check(surfaces: tuple[Surface, ...]) -> None:
    if not surfaces:
        raise InputError("There is no surface to tune on. Sweep at least one fusion.")
    first = surfaces[0]
    for each in surfaces[1:]:
        for what in ("legs", "queries", "metric", "steps"):
            if getattr(each, what) != getattr(first, what):
                raise SpecError(f"Surfaces to choose from must have the same {what}. Sweep one split's legs alike.")
    if len(first.queries) < 2:
        raise InputError("One labelled query leaves none to score by. Label at least two, better fifty.")
    if crossfit.fold_count(2, len(first.queries), first.texts) < 2:
        raise InputError(
            f"All {len(first.queries)} labelled queries have the same text, so none is left to score by. Label others."
        )


class _Tuner:
    """One tuning, in steps."""

    def __init__(
        self,
        surfaces: tuple[Surface, ...],
        procedure: Procedure,
        kinds: Mapping[str, str] | None,
        offered: tuple[Surface, ...],
    ) -> None:
        first = surfaces[0]
        self.surfaces, self.procedure, self.offered = surfaces, procedure, offered
        self.size = len(first.grid)
        distance = simplex.from_centre(first.grid)
        self.options = crossfit.Options(
            np.concatenate([surface.values for surface in surfaces]), np.tile(distance, len(surfaces)), first.weights
        )
        self.kinds = None if kinds is None else tuple(kinds.get(query, "") for query in first.queries)
        self.count = crossfit.fold_count(procedure.folds, len(first.queries), first.texts)
        strata = first.kinds if self.kinds is None else self.kinds
        self.fold_of = crossfit.folds(strata, self.count, procedure.repeats, procedure.seed, first.texts)
        self.training = crossfit.training(self.fold_of, self.count)
        self.everything = np.ones((len(first.queries), 1))

    def tuned(self) -> Tuned:
        best = int(self.options.chosen(self.everything)[0])
        chosen = self.options.chosen(self.training)
        held_out = crossfit.held_out(self.options.values, chosen.reshape(-1, self.count), self.fold_of)
        names, simple = self._simple()
        first = int(simple.chosen(self.everything)[0])
        kept = simple.chosen(self.training).reshape(-1, self.count)
        return Tuned(
            self.surfaces,
            self.procedure,
            self._choice(best),
            float(self.options.means(self.everything)[best, 0]),
            held_out,
            crossfit.held_out(simple.values, kept, self.fold_of),
            Simple(names[first], float(simple.means(self.everything)[first, 0])),
            tuple(self._choice(int(option)) for option in chosen),
            None if self.kinds is None else self._by_kind(self.kinds, best, chosen),
            equal_fusion=max((*self.surfaces, *self.offered), key=lambda each: mean(each.untuned, each)).fusion,
        )

    def _simple(self) -> tuple[list[str], crossfit.Options]:
        """What one has without tuning: equal weights under each fusion, and each leg alone; of equals the first."""
        first = self.surfaces[0]
        corners = [int(np.flatnonzero(first.grid[:, leg] == first.steps)[0]) for leg in range(len(first.legs))]
        mixes = (*self.surfaces, *self.offered)
        names = [f"equal weights under {called(each.fusion)}" for each in mixes]
        names += [f"{leg} alone" for leg in first.legs]
        values = [each.untuned for each in mixes] + [first.values[corner] for corner in corners]
        return names, crossfit.Options(np.stack(values), np.arange(len(values)), first.weights)

    def _choice(self, option: int) -> Choice:
        surface, point = divmod(option, self.size)
        found = self.surfaces[surface]
        return Choice(surface, point, found.fusion, found.leg_weights(point))

    def _by_kind(self, kinds: tuple[str, ...], best: int, chosen: Ints) -> Kinds:
        points, used = self._points(kinds, best, self.everything[:, 0])
        scores = np.zeros(len(kinds))
        for column, option in enumerate(chosen.tolist()):
            repeat, fold = divmod(column, self.count)
            own, _ = self._points(kinds, option, self.training[:, column])
            for query in np.flatnonzero(self.fold_of[repeat] == fold):
                scores[query] += self._at(option, own.get(kinds[query]))[query]
        flattered = np.array([self._at(best, points.get(kind))[query] for query, kind in enumerate(kinds)])
        in_sample = mean(flattered, self.surfaces[0])
        return Kinds(kinds, points, used, scores / self.procedure.repeats, in_sample)

    def _points(self, kinds: Sequence[str], option: int, queries: Floats) -> tuple[dict[str, int], float]:
        """Each kind's point on the surface of the option, by these queries."""
        first = option // self.size * self.size
        within = self.options.within(np.arange(first, first + self.size))
        return crossfit.by_kind(within, kinds, queries, self.procedure.pull)

    def _at(self, option: int, point: int | None) -> Floats:
        """Scores at the option, or at a point of its surface."""
        row = option if point is None else option // self.size * self.size + point
        values: Floats = self.options.values[row]
        return values
