"""Weights chosen by a procedure, and what the choice is worth: cross-fitted, and against simple weights."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from core.errors import InputError, SpecError
from core.fusion import Fusion
from core.fusion.base import spec_of
from core.routing import Routing, classifiers
from core.variant import Variant
from evals.statistics import bootstrap, crossfit, significance
from evals.tuning import surface as tuning_surface
from evals.tuning.surface import Surface
from evals.types import QuerySplit

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class TuningProcedure(BaseModel):
    """How weights are tuned: to be fixed before a test split is scored."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    folds: int = Field(5, ge=2, le=100, description="Parts; each is scored by what the others choose.")
    repeats: int = Field(10, ge=1, le=1000, description="How often the queries are dealt into parts anew.")
    seed: int = Field(0, ge=0, description="Of the dealing and of the intervals.")
    fewest: int = Field(50, ge=2, description="Fewer labelled queries than these are too few to tune.")
    coarsest: float = Field(
        0.05, gt=0, description="Where no gain shows and one would have to be above this to show, labels are too few."
    )
    pull: float | None = Field(
        None, ge=0, description="Queries of a kind that weigh as much as all kinds; by default estimated in each fold."
    )
    samples: int = Field(2000, ge=100, description="Resamples of an interval.")
    level: float = Field(0.95, gt=0, lt=1, description="Of an interval.")


DEFAULT_PROCEDURE = TuningProcedure()


@dataclass(frozen=True, slots=True)
class WeightChoice:
    """A fusion and its legs' weights; `surface` and `point` say where they stand."""

    surface: int
    point: int
    fusion: Fusion
    weights: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Simple:
    """The best of what takes no tuning, equal weights or a leg alone, and its mean over these queries."""

    name: str
    mean: float


@dataclass(frozen=True, slots=True)
class Deeper:
    """What the chosen weights score with each leg at `depth`, where legs fetch less (`depths`, by their names)."""

    depths: Mapping[str, int]
    depth: int
    mean: float
    gain: float

    @property
    def sentence(self) -> str:
        fetched = sorted(set(self.depths.values()))
        own = str(fetched[0]) if len(fetched) == 1 else f"{fetched[0]} to {fetched[-1]}"
        return (
            f"Legs are {own} deep. Deeper would bring {self.gain:+.3f}: with legs {self.depth} deep, the same weights "
            f"score {self.mean:.3f} over these queries."
        )


@dataclass(frozen=True, slots=True)
class Gain:
    """What tuning gave on queries it had not seen, over the best of what takes no tuning. A true gain below
    `detectable` may be missed.

    The interval is over queries: the mean of the repeats' own, as dealing anew lessens the noise of the dealing and not
    that of the queries, made wider by folds / (folds - 1), as choices by shared queries err together. Nothing unbiased
    is to be had there (Bengio and Grandvalet 2004, JMLR 5); the factor is by trial: in three simulations 3% to 6% of
    95% intervals missed the truth, where plain ones over the repeats' mean missed 18%. `detectable` likewise.
    """

    value: float
    low: float
    high: float
    detectable: float


@dataclass(frozen=True, eq=False)
class Kinds:
    """Weights by kind: the points on the chosen surface, the pull towards the weights for all, the held-out scores."""

    of_query: tuple[str, ...] = field(repr=False)
    points: Mapping[str, int]
    pull: float
    held_out: Floats = field(repr=False)
    in_sample: float


