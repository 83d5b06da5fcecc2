"""A weight surface and its tuning in a few figures, each with the sentence that says how far it is to be believed.

Owns the words; `evals.tuning.surface` and `evals.tuning.tuner` own the figures.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.fusion.base import spec_of
from evals.tuning.surface import BAND, Surface
from evals.tuning.tuner import TuningResult, fusion_label, mean


@dataclass(frozen=True, slots=True)
class Point:
    """One mix of weights. `tied` says that these queries cannot tell it from the best."""

    weights: Mapping[str, float]
    mean: float
    tied: bool
    best: bool


@dataclass(frozen=True, slots=True)
class KindOptimum:
    kind: str
    queries: int
    weights: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class SweepSummary:
    """Of the surface that was chosen; `fusions` are the in-sample bests of all surfaces."""

    metric: str
    queries: int
    points: tuple[Point, ...]
    fusions: tuple[tuple[str, float, Mapping[str, float]], ...]
    kinds: tuple[KindOptimum, ...]
    sentences: tuple[str, ...]


def summarise(tuned: TuningResult) -> SweepSummary:
    surface = tuned.surfaces[tuned.chosen.surface]
    band = surface.tied(level=tuned.procedure.level, seed=tuned.procedure.seed)
    points = tuple(
        Point(surface.leg_weights(at), each, bool(band[at]), at == tuned.chosen.point)
        for at, each in enumerate(surface.means.tolist())
    )
    kinds: tuple[KindOptimum, ...] = ()
    if tuned.kinds is not None:
        of_query, best = tuned.kinds.of_query, tuned.kinds.points
        kinds = tuple(
            KindOptimum(kind, of_query.count(kind), surface.leg_weights(best.get(kind, tuned.chosen.point)))
            for kind in sorted(set(of_query))
        )
    bests = [
        (fusion_label(each.fusion), float(each.means[each.best]), each.leg_weights(each.best))
        for each in tuned.surfaces
    ]
    sentences = tuple(_sentences(tuned, surface, band))
    return SweepSummary(surface.metric, len(surface.queries), points, tuple(bests), kinds, sentences)


def shares(weights: Mapping[str, float]) -> str:
    return ", ".join(f"{leg} {weight:.3g}" for leg, weight in weights.items())


def _sentences(tuned: TuningResult, surface: Surface, band: NDArray[np.bool_]) -> list[str]:
    chosen, oracle = tuned.chosen, surface.oracle()
    points = sum(len(each.grid) for each in tuned.surfaces)
    best = (
        f"In-sample best: {surface.metric} {tuned.in_sample:.3f} at {shares(chosen.weights)} under "
        f"{fusion_label(chosen.fusion)}; the highest of {points:,} points over these very queries, so it flatters."
    )
    expected = (
        f"To be expected of new queries: {tuned.cross_fitted:.3f}, each query scored with weights that were chosen "
        f"without it. The gap of {tuned.optimism:.3f} is optimism. Without tuning, {tuned.simple.name} gives "
        f"{tuned.simple.mean:.3f}, the best of equal weights and single legs."
    )
    within = surface.grid[band] / surface.steps
    ranges = zip(surface.legs, within.min(axis=0), within.max(axis=0), strict=True)
    span = ", ".join(f"{leg} {low:.3g} to {high:.3g}" for leg, low, high in ranges)
    tied = (
        f"Tied with the best: {int(band.sum())} of {len(band)} points, {span}. These queries cannot tell them apart, "
        f"{BAND}."
    )
    headroom = (
        f"Oracle: {oracle.mean:.3f} with each query at its own best weights, which nobody knows beforehand. "
        f"{oracle.headroom:.3f} is all that weights could still bring."
    )
    sentences = [best, expected, tuned.verdict, tied, headroom]
    if tuned.kinds is not None and len(set(tuned.kinds.of_query)) > 1:
        sentences.append(
            f"With weights for each kind of query: {mean(tuned.kinds.held_out, surface):.3f} to be expected of new "
            f"queries, against {tuned.cross_fitted:.3f} with the same for all."
        )
    if tuned.deeper is not None:
        sentences.append(tuned.deeper.sentence)
    return sentences


def plain(tuned: TuningResult) -> dict[str, Any]:
    """Everything, for a machine: every point of every surface."""
    summary = summarise(tuned)
    return {
        "metric": summary.metric,
        "queries": summary.queries,
        "chosen": {"fusion": spec_of(tuned.chosen.fusion), "weights": tuned.chosen.weights},
        "in_sample": tuned.in_sample,
        "cross_fitted": tuned.cross_fitted,
        "optimism": tuned.optimism,
        "too_few": tuned.too_few,
        "verdict": tuned.verdict,
        "deeper": asdict(tuned.deeper) if tuned.deeper else None,
        "oracle": tuned.surfaces[tuned.chosen.surface].oracle().mean,
        "points": summary.points,
        "surfaces": [
            {"fusion": spec_of(each.fusion), "weights": (each.grid / each.steps).tolist(), "means": each.means.tolist()}
            for each in tuned.surfaces
        ],
        "kinds": summary.kinds,
        "sentences": summary.sentences,
    }
