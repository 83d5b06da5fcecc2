"""Which options of a variant might bring a document in, by what is known of it. Proposes; `explain` tries."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import ceil, floor
from typing import Any, Final

import pydantic
from pydantic import BaseModel

from core.errors import SpecError
from core.explain.document_path import ExplainedDocument, FilterVerdict, TracePath, filter_words
from core.explain.explanation import LegDiagnosis
from core.legs import Leg
from core.rerank import Reranker
from core.variant import Variant

DOUBLINGS: Final = (2, 4, 8, 16, 64)


@dataclass(frozen=True, slots=True)
class CandidateChange:
    """An option and the values worth trying, nearest first. `least` is a number known not to be enough.

    `whole` are options that turn something on or off: a bigger change than any number. A `first_step` may be needed
    before anything else helps, so it is worth going on from even where it brings nothing by itself.
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
    """All that is known of a document in a variant's search."""

    variant: Variant
    document: ExplainedDocument
    path: TracePath
    legs: tuple[LegDiagnosis, ...]
    verdict: FilterVerdict

    def lost_at(self, stage: str) -> bool:
        return self.path.loss is not None and self.path.loss.stage == stage


def propose_changes(known: Diagnosis) -> Iterator[CandidateChange]:
    """Everything worth trying, for the stage at which the document was lost."""
    variant = known.variant
    if known.verdict.failed:  # nothing else helps while the filter leaves it out
        was, rest = variant.filter, known.verdict.rest
        yield CandidateChange(
            "filter",
            filter_words(was) if was else None,
            (filter_words(rest) if rest else None,),
            lambda _: changed(variant, filter=rest),
            whole=True,
            first_step=True,
        )
        return
    yield from _of_stages(known)
    for name, leg, diagnosis in zip(variant.leg_names, variant.legs, known.legs, strict=True):
        if diagnosis.fetched is None:
            yield from _of_leg(variant, name, leg, diagnosis)
    # More results altogether, which also has the legs ask deeper.
    wanted = [
        ceil(each.rank / variant.overfetch)
        for each, leg in zip(known.legs, variant.legs, strict=True)
        if each.rank and each.rank > each.depth and leg.depth is None
    ]
    before = known.path.before_loss
    if known.lost_at("cut") and before and before.rank > variant.top_k:
        wanted.append(before.rank)
    if wanted:
        first = max(min(wanted), variant.top_k + 1)
        yield _of_variant(variant, "top_k", first, 2 * first, 4 * first, least=variant.top_k)


def _of_leg(variant: Variant, name: str, leg: Leg, diagnosis: LegDiagnosis) -> Iterator[CandidateChange]:
    """What has a leg retrieve the document that did not."""

    def change(key: str, was: Any, *values: Any, least: int | None = None) -> CandidateChange:
        def set_to(value: Any) -> Variant:
            named = zip(variant.leg_names, variant.legs, strict=True)
            made: Variant = changed(
                variant, legs=tuple(changed(each, **{key: value}) if own == name else each for own, each in named)
            )
            return made

        return CandidateChange(f"{name}.{key}", was, values, set_to, least, first_step=least is None)

    opening, rank, score = leg.about.opening, diagnosis.rank, diagnosis.score
    if rank is not None and rank > diagnosis.depth:
        yield change("depth", variant.depth_of(leg), rank, 2 * rank, 4 * rank, least=rank - 1)
    limit = getattr(leg, opening.threshold) if opening.threshold else None
    if opening.threshold and limit is not None and score is not None and score < limit:
        yield change(opening.threshold, limit, *_just_below(score))
    if rank is not None and rank <= diagnosis.depth:
        for key, value in opening.shortcuts.items():
            if (own := getattr(leg, key)) != value:
                yield change(key, own, value)
    if not diagnosis.matches:
        for key, values in opening.wider_than(leg).items():
            yield change(key, getattr(leg, key), *values)


def _of_stages(known: Diagnosis) -> Iterator[CandidateChange]:
    """What has a stage after the legs keep the document."""
    variant, before, late = known.variant, known.path.before_loss, known.variant.late
    if known.lost_at("fuse") and (depth := variant.fused_depth):
        yield _of_variant(variant, "fused_depth", *(depth * times for times in DOUBLINGS), least=depth)
    if known.lost_at("per-item cap") and (cap := variant.per_item_cap):
        yield _of_variant(variant, "per_item_cap", *(cap * times for times in DOUBLINGS), least=cap)
    if known.lost_at("cut") and before and before.score < variant.min_score:
        yield _of_variant(variant, "min_score", *_just_below(before.score))
    if known.lost_at("fuse") and variant.fusion.absent == "drop":
        yield CandidateChange(
            "fusion.absent",
            "drop",
            ("zero",),
            lambda value: changed(variant, fusion=changed(variant.fusion, absent=value)),
            whole=True,
        )
    if known.lost_at("roll up"):
        yield _of_variant(variant, "rollup", None, was="on", whole=True)
    if known.lost_at("parents"):
        how = "replace" if known.document.kind == "parent" else "annotate"
        yield _of_variant(variant, "parents", how, whole=True)
    if variant.rerank is not None and before and (known.lost_at("rerank") or known.lost_at("cut")):
        yield from _of_reranker(variant, variant.rerank, before.score)
    if late is not None and known.lost_at("late chunks"):
        for key in ("per_item_cap", "top_k_chunks"):
            own = getattr(late, key)
            yield _of_part(variant, "late", key, *(own * times for times in DOUBLINGS), least=own)


def _of_reranker(variant: Variant, rerank: Reranker, score: float) -> Iterator[CandidateChange]:
    if most := rerank.top_k:
        yield _of_part(variant, "rerank", "top_k", *(most * times for times in DOUBLINGS), least=most)
    if getattr(rerank, "min_score", 0.0) > score:
        yield _of_part(variant, "rerank", "min_score", *_just_below(score))
    depth = rerank.depth
    yield _of_part(variant, "rerank", "depth", *(depth * times for times in DOUBLINGS), least=depth)
    yield _of_variant(variant, "rerank", None, was="on", whole=True)


_OWN: Final = object()


def _of_variant(
    variant: Variant, name: str, *values: Any, was: Any = _OWN, least: int | None = None, whole: bool = False
) -> CandidateChange:
    own = getattr(variant, name) if was is _OWN else was
    return CandidateChange(name, own, values, lambda value: changed(variant, **{name: value}), least, whole)


def _of_part(variant: Variant, part: str, key: str, *values: Any, least: int | None = None) -> CandidateChange:
    """An option of the reranker or of the late chunking."""
    spec: BaseModel = getattr(variant, part)
    return CandidateChange(
        f"{part}.{key}",
        getattr(spec, key),
        values,
        lambda value: changed(variant, **{part: changed(spec, **{key: value})}),
        least,
    )


def changed(spec: Any, **update: Any) -> Any:
    """The spec with other values, validated like any other."""
    return type(spec)(**{**{name: getattr(spec, name) for name in type(spec).model_fields}, **update})


def _just_below(score: float) -> tuple[float, ...]:
    """Round numbers no higher than it: first a near one, then, as some scores are shown rounded, the next below."""
    near = floor(score * 10_000) / 10_000
    return tuple(each for each in (near, round(near - 1e-4, 4), round(near - 1e-2, 2)))
