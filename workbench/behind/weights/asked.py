"""What the weights page asks for, as its address says it, and what this comes to. Knows no Streamlit.

Owns the selection and what can be chosen. What is computed is `evals`'s.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property

import numpy as np
from sqlalchemy import select

from core import presets
from core.errors import SpecError, UnknownName
from core.fusion import Fusion, fusions
from core.fusion.base import FUSIONS, spec_of
from core.legs import legs
from core.progress import Listener
from core.store.engine import Store
from core.variant import Variant
from evals import variants
from evals.evaluation.context import EvalContext, tuning_split
from evals.measures import DEFAULT_METRIC
from evals.presentation.weight_surface import WeightSurface, weight_surface
from evals.runs.batch_fusion import FusionArrays, separable
from evals.schema import QuerySet
from evals.tuning import workflow
from evals.tuning.surface import Surface
from evals.tuning.tuner import TuningProcedure, TuningResult
from evals.tuning.workflow import Legs, TuningRequest
from evals.types import DEFAULT_QUERY_SET, QuerySplit
from evals.variants import hybrid_of, resolve_variant
from workbench.behind import sending
from workbench.behind.addressed import UrlState
from workbench.behind.sending import ConsentNeeded

STEPS = {2: 20, 3: 21, 4: 12}  # so that equal weights are a point; with four legs no more than anybody can look at
FORMER_STEPS = {3: 20, 4: 10}  # of addresses that were handed round before
METRICS = (DEFAULT_METRIC, "mrr@10", "recall@10", "map@10", "precision@10", "hit_rate@10")


@dataclass(frozen=True)
class WeightsState(UrlState):
    """A view of the weights page, all of it text, as an address says it. What is empty is left to its default.

    `variant` is a preset or a kept one whose legs are weighed; without one `legs` are, by their kinds. `weights` and
    `against` are points, each leg's share in whole steps: 13-7. The latter is what wins and losses are counted against.
    """

    collection: str = ""
    query_set: str = ""
    variant: str = ""
    legs: str = ""
    metric: str = ""
    fusion: str = ""
    k: str = ""
    normalize: str = ""
    depth: str = ""
    split: str = ""
    weights: str = ""
    against: str = ""
    query: str = ""

    def but(self, **changes: str) -> WeightsState:
        """The same with other values. A point of other legs means nothing, and goes."""
        moved = {"weights": "", "against": ""} if {"collection", "variant", "legs"} & changes.keys() else {}
        gone = {"query": ""} if {"collection", "query_set", "split"} & changes.keys() else {}
        other = {"query_set": ""} if "collection" in changes else {}
        return replace(self, **(moved | gone | other | changes))

    @property
    def surface(self) -> tuple[str, ...]:
        """What the surface hangs on: all but where one stands on it, and at which query one looks."""
        return tuple(value for name, value in asdict(self).items() if name not in ("weights", "against", "query"))


# -- what can be chosen ------------------------------------------------------------------------------------------------


def methods() -> list[str]:
    """The fusions that have a weight surface."""
    return [name for name in fusions if separable(fusions[name]()) and fusions[name]().uses_weights]


def fusion_told(fusion: Fusion) -> str:
    """A fusion as an address can say it: its method, and what of it is not as usual."""
    spec, usual = spec_of(fusion), spec_of(type(fusion)())
    changed = {name: spec[name] for name in usual if spec[name] != usual[name]}
    told = {name: f"{value:g}" if isinstance(value, float) else str(value) for name, value in changed.items()}
    return ",".join([str(spec["method"]), *(f"{name}={value}" for name, value in told.items())])


def fusion_named(text: str, usual: Fusion) -> Fusion:
    """The fusion that an address names, and the usual one where it names none, or none that has a surface."""
    method, *options = text.split(",")
    if method not in methods():
        return usual
    return FUSIONS.read({"method": method, **dict(each.split("=", 1) for each in options if "=" in each)})


def method_of(base: Variant) -> str:
    return fusions.name_of(type(base.fusion))


def weighable() -> list[str]:
    """The presets and the kept variants of two to four legs."""
    kept = [each.name for each in variants.listed() if each.variant and len(each.variant.legs) in STEPS]
    return [*(name for name in presets.names() if len(presets.preset(name).legs) in STEPS), *kept]


async def query_sets_of(store: Store, collection: str) -> list[str]:
    """The names of its query sets, the usual one first."""
    asked = (
        select(QuerySet.name)
        .where(QuerySet.collection == collection)
        .order_by(QuerySet.name != DEFAULT_QUERY_SET, QuerySet.name)
    )
    async with store.begin(read_only=True) as connection:
        return list(await connection.scalars(asked))


def base_of(asked: WeightsState, chunks: str) -> Variant:
    """The variant whose legs get weights, under the fusion that is asked for."""
    if asked.variant:
        if asked.variant not in weighable():  # not `variant_of`, to which an address could name any file
            raise UnknownName("preset or kept variant of two to four legs", asked.variant, weighable())
        base = _counting(resolve_variant(asked.variant))
    else:
        names = [name for name in asked.legs.split(",") if name]
        if unknown := [name for name in names if name not in legs]:
            raise UnknownName("leg", unknown[0], legs)
        base = hybrid_of(names, chunks)
    return _at_depth(asked, base.but(fusion=_fusion(asked, base.fusion)))


def _at_depth(asked: WeightsState, base: Variant) -> Variant:
    """With every leg fetching what the address says; 0 and nothing leave the variant's own depths."""
    if not asked.depth.strip("0"):
        return base
    if not asked.depth.isdecimal():
        raise SpecError(f"The depth {asked.depth!r:.40} is no whole number. Give one from 1 to 10000.")
    return base.at_depth(int(asked.depth[:9]))


