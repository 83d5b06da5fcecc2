"""The view model of a weight surface: every point, the best of them, and in sentences what it is worth.

The figures are computed in `evals.tuning`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.fusion.base import spec_of
from evals.display import DisplayModel
from evals.tuning.surface import BAND, Surface
from evals.tuning.tuner import Deeper, TuningResult, fusion_label, mean


@dataclass(frozen=True, slots=True)
class SurfacePoint:
    """One mix of weights. `tied` says that these queries cannot tell it from the best."""

    weights: Mapping[str, float]
    mean: float
    tied: bool
    best: bool


class KindOptimum(DisplayModel):
    """The weights for one kind of query."""

    kind: str
    queries: int
    weights: dict[str, float]


class FusionMeans(DisplayModel):
    """One fusion's means over the simplex: points x legs in whole shares of the surface's steps.

    `best` is the number of its best point; `votes` of how many folds the choice fell on it, None without tuning.
    """

    name: str
    spec: dict[str, Any]
    grid: tuple[tuple[int, ...], ...]
    means: tuple[float, ...]
    best: int
    votes: int | None = None


class WeightSurface(DisplayModel):
    """The weights of a hybrid's legs. Where they were only swept, what tuning gives is None or empty.

    `chosen` is the number of the fusion with the best point of all, and `tied` belong to its points; `folds` are the
    points chosen on it by parts of the queries.
    """

    name: str
    metric: str
    legs: tuple[str, ...]
    steps: int
    queries: int
    fusions: tuple[FusionMeans, ...]
    chosen: int
    tied: tuple[bool, ...]
    equal_weights: float
    in_sample: float
    oracle: float
    cross_fitted: float | None = None
    folds: tuple[int, ...] = ()
    kinds: tuple[KindOptimum, ...] = ()
    sentences: tuple[str, ...] = ()
    verdict: str = ""
    too_few: str = ""
    deeper: Deeper | None = None

    @property
    def best(self) -> FusionMeans:
        """The fusion that was chosen."""
        return self.fusions[self.chosen]

    def weights_at(self, point: int, fusion: FusionMeans | None = None) -> dict[str, float]:
        shares = (fusion or self.best).grid[point]
        return {leg: share / self.steps for leg, share in zip(self.legs, shares, strict=True)}

    @property
    def points(self) -> Iterator[SurfacePoint]:
        """Those of the chosen fusion."""
        for at, (each, tied) in enumerate(zip(self.best.means, self.tied, strict=True)):
            yield SurfacePoint(self.weights_at(at), each, tied, at == self.best.best)

    def document(self) -> dict[str, Any]:
        """Everything, for a machine: every point of every surface."""
        return {
            "metric": self.metric,
            "queries": self.queries,
            "chosen": {"fusion": self.best.spec, "weights": self.weights_at(self.best.best)},
            "in_sample": self.in_sample,
            "cross_fitted": self.cross_fitted,
            "optimism": None if self.cross_fitted is None else self.in_sample - self.cross_fitted,
            "too_few": self.too_few,
            "verdict": self.verdict,
            "deeper": asdict(self.deeper) if self.deeper else None,
            "oracle": self.oracle,
            "points": [asdict(point) for point in self.points],
            "surfaces": [
                {
                    "fusion": each.spec,
                    "weights": (np.array(each.grid) / self.steps).tolist(),
                    "means": list(each.means),
                }
                for each in self.fusions
            ],
            "kinds": [each.model_dump() for each in self.kinds],
            "sentences": self.sentences,
        }


def weights_text(weights: Mapping[str, float]) -> str:
    """vector 0.65, bm25 0.35."""
    return ", ".join(f"{leg} {weight:.3g}" for leg, weight in weights.items())


def weight_surface(name: str, result: Surface | TuningResult) -> WeightSurface:
    """Of a surface that was only swept, or of tuning."""
    tuned = result if isinstance(result, TuningResult) else None
    surfaces = tuned.surfaces if tuned else (result,) if isinstance(result, Surface) else ()
    chosen = tuned.chosen.surface if tuned else 0
    first, best = surfaces[0], surfaces[chosen]
    band = best.tied(level=tuned.procedure.level, seed=tuned.procedure.seed) if tuned else best.tied()
    fusions = tuple(
        FusionMeans(
            name=fusion_label(each.fusion),
            spec=spec_of(each.fusion),
            grid=tuple(tuple(point) for point in each.grid.tolist()),
            means=tuple(each.means.tolist()),
            best=tuned.chosen.point if tuned and at == chosen else each.best,
            votes=tuned.votes.get(at, 0) if tuned else None,
        )
        for at, each in enumerate(surfaces)
    )
    surface = WeightSurface(
        name=name,
        metric=first.metric,
        legs=first.legs,
        steps=first.steps,
        queries=len(first.queries),
        fusions=fusions,
        chosen=chosen,
        tied=tuple(band.tolist()),
        equal_weights=mean(first.untuned, first),
        in_sample=tuned.in_sample if tuned else float(best.means[best.best]),
        oracle=best.oracle().mean,
    )
    if tuned is None:
        return surface
    counts = (
        {kind: tuned.kinds.of_query.count(kind) for kind in sorted(set(tuned.kinds.of_query))} if tuned.kinds else {}
    )
    points = tuned.kinds.points if tuned.kinds else {}
    return surface.model_copy(
        update={
            "cross_fitted": tuned.cross_fitted,
            "folds": tuple(fold.point for fold in tuned.folds if fold.surface == chosen),
            "kinds": tuple(
                KindOptimum(kind=kind, queries=count, weights=best.leg_weights(points.get(kind, tuned.chosen.point)))
                for kind, count in counts.items()
            ),
            "sentences": tuple(_sentences(tuned, best, band)),
            "verdict": tuned.verdict,
            "too_few": tuned.too_few,
            "deeper": tuned.deeper,
        }
    )


def _sentences(tuned: TuningResult, surface: Surface, band: NDArray[np.bool_]) -> Iterator[str]:
    """Each figure with how far it is to be believed."""
    chosen, oracle = tuned.chosen, surface.oracle()
    points = sum(len(each.grid) for each in tuned.surfaces)
    within = surface.grid[band] / surface.steps
    tied = ", ".join(
        f"{leg} {low:.3g} to {high:.3g}"
        for leg, low, high in zip(surface.legs, within.min(axis=0), within.max(axis=0), strict=True)
    )
    yield (
        f"In-sample best: {surface.metric} {tuned.in_sample:.3f} at {weights_text(chosen.weights)} under "
        f"{fusion_label(chosen.fusion)}; the highest of {points:,} points over these very queries, so it flatters."
    )
    yield (
        f"To be expected of new queries: {tuned.cross_fitted:.3f}, each query scored with weights that were chosen "
        f"without it. The gap of {tuned.optimism:.3f} is optimism. Without tuning, {tuned.simple.name} gives "
        f"{tuned.simple.mean:.3f}, the best of equal weights and single legs."
    )
    yield tuned.verdict
    yield (
        f"Tied with the best: {int(band.sum())} of {len(band)} points, {tied}. These queries cannot tell them apart, "
        f"{BAND}."
    )
    yield (
        f"Oracle: {oracle.mean:.3f} with each query at its own best weights, which nobody knows beforehand. "
        f"{oracle.headroom:.3f} is all that weights could still bring."
    )
    if tuned.kinds is not None and len(set(tuned.kinds.of_query)) > 1:
        yield (
            f"With weights for each kind of query: {mean(tuned.kinds.held_out, surface):.3f} to be expected of new "
            f"queries, against {tuned.cross_fitted:.3f} with the same for all."
        )
    if tuned.deeper is not None:
        yield tuned.deeper.sentence
