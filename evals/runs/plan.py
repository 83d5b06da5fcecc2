"""Many variants, and the few distinct leg runs that they share. Pure data: no connection, nothing is asked here.

A variant whose ranking is nothing but its legs' fused, rolled up and cut is computed from leg runs, for all queries at
once. What changes a query or looks at texts is searched query by query: an expansion, a route, a reranker, late chunks,
parents that replace, a packed context; so is what the weight surface knows nothing of, a cap per item.

What is measured is what ships: nothing that decides a variant's first `top_k` is changed. A run keeps the candidates
behind them too, as only the last cut is lifted for it. A deep run is another thing: the variant is asked as deep as a
metric looks (`deepened`), with every leg at its own depth or deeper, so that its first ten may differ from the ten that
ship. Excluded items (a query's own source, say) are treated as though the collection did not have them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from core.filters import Filter
from core.legs import Leg
from core.store.names import ITEMS
from core.variant import LEGS, Variant
from evals.types import QuerySplit

DEEPEST = 10_000  # what a variant and a leg may be asked for
CHUNKS_AN_ITEM = 3  # that a ranking may hold on average, for the k-th item to be among so many times k chunks
# stages without which a ranking is its legs' alone, fused as `evals.runs.batch_fusion` and the weight surface do it
PER_QUERY = ("expand", "route", "per_item_cap", "rerank", "late", "pack")
THE_VARIANTS = {"weight", "label", "depth"}  # what of a leg is no matter of what it finds at a depth


@dataclass(frozen=True, slots=True)
class Ground:
    """What all variants of a plan search, and what they are asked.

    `state` stands for the collection's content: kept results of another one are of no use. `queries` is the digest of
    the split's queries, `models` the model that a chunk set is searched with where a variant names none, and `marks`
    what a model's vectors hang on beside (`evals.runs.provenance.vector_mark`).
    """

    collection: str
    state: str = ""
    queries: str = ""
    models: Mapping[str, str | None] = field(default_factory=dict)
    marks: Mapping[str | None, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LegTask:
    """One leg over all queries of a split, once. Equal digests find the same."""

    digest: str
    leg: Leg
    depth: int
    chunks: str
    model: str | None
    filter: Filter | None

    @property
    def title(self) -> str:
        options = self.leg.model_dump(mode="json", exclude_defaults=True, exclude=THE_VARIANTS)
        told = ", ".join(f"{name} {value}" for name, value in options.items())
        within = ", filtered" if self.filter else ""
        return f"{kind_of(self.leg)}{f' ({told})' if told else ''} over {self.chunks}{within}, {self.depth} deep"


@dataclass(frozen=True, slots=True)
class LegUse:
    """A variant's leg: under its name, at its weight, as deep as the variant asks, by a task that may be deeper."""

    name: str
    leg: Leg
    depth: int
    task: LegTask


@dataclass(frozen=True, slots=True)
class FusedVariant:
    """A variant that is computed from leg runs."""

    variant: Variant
    shares: tuple[LegUse, ...]


@dataclass(frozen=True, slots=True)
class LegPlan:
    """What there is to do. `kept` are variants whose runs are there already; so many more are `alike` one of all."""

    legs: tuple[LegTask, ...]
    fused: tuple[FusedVariant, ...]
    searched: tuple[Variant, ...]
    kept: tuple[Variant, ...] = ()
    alike: int = 0


def kind_of(leg: Leg) -> str:
    return str(LEGS.write(leg)[LEGS.tag])


def deepened(variant: Variant, k: int) -> Variant:
    """The variant as it is asked for a deep run, to the k-th result.

    Its legs keep the depth that they had, or go as deep as is needed: several chunks may be of one item, so a ranking
    of chunks goes deeper than one of items.
    """
    of_chunks = variant.chunks != ITEMS and variant.rollup is None
    wanted = min(max(variant.top_k, k * CHUNKS_AN_ITEM if of_chunks else k), DEEPEST)
    legs = tuple(
        leg.model_copy(update={"depth": min(max(variant.depth_of(leg), wanted), DEEPEST)}) for leg in variant.legs
    )
    return variant.but(top_k=wanted, legs=legs)


