"""The one workflow of tuning: leg rankings, surfaces over them, weights chosen, and what they score elsewhere.

No query that is reported has a say in the choice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from core.errors import InputError, SpecError
from core.fusion import Fusion, LinearFusion, RrfFusion
from core.pipeline.retriever import DEEPER, DEEPEST
from core.progress import Listener, nobody
from core.variant import Variant
from evals.evaluation.board import Board
from evals.evaluation.context import EvalContext
from evals.evaluation.evaluate import evaluate
from evals.measures import cut_off
from evals.runs.batch_fusion import FusionArrays, ResultCut
from evals.runs.checkpoints import Batches
from evals.runs.fused_runs import UnitPlace, placed, unit_places
from evals.runs.plan import PER_QUERY, EvalOptions, FusedVariant, is_fused
from evals.runs.queries import leg_target
from evals.runs.query_runs import QueryRunner
from evals.runs.rankings import LegRankings
from evals.statistics.crossfit import normalised
from evals.statistics.verdicts import Rules
from evals.tuning import surface
from evals.tuning.surface import Surface
from evals.tuning.sweep import surface_ranks
from evals.tuning.tuner import Deeper, TuningProcedure, TuningResult, classify_queries, tune
from evals.types import QuerySplit

DEFAULT_FUSIONS = (RrfFusion(), LinearFusion())  # their equal weights are what anybody has without tuning
DEEPER_CANDIDATES = 100  # candidates from each leg: at what depth the weights found are scored once more


@dataclass(frozen=True, slots=True)
class TuningRequest:
    """Which weights are sought, by which queries.

    Queries that `reported` has too are left out, unless it is the very same split. `deeper` is whether to say what
    deeper legs would bring.
    """

    base: Variant
    split: QuerySplit
    metric: str
    steps: int
    fusions: tuple[Fusion, ...]
    per_kind: bool
    procedure: TuningProcedure
    reported: QuerySplit | None = None
    deeper: bool = True

    @property
    def variants(self) -> list[Variant]:
        """The base, and with `deeper` the same with deeper legs, where its own are less deep."""
        short = any(self.base.depth_of(leg) < DEEPER_CANDIDATES for leg in self.base.legs)
        return [self.base, self.base.at_depth(DEEPER_CANDIDATES)] if self.deeper and short else [self.base]


@dataclass(frozen=True, slots=True)
class Legs:
    """The legs' rankings, what is cut of what they fuse to, and what was left out to get there."""

    rankings: tuple[LegRankings, ...]
    cut: ResultCut
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TunedWeights:
    """What came of a request, and what to know of it. `split` are the queries that had a say."""

    request: TuningRequest
    split: QuerySplit
    result: TuningResult
    legs: Legs
    notes: tuple[str, ...]


async def tune_weights(ctx: EvalContext, request: TuningRequest, progress: Listener = nobody) -> TunedWeights:
    """Every fusion's surface over the request's queries, and the choice among them."""
    split, notes = request.split, tuple[str, ...]()
    if request.reported is not None and request.reported.name == split.name:
        notes = (
            f"The weights were chosen by the queries of {split.name!r}: a score over these says nothing of others.",
        )
    elif request.reported is not None:
        split, notes = exclude_reported(ctx, split, request.reported)
    legs, *deep = await leg_rankings(ctx, request.variants, split, progress)
    surfaces, offered = await asyncio.to_thread(_surfaces, legs, split, request)
    kinds = classify_queries(split) if request.per_kind else None
    result = await asyncio.to_thread(lambda: tune(surfaces, request.procedure, kinds=kinds, offered=offered))
    if deep:
        result = replace(result, deeper=await asyncio.to_thread(_score_deeper, deep[0], split, request, result))
    return TunedWeights(request, split, result, legs, (*notes, *legs.notes))


