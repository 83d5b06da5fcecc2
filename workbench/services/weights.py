"""The Weights page without its screen: what its address selects, what can be chosen, and the surface of it."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from core import presets
from core.errors import SpecError, UnknownName
from core.fusion import Fusion, fusions
from core.fusion.base import FUSIONS, spec_of
from core.legs import legs
from core.progress import Listener
from core.variant import Variant
from evals import variants
from evals.evaluation.context import EvalContext, tuning_split
from evals.measures import DEFAULT_METRIC
from evals.presentation.weight_surface import WeightSurface, weight_surface
from evals.runs.batch_fusion import FusionArrays, separable
from evals.tuning import workflow
from evals.tuning.surface import Surface
from evals.tuning.tuner import TuningProcedure, TuningResult
from evals.tuning.workflow import Legs, TuningRequest
from evals.types import QuerySplit
from evals.variants import hybrid_of, resolve_variant
from workbench.services import cost_notice
from workbench.services.cost_notice import ConsentNeeded
from workbench.services.url_state import UrlState

STEPS = {2: 20, 3: 21, 4: 12}  # so that equal weights are a point; with four legs no more than anybody can look at
FORMER_STEPS = {3: 20, 4: 10}  # of addresses that were handed round before
METRICS = (DEFAULT_METRIC, "mrr@10", "recall@10", "map@10", "precision@10", "hit_rate@10")


@dataclass(frozen=True)
class WeightsState(UrlState):
    """The address of the Weights page. Empty fields have defaults.

    `variant` is a preset or a kept one whose legs are weighed; without it `legs` are, by their kinds. `weights` and
    `against` are points as shares in whole steps (13-7); wins and losses are counted against the latter.
    """

    CLEARS: ClassVar[Mapping[str, tuple[str, ...]]] = {  # a point of other legs means nothing
        "collection": ("weights", "against", "query", "query_set"),
        "variant": ("weights", "against"),
        "legs": ("weights", "against"),
        "query_set": ("query",),
        "split": ("query",),
    }

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

    @property
    def surface(self) -> tuple[str, ...]:
        """What the surface depends on: every field except points and query."""
        return tuple(value for name, value in asdict(self).items() if name not in ("weights", "against", "query"))


# -- what can be chosen ------------------------------------------------------------------------------------------------


def methods() -> list[str]:
    """The fusions that have a weight surface."""
    return [name for name in fusions if separable(fusions[name]()) and fusions[name]().uses_weights]


def fusion_text(fusion: Fusion) -> str:
    """A fusion as written in an address: its method, and the options that are not default."""
    spec, usual = spec_of(fusion), spec_of(type(fusion)())
    changed = {name: spec[name] for name in usual if spec[name] != usual[name]}
    told = {name: f"{value:g}" if isinstance(value, float) else str(value) for name, value in changed.items()}
    return ",".join([str(spec["method"]), *(f"{name}={value}" for name, value in told.items())])


def fusion_from(text: str, usual: Fusion) -> Fusion:
    """The fusion that an address names; the default where it names none that has a surface."""
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


def base_of(state: WeightsState, chunks: str) -> Variant:
    """The variant whose legs are weighed, with the selected fusion."""
    if state.variant:
        if state.variant not in weighable():  # not `variant_of`, to which an address could name any file
            raise UnknownName("preset or kept variant of two to four legs", state.variant, weighable())
        base = _counting(resolve_variant(state.variant))
    else:
        names = [name for name in state.legs.split(",") if name]
        if unknown := [name for name in names if name not in legs]:
            raise UnknownName("leg", unknown[0], legs)
        base = hybrid_of(names, chunks)
    return _at_depth(state, base.but(fusion=_fusion(state, base.fusion)))


def _at_depth(state: WeightsState, base: Variant) -> Variant:
    """With the depth of the address in every leg; empty and 0 keep the variant's own."""
    if not state.depth.strip("0"):
        return base
    if not state.depth.isdecimal():
        raise SpecError(f"The depth {state.depth!r:.40} is no whole number. Give one from 1 to 10000.")
    return base.at_depth(int(state.depth[:9]))


