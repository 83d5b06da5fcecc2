"""A variant's pipeline in a line: its steps in the order in which they are done, each in a word or two.

Owns the words. How they look is the page's; the list on the command line shows the same ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from core.expansion.base import EXPANSIONS
from core.fusion.base import FUSIONS
from core.legs import Leg, describe, legs
from core.registry import Tagged
from core.rerank.base import RERANKERS
from core.variant import Variant
from workbench.behind.summaries import summary


@dataclass(frozen=True, slots=True)
class Stage:
    """One thing that is done; `leg` is its kind, for the colour, and `says` what it means."""

    label: str
    says: str
    leg: str = ""


Step = tuple[Stage, ...]  # done side by side


def steps(variant: Variant) -> tuple[Step, ...]:
    """What is done, in order; the legs stand in one step."""
    return (*_before(variant), _legs(variant), *_fused(variant), *_after(variant))


def in_words(variant: Variant) -> str:
    """All of it in a line of text."""
    return " > ".join(" + ".join(stage.label for stage in step) for step in steps(variant))


def _before(variant: Variant) -> Iterator[Step]:
    if variant.expand is not None:
        yield (_tagged("expand", EXPANSIONS, variant.expand),)
    if variant.route is not None:
        yield (Stage("route", "Weights by the kind of the query: " + (", ".join(variant.route.weights) or "none yet")),)
    if variant.filter is not None:
        yield (Stage("filter", "Only items whose metadata fit are searched."),)


def _legs(variant: Variant) -> Step:
    weighted = len(variant.legs) > 1 and variant.fusion.uses_weights
    return tuple(_leg(variant, leg, weighted) for leg in variant.legs)


def _leg(variant: Variant, leg: Leg, weighted: bool) -> Stage:
    kind = legs.name_of(type(leg))
    about = describe(kind)
    label = leg.label or about.label
    where = "whole documents" if variant.chunks == "items" else f"the chunk set {variant.chunks}"
    says = f"{about.finds} It recalls {variant.depth_of(leg)} candidates of {where}."
    return Stage(f"{label} \N{MULTIPLICATION SIGN} {leg.weight:g}" if weighted else label, says, kind)


def _fused(variant: Variant) -> Iterator[Step]:
    if len(variant.legs) > 1:
        stage = _tagged("", FUSIONS, variant.fusion)
        k = getattr(variant.fusion, "k", None)
        label = stage.label.upper() if len(stage.label) <= 3 else stage.label
        depth = "" if variant.fused_depth is None else f" The best {variant.fused_depth} go on."
        yield (Stage(label if k is None else f"{label} k {k:g}", stage.says + depth),)
    if variant.rollup is not None:
        by = "best chunk" if variant.rollup.method == "best" else f"best {variant.rollup.of_best} chunks"
        yield (Stage(f"roll up: {by}", "Chunks become their items, with this as the score."),)
    if variant.per_item_cap is not None:
        yield (Stage(f"≤ {variant.per_item_cap} an item", "The most chunks of one item, its best."),)
    if variant.late is not None:
        yield (Stage(f"late chunks: {variant.late.strategy}", "Evidence chunks made of the items, at query time."),)


def _after(variant: Variant) -> Iterator[Step]:
    parents = (Stage(f"parents: {variant.parents}", "What a child chunk's parent does: it takes its place, or notes."),)
    has_parents = variant.parents != "none"
    if has_parents and not variant.parents_after_rerank:
        yield parents
    if variant.rerank is not None:
        yield (_tagged("rerank", RERANKERS, variant.rerank),)
    if has_parents and variant.parents_after_rerank:
        yield parents
    if variant.min_score > 0:
        yield (Stage(f"score ≥ {variant.min_score:g}", "Results below it are dropped."),)
    yield (Stage(f"top {variant.top_k}", "How many results come out."),)
    if variant.pack is not None:
        tokens = variant.pack.final_max_tokens
        yield (Stage(f"pack: {tokens:,} tokens", "The results become the context of an answer."),)


def _tagged(what: str, among: Tagged[Any], spec: object) -> Stage:
    name = among.registry.name_of(type(spec))
    return Stage(f"{what}: {name}" if what else name, summary(type(spec)))
