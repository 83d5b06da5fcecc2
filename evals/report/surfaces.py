"""A weight surface, or what came of tuning on several, as plain values. Computes nothing new."""

from __future__ import annotations

from collections.abc import Sequence

from core.fusion import Fusion, fusions
from evals.report.model import FusionWeights, Weights
from evals.weights.surface import Surface
from evals.weights.tuned import Tuned, mean


def weights_of(name: str, given: Surface | Tuned) -> Weights:
    if isinstance(given, Surface):
        return _swept(name, (given,), 0)
    swept = _swept(name, given.surfaces, given.chosen.surface)
    votes = given.votes
    return Weights(
        name=name,
        metric=swept.metric,
        legs=swept.legs,
        steps=swept.steps,
        queries=swept.queries,
        fusions=tuple(_fusion(each, votes.get(at, 0)) for at, each in enumerate(given.surfaces)),
        chosen=given.chosen.surface,
        untuned=swept.untuned,
        in_sample=given.in_sample,
        oracle=swept.oracle,
        cross_fitted=given.cross_fitted,
        gain=(given.gain.value, given.gain.low, given.gain.high) if given.gain else None,
        folds=tuple(fold.point for fold in given.folds if fold.surface == given.chosen.surface),
        verdict=given.verdict,
    )


def _swept(name: str, surfaces: Sequence[Surface], chosen: int) -> Weights:
    first, best = surfaces[0], surfaces[chosen]
    return Weights(
        name=name,
        metric=first.metric,
        legs=first.legs,
        steps=first.steps,
        queries=len(first.queries),
        fusions=tuple(_fusion(each, None) for each in surfaces),
        chosen=chosen,
        untuned=mean(first.untuned, first),
        in_sample=float(best.means[best.best]),
        oracle=best.oracle().mean,
    )


def _fusion(surface: Surface, votes: int | None) -> FusionWeights:
    return FusionWeights(
        fusion=called(surface.fusion),
        grid=tuple(tuple(point) for point in surface.grid.tolist()),
        means=tuple(surface.means.tolist()),
        tied=tuple(surface.tied().tolist()),
        best=surface.best,
        votes=votes,
    )


def called(fusion: Fusion) -> str:
    """The method, with the options that are not as usual: rrf, k 10."""
    told = [
        f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in fusion.model_dump(exclude_defaults=True).items()
    ]
    return ", ".join([fusions.name_of(type(fusion)), *told])