async def confirm(
    ctx: EvalContext,
    tuned: TunedWeights,
    made: Variant,
    split: QuerySplit,
    *,
    equal_name: str,
    rules: Rules,
    progress: Listener = nobody,
) -> Board:
    """The tuned variant scored on other queries, below what it is to beat: equal weights, and each leg by itself."""
    base = tuned.request.base
    equal = tuned.result.equal_weights(base, equal_name)
    own = {"chunks": base.chunks, "model": base.model, "filter": base.filter, "top_k": base.top_k}
    legs = [Variant.of_leg(leg, **own).but(name=name) for name, leg in zip(base.leg_names, equal.legs, strict=True)]
    options = EvalOptions((tuned.request.metric,), rules=rules, rename=False)
    return (await evaluate(ctx, [equal, *legs, made], split, options, progress=progress)).board


def reported_split(ctx: EvalContext, name: str, tuned_on: str) -> QuerySplit | None:
    """The queries that are reported; None where no split of that name is known."""
    return ctx.any_split(name) if name == tuned_on or name in ctx.labelled.splits else None


def exclude_reported(ctx: EvalContext, split: QuerySplit, reported: QuerySplit) -> tuple[QuerySplit, tuple[str, ...]]:
    """The split without the queries that are reported too: by their ids, or by their texts under others."""
    texts = {normalised(query.text) for query in reported.queries.values()}
    shared = {
        each for each, query in split.queries.items() if each in reported.queries or normalised(query.text) in texts
    }
    if not shared:
        return split, ()
    left = split.only(split.queries.keys() - shared)
    if not left.queries:
        raise InputError(
            f"Every query of the split {split.name!r} of {ctx.view.name!r} is one of {reported.name!r} too, so "
            "there is none to tune by. Tune on a split of other queries."
        )
    note = (
        f"{len(shared)} queries of {split.name!r} are reported in {reported.name!r} too: weights were chosen without."
    )
    return left, (note,)


# -- legs --------------------------------------------------------------------------------------------------------------


def without_stages(variant: Variant) -> tuple[Variant, tuple[str, ...]]:
    """The variant as far as its weights decide: legs, fusion and cut; and what was left out."""
    stages = [stage for stage in PER_QUERY if getattr(variant, stage) is not None]
    changes: dict[str, Any] = dict.fromkeys(stages)
    if variant.parents == "replace":
        stages.append("parents")
        changes["parents"] = "none"
    if not stages:
        return variant, ()
    names = ", ".join(stages)
    note = f"{variant.name}: weights are looked for without its {names}, and hold for what these are given."
    return variant.but(**changes), (note,)


async def leg_rankings(
    ctx: EvalContext, variants: Sequence[Variant], split: QuerySplit, progress: Listener = nobody
) -> list[Legs]:
    """Of each variant, as deep as it searches them. Legs in common are run once, and no query is embedded twice."""
    plain = [without_stages(each) for each in variants]
    queries, fused = await _plan_legs(ctx, [each for each, _ in plain], split, progress)
    return [
        Legs(await _rankings_of(queries, legs), ResultCut.of(each), notes)
        for legs, (each, notes) in zip(fused, plain, strict=True)
    ]


async def embeds_nothing(ctx: EvalContext, variant: Variant, split: QuerySplit) -> bool:
    """Whether its legs need no query's vector any more, as all their results are kept."""
    queries, (fused,) = await _plan_legs(ctx, [without_stages(variant)[0]], split)
    kept = [await queries.kept(use.task) for use in fused.uses if use.leg.uses_model]
    return not any(results.lacks(query) for results in kept for query in split.queries)


async def _plan_legs(
    ctx: EvalContext, variants: Sequence[Variant], split: QuerySplit, progress: Listener = nobody
) -> tuple[QueryRunner, tuple[FusedVariant, ...]]:
    for each in variants:
        if len(each.legs) < 2 or not is_fused(each):
            raise SpecError(
                f"{each.name!r} has one leg, so that there are no weights to look for. Give it two to four."
            )
    plan = await ctx.plan(variants, split, EvalOptions(again=True))
    batches = Batches(ctx.store, ctx.view, plan.inputs.state)
    return QueryRunner(ctx.context, split, batches, progress=progress), plan.fused