def depth_of(base: Variant) -> int:
    """How many candidates its legs fetch, the deepest of them."""
    return max(base.depth_of(leg) for leg in base.legs)


def _counting(variant: Variant) -> Variant:
    """A variant whose fusion ignores weights, made to use equal ones."""
    if variant.fusion.uses_weights or "weighted" not in type(variant.fusion).model_fields:
        return variant
    alike = dict.fromkeys(variant.leg_names, 1.0)
    return variant.weighted(alike, fusion=variant.fusion.model_copy(update={"weighted": True}))


def _fusion(state: WeightsState, own: Fusion) -> Fusion:
    spec = spec_of(own)
    if state.fusion and state.fusion != spec["method"]:
        spec = {"method": state.fusion}
    known = fusions[str(spec["method"])].model_fields
    for name, value in (("k", state.k), ("normalize", state.normalize)):
        if value and name in known:
            spec[name] = value
    return FUSIONS.read(spec)


# -- the work ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class WeighedSurface:
    """A surface with its figures, and the legs' rankings for looking at single queries."""

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
        """The query whose value changes most over the surface."""
        return self.surface.queries[int(np.argmax(self.surface.values.std(axis=0)))]

    @cached_property
    def current(self) -> tuple[int, ...]:
        """The point nearest to the base's own weights."""
        return nearest([leg.weight for leg in self.base.legs], self.surface.steps)

    def point(self, text: str) -> tuple[int, ...] | None:
        """The point that an address names; None where it is not on this surface."""
        try:
            found = tuple(int(part) for part in text.split("-"))
        except ValueError:
            return None
        if len(found) != len(self.surface.legs) or min(found) < 0:
            return None
        if sum(found) == FORMER_STEPS.get(len(found)) != self.surface.steps:
            return nearest(found, self.surface.steps)
        return found if sum(found) == self.surface.steps else None


async def weigh(
    ctx: EvalContext, state: WeightsState, listener: Listener, token: asyncio.Event, *, allowed: bool
) -> WeighedSurface | ConsentNeeded:
    """The surface of the page's selection, with its figures."""
    base = base_of(state, ctx.view.default_chunk_set)
    split = ctx.split(state.split or tuning_split(ctx.labelled))
    steps = STEPS.get(len(base.legs), 1)
    metric = state.metric or DEFAULT_METRIC
    looked = TuningRequest(base, split, metric, steps, (base.fusion,), True, TuningProcedure())
    return await weigh_request(ctx, looked, listener, token, allowed=allowed)


async def weigh_request(
    ctx: EvalContext,
    looked: TuningRequest,
    listener: Listener,
    token: asyncio.Event,
    *,
    allowed: bool,
) -> WeighedSurface | ConsentNeeded:
    """The surface of the only fusion of a request. Where that sends queries away, consent comes first."""
    if len(looked.base.legs) not in STEPS:
        raise SpecError(f"Weights are looked for among two to four legs, and there are {len(looked.base.legs)}.")
    for asking in looked.variants:
        if sends := await cost_notice.for_legs(ctx, asking, looked.split, allowed=allowed):
            return sends
    tuned = await workflow.tune_weights(ctx.until(token), looked, listener)
    arrays = await asyncio.to_thread(FusionArrays.of, tuned.legs.rankings)
    made = WeighedSurface(looked.base, tuned.split, tuned.legs, arrays, tuned.result)
    await asyncio.to_thread(lambda: made.summary)
    return made


def nearest(weights: Sequence[float], steps: int) -> tuple[int, ...]:
    """Weights as whole shares of the steps, by the largest remainders; equal shares where all are 0."""
    given = list(weights) if any(weights) else [1.0] * len(weights)
    exact = [steps * weight / math.fsum(given) for weight in given]
    whole = [math.floor(each) for each in exact]
    order = sorted(range(len(given)), key=lambda at: (whole[at] - exact[at], at))
    for at in order[: steps - sum(whole)]:
        whole[at] += 1
    return tuple(whole)
