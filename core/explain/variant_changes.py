"""Which options of a variant might bring a document in, by what is known of it. Proposes; `trying` finds out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import ceil, floor
from typing import Any, Final

import pydantic
from pydantic import BaseModel

from core.errors import SpecError
from core.explain.document_path import ExplainedDocument, FilterVerdict, TracePath, said
from core.explain.explanation import LegDiagnosis
from core.explain.leg_diagnosis import opening
from core.legs import Leg, legs
from core.variant import Variant

DOUBLINGS: Final = (2, 4, 8, 16, 64)
SPELLINGS: Final = (0.4, 0.35, 0.3, 0.25, 0.2)  # thresholds at which words far off still share trigrams


@dataclass(frozen=True, slots=True)
class CandidateChange:
    """An option and the values worth trying, nearest first. `least` is a number known not to be enough.

    `whole` are options that turn something on or off: a bigger change than any number. A `first_step` may be needed
    before anything else helps, so it is worth going on from even where by itself it brings nothing.
    """

    name: str
    was: Any
    values: tuple[Any, ...]
    set_to: Callable[[Any], Variant]
    least: int | None = None
    whole: bool = False
    first_step: bool = False

    def applied(self, value: Any) -> Variant | None:
        """The variant with it; None where that is no valid variant."""
        try:
            return self.set_to(value)
        except (pydantic.ValidationError, SpecError):
            return None

    def size(self, value: Any) -> float:
        """How far the value is from what it was, as a share of it."""
        if self.whole or not isinstance(value, int | float) or not isinstance(self.was, int | float):
            return float("inf")
        return abs(value - self.was) / max(abs(self.was), 1e-9)


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """All that proposals go by."""

    variant: Variant
    target: ExplainedDocument
    way: TracePath
    standings: tuple[LegDiagnosis, ...]
    verdict: FilterVerdict

    def lost_at(self, stage: str) -> bool:
        return self.way.loss is not None and self.way.loss.stage == stage


def options(known: Diagnosis) -> Iterator[CandidateChange]:
    """Everything worth trying, for the stage at which the document was lost."""
    if known.verdict.failed:
        yield _without_conditions(known)
        return
    yield from _cuts(known)
    yield from _stages(known)
    yield from _late(known)
    for name, leg, standing in zip(known.variant.leg_names, known.variant.legs, known.standings, strict=True):
        yield from _of_leg(known.variant, name, leg, standing)
    yield from _breadth(known)


def _without_conditions(known: Diagnosis) -> CandidateChange:
    """Nothing else helps while the filter leaves it out."""
    variant, rest = known.variant, known.verdict.rest
    was = said(variant.filter) if variant.filter else None
    value = said(rest) if rest else None
    return CandidateChange(
        "filter", was, (value,), lambda _: changed(variant, filter=rest), whole=True, first_step=True
    )


# -- legs --------------------------------------------------------------------------------------------------------------


def _of_leg(variant: Variant, name: str, leg: Leg, standing: LegDiagnosis) -> Iterator[CandidateChange]:
    """What has a leg bring it up that did not."""
    if standing.fetched is not None:
        return
    known, rank, score = opening(leg), standing.rank, standing.score
    if rank is not None and rank > standing.depth:
        put = _leg_setter(variant, name, "depth")
        yield CandidateChange(f"{name}.depth", variant.depth_of(leg), (rank, 2 * rank, 4 * rank), put, rank - 1)
    limit = getattr(leg, known.threshold) if known.threshold else None
    if known.threshold and limit is not None and score is not None and score < limit:
        yield _leg_option(variant, name, leg, known.threshold, *_just_below(score))
    if rank is not None and rank <= standing.depth:
        for key, value in known.shortcuts.items():
            if getattr(leg, key) != value:
                yield _leg_option(variant, name, leg, key, value)
    if not standing.matches:
        yield from _wider(variant, name, leg)


def _wider(variant: Variant, name: str, leg: Leg) -> Iterator[CandidateChange]:
    """What lets a leg match that does not."""
    kind = legs.name_of(type(leg))
    if kind == "fulltext" and getattr(leg, "mode", "any") != "any":
        yield _leg_option(variant, name, leg, "mode", "any")
    if kind == "fuzzy":
        own = getattr(leg, "threshold", 0.0)
        yield _leg_option(variant, name, leg, "threshold", *(each for each in SPELLINGS if each < own))


def _leg_option(variant: Variant, name: str, leg: Leg, key: str, *values: Any) -> CandidateChange:
    put = _leg_setter(variant, name, key)
    return CandidateChange(f"{name}.{key}", getattr(leg, key), values, put, first_step=True)


def _leg_setter(variant: Variant, name: str, key: str) -> Callable[[Any], Variant]:
    return lambda value: _with_leg(variant, name, **{key: value})


# -- after the legs ----------------------------------------------------------------------------------------------------


def _cuts(known: Diagnosis) -> Iterator[CandidateChange]:
    variant, waiting = known.variant, known.way.waiting
    if known.lost_at("fuse") and variant.fused_depth:
        yield _number(variant, "fused_depth", *(variant.fused_depth * times for times in DOUBLINGS))
    if known.lost_at("per-item cap") and variant.per_item_cap:
        yield _number(variant, "per_item_cap", *(variant.per_item_cap * times for times in DOUBLINGS))
    if known.lost_at("cut") and waiting and waiting.score < variant.min_score:
        yield CandidateChange(
            "min_score", variant.min_score, _just_below(waiting.score), lambda value: changed(variant, min_score=value)
        )


def _breadth(known: Diagnosis) -> Iterator[CandidateChange]:
    """More results altogether, which also has the legs ask deeper."""
    variant, way = known.variant, known.way
    wanted = [
        ceil(each.rank / variant.overfetch)
        for each, leg in zip(known.standings, variant.legs, strict=True)
        if each.rank and each.rank > each.depth and leg.depth is None
    ]
    if known.lost_at("cut") and way.waiting and way.waiting.rank > variant.top_k:
        wanted.append(way.waiting.rank)
    if wanted:
        first = max(min(wanted), variant.top_k + 1)
        yield _number(variant, "top_k", first, 2 * first, 4 * first)


def _stages(known: Diagnosis) -> Iterator[CandidateChange]:
    variant, waiting = known.variant, known.way.waiting
    if known.lost_at("fuse") and variant.fusion.absent == "drop":
        yield _set(
            variant,
            "fusion.absent",
            "drop",
            "zero",
            lambda value: changed(variant, fusion=changed(variant.fusion, absent=value)),
        )
    if known.lost_at("roll up"):
        yield _set(variant, "rollup", "on", None, lambda value: changed(variant, rollup=value))
    if known.lost_at("parents"):
        values = ("replace",) if known.target.kind == "parent" else ("annotate",)
        yield _set(variant, "parents", variant.parents, *values, lambda value: changed(variant, parents=value))
    if variant.rerank is not None and waiting and (known.lost_at("rerank") or known.lost_at("cut")):
        yield from _reranking(variant, variant.rerank, waiting.score)
        yield _set(variant, "rerank", "on", None, lambda value: changed(variant, rerank=value))


def _reranking(variant: Variant, reranker: BaseModel, score: float) -> Iterator[CandidateChange]:
    def put(key: str, *values: Any, least: int | None = None) -> CandidateChange:
        return CandidateChange(
            f"rerank.{key}",
            getattr(reranker, key),
            values,
            lambda value: changed(variant, rerank=changed(reranker, **{key: value})),
            least,
        )

    if most := getattr(reranker, "top_k", None):
        yield put("top_k", *(most * times for times in DOUBLINGS), least=most)
    if getattr(reranker, "min_score", 0.0) > score:
        yield put("min_score", *_just_below(score))
    depth = getattr(reranker, "depth", 0)
    yield put("depth", *(depth * times for times in DOUBLINGS), least=depth)


def _late(known: Diagnosis) -> Iterator[CandidateChange]:
    variant, late = known.variant, known.variant.late
    if late is None or not known.lost_at("late chunks"):
        return
    for key in ("per_item_cap", "top_k_chunks"):
        was = getattr(late, key)
        values = tuple(was * times for times in DOUBLINGS)
        yield CandidateChange(f"late.{key}", was, values, _late_setter(variant, key), was)


def _late_setter(variant: Variant, key: str) -> Callable[[Any], Variant]:
    return lambda value: changed(variant, late=changed(variant.late, **{key: value}))


# -- setting -----------------------------------------------------------------------------------------------------------


def _number(variant: Variant, name: str, *values: int) -> CandidateChange:
    was = getattr(variant, name)
    return CandidateChange(name, was, values, lambda value: changed(variant, **{name: value}), was)


def _set(variant: Variant, name: str, was: Any, value: Any, put: Callable[[Any], Variant]) -> CandidateChange:  # noqa: ARG001
    return CandidateChange(name, was, (value,), put, whole=True)


def changed(spec: Any, **update: Any) -> Any:
    """The spec with other values, validated like any other."""
    return type(spec)(**{**{name: getattr(spec, name) for name in type(spec).model_fields}, **update})


def _with_leg(variant: Variant, name: str, **update: Any) -> Variant:
    named = zip(variant.leg_names, variant.legs, strict=True)
    made: Variant = changed(variant, legs=tuple(changed(leg, **update) if own == name else leg for own, leg in named))
    return made


def _just_below(score: float) -> tuple[float, ...]:
    """Round numbers no higher than it: first a near one, then, as some scores are shown rounded, the next below."""
    near = floor(score * 10_000) / 10_000
    return tuple(each for each in (near, round(near - 1e-4, 4), round(near - 1e-2, 2)))