async def _rankings_of(queries: QueryRunner, fused: FusedVariant) -> tuple[LegRankings, ...]:
    """Asks deeper where a roll-up leaves too few items of all candidates, as the pipeline does whatever the weights.

    Not where there are more candidates than `fused_depth` lets through: deeper ones would not go on.
    """
    variant, context = fused.variant, queries.context
    legs: dict[str, LegRankings] = {}
    places: dict[str, UnitPlace] = {}
    depths = {use.name: use.depth for use in fused.uses}
    pending = list(queries.split.queries)
    for _ in range(DEEPEST):
        for use in fused.uses:
            depth = depths[use.name]
            found = await queries.run_leg(use.task.at_depth(depth), pending)
            if reason := next((found.missing(query) for query in pending if found.missing(query)), ""):
                raise SpecError(f"{use.name} is not available: {reason}")
            units = {unit for ranking in found.rankings.values() for unit in ranking.ids[:depth]}
            places |= await unit_places(context.store, leg_target(context, use.task), sorted(units - places.keys()))
            rankings = {
                query: placed(found.rankings[query], depth, places) for query in pending if query in found.rankings
            }
            before = legs.get(use.name)
            legs[use.name] = (
                LegRankings(use.name, use.leg, depth, rankings, found.milliseconds, dict(found.failures))
                if before is None
                else replace(before, rankings={**before.rankings, **rankings})
            )
        if variant.rollup is not None:
            pending = [query for query in pending if _is_short(query, list(legs.values()), depths, variant)]
        if variant.rollup is None or not pending:
            break
        depths = {name: depth * DEEPER for name, depth in depths.items()}
    return tuple(legs.values())


def _is_short(query: str, legs: Sequence[LegRankings], depths: dict[str, int], variant: Variant) -> bool:
    """Whether what all legs found is of too few items, and more could be found and go on."""
    found = [(leg.rankings[query], depths[leg.name]) for leg in legs if query in leg.rankings]
    items = {item for ranking, _ in found for item in ranking.item_ids}
    units = {unit for ranking, _ in found for unit in ranking.ids}
    capped = variant.fused_depth is not None and len(units) >= variant.fused_depth
    return len(items) < variant.top_k and not capped and any(ranking.length >= depth for ranking, depth in found)


# -- surfaces ----------------------------------------------------------------------------------------------------------


def _surfaces(legs: Legs, split: QuerySplit, request: TuningRequest) -> tuple[list[Surface], list[Surface]]:
    """Every fusion's surface; and of what else is on offer one point, for its equal weights."""
    arrays, fusions, metric = FusionArrays.of(legs.rankings), request.fusions, request.metric
    others = [fusion for fusion in DEFAULT_FUSIONS if fusion not in fusions]
    cut, deepest = legs.cut.seen_by(metric), cut_off(metric)
    first = surface.points(len(arrays.legs), request.steps)[:1]
    made = [
        surface_ranks(arrays, split, fusion, steps=request.steps, cut=cut, deepest=deepest, points=points).surface(
            metric
        )
        for fusion, points in [*((each, None) for each in fusions), *((each, first) for each in others)]
    ]
    return made[: len(fusions)], made[len(fusions) :]


def _score_deeper(legs: Legs, split: QuerySplit, request: TuningRequest, result: TuningResult) -> Deeper:
    """The chosen point, scored once more with what deeper legs found."""
    chosen, base, metric = result.chosen, request.base, request.metric
    point = result.surfaces[chosen.surface].grid[[chosen.point]]
    cut, deepest = legs.cut.seen_by(metric), cut_off(metric)
    made = surface_ranks(
        legs.rankings, split, chosen.fusion, steps=request.steps, cut=cut, deepest=deepest, points=point
    )
    mean = float(made.surface(metric).means[0])
    depths = {name: base.depth_of(leg) for name, leg in zip(base.leg_names, base.legs, strict=True)}
    return Deeper(depths, DEEPER_CANDIDATES, mean, mean - result.in_sample)