@dataclass(frozen=True, eq=False)
class TuningResult:
    """The weights chosen, and what the choice is worth. `repeats` hold each query's score with weights chosen without
    it, a row for each dealing; `folds` are what was chosen.

    `simple` is the best of equal weights and single legs; `untuned` its scores, chosen like the weights without the
    queries that it is scored by. `deeper` is what deeper legs would bring; None where they are deep already.
    `equal_fusion` is that under which equal weights are best, of all on offer.
    """

    surfaces: tuple[Surface, ...] = field(repr=False)
    procedure: TuningProcedure
    chosen: WeightChoice
    in_sample: float
    repeats: Floats = field(repr=False)  # repeats x queries
    untuned: Floats = field(repr=False)  # repeats x queries
    simple: Simple
    folds: tuple[WeightChoice, ...] = field(repr=False)
    kinds: Kinds | None = None
    deeper: Deeper | None = None
    equal_fusion: Fusion | None = None

    @property
    def held_out(self) -> Floats:
        """Each query's score, the mean over the repeats."""
        made: Floats = self.repeats.mean(axis=0)
        return made

    @property
    def cross_fitted(self) -> float:
        """The score to expect of new queries; not to be believed where `too_few` says something."""
        return mean(self.held_out, self.surfaces[0])

    @property
    def optimism(self) -> float:
        """By how much the in-sample best flatters."""
        return self.in_sample - self.cross_fitted

    @property
    def spread(self) -> dict[str, tuple[float, float, float]]:
        """Each leg's least, mean and greatest weight over the folds: far apart, the labels do not say which."""
        drawn = {leg: [fold.weights[leg] for fold in self.folds] for leg in self.surfaces[0].legs}
        return {leg: (min(each), math.fsum(each) / len(each), max(each)) for leg, each in drawn.items()}

    @property
    def votes(self) -> dict[int, int]:
        """How many folds chose each surface."""
        return dict(sorted(Counter(fold.surface for fold in self.folds).items()))

    @property
    def gain(self) -> Gain | None:
        """What tuning is worth, None where labels are too few to say."""
        return None if self.too_few else self._measured

    @cached_property
    def _measured(self) -> Gain:
        procedure, weights = self.procedure, self.surfaces[0].weights
        low, high = bootstrap.intervals(
            self._differences, weights, samples=procedure.samples, level=procedure.level, seed=procedure.seed
        )
        value = float(significance.means(self._differences, weights).mean())
        wider = self._wider
        least, most = (value + wider * (float(end.mean()) - value) for end in (low, high))
        return Gain(value, least, most, self.detectable)

    @property
    def detectable(self) -> float:
        """The smallest true gain that these queries would show; not a number where tuning changed no score."""
        found = significance.detectable(self._differences, self.surfaces[0].weights)
        known = found[~np.isnan(found)]
        return self._wider * float(known.mean()) if known.size else math.nan

    @property
    def _wider(self) -> float:
        surface = self.surfaces[0]
        folds = crossfit.fold_count(self.procedure.folds, len(surface.queries), surface.texts)
        return folds / (folds - 1)

    @property
    def _differences(self) -> Floats:
        return self.repeats - self.untuned

    @property
    def too_few(self) -> str:
        """Why these labels cannot tell good weights from lucky ones, empty where they can."""
        surface = self.surfaces[0]
        worth = significance.effective_queries(surface.weights, len(surface.queries))
        if worth < self.procedure.fewest:
            return (
                f"Too few labels to tune: they are worth {worth:.0f} queries, and {self.procedure.fewest} are wanted. "
                "Label more, or keep the weights you have."
            )
        found = self._measured
        if found.low <= 0 <= found.high and found.detectable > self.procedure.coarsest:
            return (
                f"Too few labels to tune: with {len(surface.queries)} queries only a gain above "
                f"{found.detectable:.3f} could be told from luck, and {self.procedure.coarsest:g} is wanted. "
                "Label more, or keep the weights you have."
            )
        return ""

    @property
    def loss(self) -> str:
        """That less is to be expected of these weights than without tuning; empty where it is not."""
        if self._measured.value >= 0:
            return ""
        return (
            f"On unseen queries these weights are expected to lose {-self._measured.value:.4f} "
            f"{self.surfaces[0].metric} against {self.simple.name}."
        )

    def equal_weights(self, base: Variant, name: str) -> Variant:
        """The base with equal weights, under the fusion that is the best for them."""
        alike = dict.fromkeys(base.leg_names, 1.0)
        return base.weighted(alike, fusion=self.equal_fusion or base.fusion, name=name)

    def refusal(self, *, per_kind: bool = False) -> str:
        """Why these weights should not be taken; empty where nothing speaks against them."""
        why = self.too_few or self.loss
        if why or not per_kind or self.kinds is None:
            return why
        lost = mean(self.untuned.mean(axis=0), self.surfaces[0]) - mean(self.kinds.held_out, self.surfaces[0])
        if lost <= 0:
            return ""
        metric = self.surfaces[0].metric
        return f"On unseen queries weights by kind are expected to lose {lost:.4f} {metric} against {self.simple.name}."

    @property
    def verdict(self) -> str:
        """In a sentence or two."""
        gain = self.gain
        if gain is None:
            return self.too_few
        metric, level = self.surfaces[0].metric, f"{self.procedure.level:.0%}"
        found = f"{gain.value:+.4f} {metric} on unseen queries ({level}: {gain.low:+.4f} to {gain.high:+.4f})"
        promised = f"In-sample it looks like {self.in_sample - self.simple.mean:+.4f}."
        if gain.low > 0:
            return f"Tuning is worth it beside {self.simple.name}: {found}. {promised}"
        if gain.high < 0:
            return f"Tuning does harm: {found}. {promised} Keep {self.simple.name}."
        return f"Tuned weights and {self.simple.name} are too close to tell: {found}. {promised}"

    def variant(
        self, base: Variant, *, per_kind: bool = False, classifier: str = "rules", even_so: bool = False
    ) -> Variant:
        """The base with the fusion and weights found; its own routing goes, as it would put other weights in place.

        `even_so` gives the weights although labels are too few, or a loss is to be expected of them.
        """
        why = self.refusal(per_kind=per_kind)
        if why and not even_so:
            raise SpecError(
                f"{why} To have these weights even so, ask for them with --even-so (even_so=True in Python)."
            )
        if set(base.leg_names) != set(self.chosen.weights):
            raise SpecError(
                f"{base.name!r} has the legs {', '.join(base.leg_names)}, and weights were tuned for "
                f"{', '.join(self.chosen.weights)}. Take the variant that the legs were run for."
            )
        route = None
        if per_kind and self.kinds is None:
            raise SpecError("Weights by kind were not tuned. Tune with kinds, such as `classify_queries(split)`.")
        if per_kind and self.kinds is not None:
            if strange := sorted(set(self.kinds.points) - set(classifiers[classifier].kinds)):
                raise SpecError(
                    f"No classifier tells the kind {strange[0]!r} at search time: it is the labels' own. Tune with the "
                    f"kinds of {classifier!r}, which `classify_queries(split, {classifier!r})` gives."
                )
            surface = self.surfaces[self.chosen.surface]
            weights = {kind: surface.leg_weights(point) for kind, point in self.kinds.points.items()}
            route = Routing(classifier=classifier, weights=weights)
        return base.weighted(self.chosen.weights, fusion=self.chosen.fusion, route=route, name=f"{base.name}, tuned")


