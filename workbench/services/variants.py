"""Variants listed, described as a pipeline, read from a text, compared, and kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any, Literal

import pydantic

from core import presets
from core.errors import InputError, RankbookError, SpecError, UnknownName
from core.expansion.base import EXPANSIONS
from core.fusion.base import FUSIONS
from core.legs import Leg, describe, legs
from core.registry import Tagged
from core.rerank.base import RERANKERS
from core.store import roles
from core.store.engine import Store
from core.variant import Variant
from evals import variants as evals_variants
from evals.evaluation.compare_runs import DifferenceRow, variant_rows
from evals.variants import SavedVariant
from workbench.services import toml_edit
from workbench.services.form_fields import summary
from workbench.services.toml_edit import Place


@dataclass(frozen=True, slots=True)
class VariantEntry:
    """A variant of the page: a preset or a kept one, with its text."""

    name: str
    text: str
    kept: SavedVariant | None = None


def variant_entry(name: str, own: Sequence[SavedVariant]) -> VariantEntry:
    """The variant of that name; presets come first, as everywhere."""
    if name in presets.names():
        return VariantEntry(name, (presets.FOLDER / f"{name}.toml").read_text(encoding="utf-8"))
    found = next((each for each in own if each.name == name), None)
    if found is None:
        raise UnknownName("variant", name, variant_names(own))
    return VariantEntry(name, found.text, found)


def variant_names(own: Sequence[SavedVariant]) -> list[str]:
    return [*(each.name for each in own), *presets.names()]


@dataclass(frozen=True, slots=True)
class PipelineStage:
    """A stage of a pipeline. `leg` is the kind of a leg, for its colour; `says` explains it."""

    label: str
    says: str
    leg: str = ""


Step = tuple[PipelineStage, ...]  # done side by side


def pipeline_steps(variant: Variant) -> tuple[Step, ...]:
    """The stages in order; legs are one step."""
    return (*_recall(variant), *_after_fusion(variant))


def in_words(variant: Variant) -> str:
    """The pipeline in a line of text."""
    return " > ".join(" + ".join(stage.label for stage in step) for step in pipeline_steps(variant))


def _legs(variant: Variant) -> Step:
    weighted = len(variant.legs) > 1 and variant.fusion.uses_weights
    return tuple(_leg(variant, leg, weighted) for leg in variant.legs)


def _leg(variant: Variant, leg: Leg, weighted: bool) -> PipelineStage:
    kind = legs.name_of(type(leg))
    about = describe(kind)
    label = leg.label or about.label
    where = "whole documents" if variant.chunks == "items" else f"the chunk set {variant.chunks}"
    says = f"{about.finds} It recalls {variant.depth_of(leg)} candidates of {where}."
    return PipelineStage(f"{label} \N{MULTIPLICATION SIGN} {leg.weight:g}" if weighted else label, says, kind)


def _stage(label: str, says: str) -> Step:
    return (PipelineStage(label, says),)


def _recall(variant: Variant) -> Iterator[Step]:
    if variant.expand is not None:
        yield (_tagged("expand", EXPANSIONS, variant.expand),)
    if variant.route is not None:
        kinds = ", ".join(variant.route.weights) or "none yet"
        yield _stage("route", f"Weights by the kind of the query: {kinds}")
    if variant.filter is not None:
        yield _stage("filter", "Only items whose metadata fit are searched.")
    yield _legs(variant)
    if len(variant.legs) > 1:
        fusion, k = _tagged("", FUSIONS, variant.fusion), getattr(variant.fusion, "k", None)
        label = fusion.label.upper() if len(fusion.label) <= 3 else fusion.label
        depth = "" if variant.fused_depth is None else f" The best {variant.fused_depth} go on."
        yield _stage(label if k is None else f"{label} k {k:g}", fusion.says + depth)


def _after_fusion(variant: Variant) -> Iterator[Step]:
    if variant.rollup is not None:
        by = "best chunk" if variant.rollup.method == "best" else f"best {variant.rollup.of_best} chunks"
        yield _stage(f"roll up: {by}", "Chunks become their items, with this as the score.")
    if variant.per_item_cap is not None:
        yield _stage(f"≤ {variant.per_item_cap} an item", "The most chunks of one item, its best.")
    if variant.late is not None:
        yield _stage(f"late chunks: {variant.late.strategy}", "Evidence chunks made of the items, at query time.")
    parents = _stage(f"parents: {variant.parents}", "What a child chunk's parent does: it takes its place, or notes.")
    has_parents = variant.parents != "none"
    if has_parents and not variant.parents_after_rerank:
        yield parents
    if variant.rerank is not None:
        yield (_tagged("rerank", RERANKERS, variant.rerank),)
    if has_parents and variant.parents_after_rerank:
        yield parents
    if variant.min_score > 0:
        yield _stage(f"score ≥ {variant.min_score:g}", "Results below it are dropped.")
    yield _stage(f"top {variant.top_k}", "How many results come out.")
    if variant.pack is not None:
        tokens = variant.pack.final_max_tokens
        yield _stage(f"pack: {tokens:,} tokens", "The results become the context of an answer.")


def _tagged(what: str, among: Tagged[Any], spec: object) -> PipelineStage:
    name = among.registry.name_of(type(spec))
    return PipelineStage(f"{what}: {name}" if what else name, summary(type(spec)))


QUOTED = ("name", "description")


def read(text: str) -> Variant:
    """The variant; an error says the line of the mistake."""
    given = toml_edit.read(text)
    try:
        return Variant.from_data(given)
    except (RankbookError, RecursionError) as error:
        said = str(error) or "This is nested too deeply to be read."
        raise InputError(said, line=toml_edit.line_of(text, _culprit(given, error))) from error


def _culprit(given: dict[str, Any], error: Exception) -> Place:
    """The place of the mistake: pydantic's, else the part without which the error would differ."""
    cause = error.__cause__
    if isinstance(cause, pydantic.ValidationError) and cause.title == Variant.__name__:
        place = tuple(cause.errors()[0]["loc"])
        if place and toml_edit.value_at(given, place) is not None:
            return place
    return _without(given, given, (), str(error))