def queries_digest(split: QuerySplit) -> str:
    """Of what legs see of the queries: ids, texts and what each may not find, not labels."""
    excluded = {query: sorted(split.excluded[query]) for query in split.queries if split.excluded.get(query)}
    asked = [(query.id, query.text) for query in split.queries.values()]
    return _digest([asked, excluded] if excluded else asked)


def is_fused(variant: Variant) -> bool:
    """Whether the ranking can be computed from what the legs found. Annotated parents change no ranking."""
    return variant.parents != "replace" and all(getattr(variant, stage) is None for stage in PER_QUERY)


def plan(variants: Sequence[Variant], ground: Ground, kept: Iterable[Variant] = (), alike: int = 0) -> LegPlan:
    """The variants, as they are to be asked, with the leg runs that those need which are computed."""
    fused = [variant for variant in variants if is_fused(variant)]
    greatest = _greatest_depths(fused, ground)
    fusings = tuple(FusedVariant(each, tuple(_shares(each, ground, greatest))) for each in fused)
    tasks = {(share.task.digest, share.task.depth): share.task for fusing in fusings for share in fusing.shares}
    searched = tuple(variant for variant in variants if not is_fused(variant))
    return LegPlan(tuple(tasks.values()), fusings, searched, tuple(kept), alike)


def _greatest_depths(variants: Sequence[Variant], ground: Ground) -> dict[str, int]:
    greatest: dict[str, int] = {}
    for variant in variants:
        for leg in variant.legs:
            digest = leg_digest(variant, leg, ground)
            greatest[digest] = max(variant.depth_of(leg), greatest.get(digest, 0))
    return greatest


def _shares(variant: Variant, ground: Ground, greatest: Mapping[str, int]) -> Iterable[LegUse]:
    for name, leg in zip(variant.leg_names, variant.legs, strict=True):
        digest, depth = leg_digest(variant, leg, ground), variant.depth_of(leg)
        alone = leg.model_copy(update={"label": None, "weight": 1.0, "depth": None})
        deepest = greatest[digest] if leg.deepens else depth
        model = _model(variant, leg, ground)
        yield LegUse(name, leg, depth, LegTask(digest, alone, deepest, variant.chunks, model, variant.filter))


def asked_of(leg: Leg) -> dict[str, Any]:
    """Its kind and options, without what its variant makes of it."""
    return {key: value for key, value in LEGS.write(leg).items() if key not in THE_VARIANTS}


def leg_digest(variant: Variant, leg: Leg, ground: Ground) -> str:
    """Of all that decides what a leg finds, its depth excepted."""
    narrowed = variant.filter.model_dump(mode="json", by_alias=True) if variant.filter else None
    model = _model(variant, leg, ground)
    mark = ground.marks.get(model, "") if leg.uses_model else ""
    return _digest(
        [ground.collection, ground.state, ground.queries, variant.chunks, model, mark, narrowed, asked_of(leg)]
    )


def _model(variant: Variant, leg: Leg, ground: Ground) -> str | None:
    if not leg.uses_model:
        return None
    return variant.model or ground.models.get(variant.chunks)


def _digest(content: object) -> str:
    written = json.dumps(content, sort_keys=True, ensure_ascii=False)
    return hashlib.blake2b(written.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def describe(plan: LegPlan) -> str:
    """The plan in a line: "36 variants -> 5 leg runs, 2 searched query by query"."""
    count = len(plan.fused) + len(plan.searched) + len(plan.kept) + plan.alike
    alike = f" ({plan.alike} alike)" if plan.alike else ""
    parts = [_counted(len(plan.legs), "leg run")] if plan.fused else []
    parts += [f"{len(plan.searched)} searched query by query"] if plan.searched else []
    parts += [f"{len(plan.kept)} kept from before"] if plan.kept else []
    return f"{_counted(count, 'variant')}{alike} -> {', '.join(parts) or 'nothing to do'}"


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