def mean(values: Floats, surface: Surface) -> float:
    """Weighted, over the surface's queries."""
    return float(significance.means(values[None, :], surface.weights)[0])


def fusion_label(fusion: Fusion) -> str:
    """The method with what of it is not as usual: "rrf, k 10"."""
    spec, usual = spec_of(fusion), spec_of(type(fusion)())
    changed = [f"{key} {value}" for key, value in spec.items() if key != "method" and value != usual[key]]
    scale = [str(spec["normalize"])] if spec.get("normalize") == usual.get("normalize", "") else []
    return ", ".join([str(spec["method"]), *scale, *changed])


def classify_queries(split: QuerySplit, classifier: str = "rules") -> dict[str, str]:
    """Each query's kind as a search would see it."""
    classify = classifiers[classifier]().classify
    return {each: classify(query.text) for each, query in split.queries.items()}


def tune(
    surfaces: Surface | Sequence[Surface],
    procedure: TuningProcedure = DEFAULT_PROCEDURE,
    *,
    kinds: Mapping[str, str] | None = None,
    offered: Sequence[Surface] = (),
) -> TuningResult:
    """The best of all surfaces' points, and what it is worth. With kinds by query id, weights for each kind as well.

    `offered` are surfaces under other fusions, which are not tuned: their equal weights are to be beaten too.
    """
    among = (surfaces,) if isinstance(surfaces, Surface) else tuple(surfaces)
    if not among:
        raise InputError("There is no surface to tune on. Sweep at least one fusion.")
    first = among[0]
    for each in among[1:]:
        for what in ("legs", "queries", "metric", "steps"):
            if getattr(each, what) != getattr(first, what):
                raise SpecError(f"Surfaces to choose from must have the same {what}. Sweep one split's legs alike.")
    if len(first.queries) < 2:
        raise InputError("One labelled query leaves none to score by. Label at least two, better fifty.")
    if crossfit.fold_count(2, len(first.queries), first.texts) < 2:
        raise InputError(
            f"All {len(first.queries)} labelled queries have the same text, so none is left to score by. Label others."
        )
    return _Tuner(among, procedure, kinds, tuple(offered)).tuned()


class _Tuner:
    """One tuning, in steps."""

    def __init__(
        self,
        surfaces: tuple[Surface, ...],
        procedure: TuningProcedure,
        kinds: Mapping[str, str] | None,
        offered: tuple[Surface, ...],
    ) -> None:
        first = surfaces[0]
        self.surfaces, self.procedure, self.offered = surfaces, procedure, offered
        self.size = len(first.grid)
        distance = tuning_surface.from_centre(first.grid)
        self.options = crossfit.ChoiceOptions(
            np.concatenate([surface.values for surface in surfaces]), np.tile(distance, len(surfaces)), first.weights
        )
        self.kinds = None if kinds is None else tuple(kinds.get(query, "") for query in first.queries)
        self.count = crossfit.fold_count(procedure.folds, len(first.queries), first.texts)
        strata = first.kinds if self.kinds is None else self.kinds
        self.fold_of = crossfit.folds(strata, self.count, procedure.repeats, procedure.seed, first.texts)
        self.training = crossfit.training(self.fold_of, self.count)
        self.everything = np.ones((len(first.queries), 1))

    def tuned(self) -> TuningResult:
        best = int(self.options.chosen(self.everything)[0])
        chosen = self.options.chosen(self.training)
        held_out = crossfit.held_out(self.options.values, chosen.reshape(-1, self.count), self.fold_of)
        # What one has without tuning: equal weights under each fusion, and each leg alone; of equals the first.
        base, mixes = self.surfaces[0], (*self.surfaces, *self.offered)
        corners = [int(np.flatnonzero(base.grid[:, leg] == base.steps)[0]) for leg in range(len(base.legs))]
        names = [f"equal weights under {fusion_label(each.fusion)}" for each in mixes]
        names += [f"{leg} alone" for leg in base.legs]
        values = [each.untuned for each in mixes] + [base.values[corner] for corner in corners]
        simple = crossfit.ChoiceOptions(np.stack(values), np.arange(len(values)), base.weights)
        first = int(simple.chosen(self.everything)[0])
        kept = simple.chosen(self.training).reshape(-1, self.count)
        return TuningResult(
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

    def _choice(self, option: int) -> WeightChoice:
        surface, point = divmod(option, self.size)
        found = self.surfaces[surface]
        return WeightChoice(surface, point, found.fusion, found.leg_weights(point))

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