def _without(whole: dict[str, Any], part: Any, place: Place, said: str) -> Place:
    """The part whose removal makes the error disappear or change, searched for inwards."""
    others = {step: _says(_less(whole, (*place, step))) for step in _steps(part)}
    mended = [step for step, says in others.items() if not says] or [step for step in others if others[step] != said]
    return _without(whole, part[mended[0]], (*place, mended[0]), said) if mended else place


def _steps(part: Any) -> list[str | int]:
    """Keys or positions of a part; those last that an error may merely quote."""
    if isinstance(part, dict):
        return sorted(part, key=lambda key: key in QUOTED)
    return list(range(len(part))) if isinstance(part, list) else []


def _less(whole: Any, place: Place) -> Any:
    """A copy without that place."""
    first, *rest = place
    if isinstance(whole, dict):
        kept = {key: value for key, value in whole.items() if key != first or rest}
        return {**kept, first: _less(whole[first], tuple(rest))} if rest else kept
    at = int(first)
    return [*whole[:at], *([_less(whole[at], tuple(rest))] if rest else []), *whole[at + 1 :]]


def _says(given: dict[str, Any]) -> str:
    try:
        Variant.from_data(given)
    except RankbookError as error:
        return str(error)
    return ""


# -- two of them -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DiffLine:
    """A line of a difference: in both texts, only in the first, or only in the second."""

    mark: Literal[" ", "-", "+"]
    text: str


def differences(one: Variant, other: Variant) -> list[DifferenceRow]:
    """Every option in which they differ, defaults included, by its dotted name."""
    return variant_rows(one, other)


def lines_between(one: str, other: str) -> Iterator[DiffLine]:
    """The line by line difference of two texts."""
    before, after = one.splitlines(), other.splitlines()
    for what, a, b, c, d in SequenceMatcher(a=before, b=after, autojunk=False).get_opcodes():
        if what == "equal":
            yield from (DiffLine(" ", text) for text in before[a:b])
        else:
            yield from (DiffLine("-", text) for text in before[a:b])
            yield from (DiffLine("+", text) for text in after[c:d])


def default_name(variant: Variant) -> str:
    """A free name for the variant; if the same variant is kept under its own name, that name."""
    there = evals_variants.find(variant.name)
    return (
        variant.name if there is not None and _same(there.variant, variant) else evals_variants.free_name(variant.name)
    )


def replaceable(variant: Variant, name: str) -> bool:
    """Whether a different variant is kept under that name."""
    there = evals_variants.find(name.strip())
    return there is not None and not _same(there.variant, variant.but(name=there.name))


def keep(store: Store, variant: Variant, name: str, *, over: bool = False) -> str:
    """Keep the variant; gives its name. What is kept already in the same way stays as it is."""
    roles.refuse_reader(store, "keep variants")
    name = name.strip()
    if not name:
        raise SpecError("A variant that is kept needs a name. Type one.")
    there = evals_variants.find(name)
    if there is not None and _same(there.variant, variant.but(name=name)):
        return there.name
    return evals_variants.keep(variant.but(name=name).to_toml(), over=name if over and there is not None else None).name


def _same(one: Variant | None, other: Variant) -> bool:
    return one is not None and one.id == other.id and one.name == other.name