def depth_of(base: Variant) -> int:
    """How many candidates its legs fetch, the deepest of them."""
    return max(base.depth_of(leg) for leg in base.legs)


def _counting(variant: Variant) -> Variant:
    """One whose fusion ignores weights, as it does it: with all legs alike."""
    if variant.fusion.uses_weights or "weighted" not in type(variant.fusion).model_fields:
        return variant
    alike = dict.fromkeys(variant.leg_names, 1.0)
    return variant.weighted(alike, fusion=variant.fusion.model_copy(update={"weighted": True}))


def _fusion(asked: WeightsState, own: Fusion) -> Fusion:
    spec = spec_of(own)
    if asked.fusion and asked.fusion != spec["method"]:
        spec = {"method": asked.fusion}
    known = fusions[str(spec["method"])].model_fields
    for name, value in (("k", asked.k), ("normalize", asked.normalize)):
        if value and name in known:
            spec[name] = value
    return FUSIONS.read(spec)


# -- the work ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Weighed:
    """A surface with all that is known of it, and what the legs found, for whoever wants a query's ranking."""

    base: Variant
    split: QuerySplit
    legs: Legs
    arrays: FusionArrays
    tuned: TuningResult

    @property
    def surface(self) -> Surface:
        return self.tuned.surfaces[0]

    @cached_property
    def summary(self) -> WeightSurface:
        return weight_surface(self.base.name, self.tuned)

    def variant(self, point: Sequence[int]) -> Variant:
        """The base with the weights of a point."""
        steps = self.surface.steps
        weights = {name: share / steps for name, share in zip(self.surface.legs, point, strict=True)}
        return self.base.weighted(weights, name=f"{self.base.name}, {'-'.join(map(str, point))} of {steps}")

    @cached_property
    def liveliest(self) -> str:
        """The query whose value changes most over the surface: the one to look at first."""
        return self.surface.queries[int(np.argmax(self.surface.values.std(axis=0)))]

    @cached_property
    def current(self) -> tuple[int, ...]:
        """The point nearest to the base's own weights."""
        return nearest([leg.weight for leg in self.base.legs], self.surface.steps)

    def point(self, text: str) -> tuple[int, ...] | None:
        """The point that an address names, None where it is none of this surface."""
        try:
            found = tuple(int(part) for part in text.split("-"))
        except ValueError:
            return None
        if len(found) != len(self.surface.legs) or min(found) < 0:
            return None
        if sum(found) == FORMER_STEPS.get(len(found)) != self.surface.steps:
            return nearest(found, self.surface.steps)
        return found if sum(found) == self.surface.steps else None


async def weighed(
    ground: EvalContext, asked: WeightsState, listener: Listener, token: asyncio.Event, *, allowed: bool
) -> Weighed | ConsentNeeded:
    """The surface, and the honest figures about it."""
    base = base_of(asked, ground.view.default_chunk_set)
    split = ground.split(asked.split or tuning_split(ground.labelled))
    steps = STEPS.get(len(base.legs), 1)
    looked = TuningRequest(base, asked.metric or DEFAULT_METRIC, steps, (base.fusion,), True, TuningProcedure())
    return await looked_over(ground, split, looked, listener, token, allowed=allowed)


async def looked_over(
    ground: EvalContext,
    split: QuerySplit,
    looked: TuningRequest,
    listener: Listener,
    token: asyncio.Event,
    *,
    allowed: bool,
) -> Weighed | ConsentNeeded:
    """The surface of the only fusion that is looked at; where that sends queries away, once somebody allowed it."""
    if len(looked.base.legs) not in STEPS:
        raise SpecError(f"Weights are looked for among two to four legs, and there are {len(looked.base.legs)}.")
    for asking in looked.scored:
        if sends := await sending.announced_legs(ground, asking, split, allowed=allowed):
            return sends
    tuned, found = await workflow.tune_weights(ground.until(token), split, looked, listener)
    made = Weighed(looked.base, split, found, await asyncio.to_thread(FusionArrays.of, found.rankings), tuned)
    await asyncio.to_thread(lambda: made.summary)
    return made


def nearest(weights: Sequence[float], steps: int) -> tuple[int, ...]:
    """Weights as whole shares of the steps, by the largest remainders; equal ones where all are 0."""
    given = list(weights) if any(weights) else [1.0] * len(weights)
    exact = [steps * weight / math.fsum(given) for weight in given]
    whole = [math.floor(each) for each in exact]
    order = sorted(range(len(given)), key=lambda at: (whole[at] - exact[at], at))
    for at in order[: steps - sum(whole)]:
        whole[at] += 1
    return tuple(whole)
