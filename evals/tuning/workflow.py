"""The way of tuning from a variant to its result: leg rankings, surfaces over them, weights chosen.

No query that is reported has a say in the choice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from core.errors import InputError, SpecError
from core.fusion import Fusion, LinearFusion, RrfFusion
from core.fusion.base import FUSIONS
from core.pipeline.retriever import DEEPER, DEEPEST
from core.progress import Listener, nobody
from core.variant import Variant
from evals.evaluation.context import EvalContext
from evals.measures import cut_off
from evals.runs.batch_fusion import FusionArrays, ResultCut
from evals.runs.checkpoints import Batches
from evals.runs.fused_runs import Unit, deep_enough, described
from evals.runs.leg_runs import LegQueryResults, LegRunner
from evals.runs.plan import PER_QUERY, FusedVariant, LegUse, is_fused
from evals.runs.rankings import LegRankings, Ranking
from evals.runs.runner import RunOptions, plan_runs
from evals.statistics.crossfit import normalised
from evals.tuning import surface
from evals.tuning.surface import Surface
from evals.tuning.sweep import swept
from evals.tuning.tuner import Deeper, TuningProcedure, TuningResult, classified, tune
from evals.types import QuerySplit


@dataclass(frozen=True, slots=True)
class Legs:
    """The legs' rankings, what is cut of what they fuse to, and what was left out to get there."""

    rankings: tuple[LegRankings, ...]
    cut: ResultCut
    notes: tuple[str, ...] = ()


def bare(variant: Variant) -> tuple[Variant, tuple[str, ...]]:
    """The variant as far as its weights decide: legs, fusion and cut; and what was left out."""
    gone = [stage for stage in PER_QUERY if getattr(variant, stage) is not None]
    changes: dict[str, Any] = dict.fromkeys(gone)
    if variant.parents == "replace":
        gone.append("parents")
        changes["parents"] = "none"
    if not gone:
        return variant, ()
    note = f"{variant.name}: weights are looked for without its {', '.join(gone)}, and hold for what these are given."
    return variant.but(**changes), (note,)


async def leg_rankings(
    ground: EvalContext, variants: Sequence[Variant], split: QuerySplit, progress: Listener = nobody
) -> list[Legs]:
    """Of each variant, as deep as it asks them. What several ask is asked once, and no query is embedded twice."""
    plain = [bare(each) for each in variants]
    legs, fusings = await _planned(ground, [each for each, _ in plain], split, progress)
    return [
        Legs(await _all(legs, fusing), ResultCut.of(each), notes)
        for fusing, (each, notes) in zip(fusings, plain, strict=True)
    ]


async def embedded(ground: EvalContext, variant: Variant, split: QuerySplit) -> bool:
    """Whether its legs need no query's vector any more, having been asked all before."""
    legs, (fusing,) = await _planned(ground, [bare(variant)[0]], split)
    kept = [await legs.kept(share.task) for share in fusing.shares if share.leg.uses_model]
    return not any(found.lacks(query) for found in kept for query in split.queries)


async def _planned(
    ground: EvalContext, plain: Sequence[Variant], split: QuerySplit, progress: Listener = nobody
) -> tuple[LegRunner, tuple[FusedVariant, ...]]:
    for each in plain:
        if len(each.legs) < 2 or not is_fused(each):
            raise SpecError(
                f"{each.name!r} has one leg, so that there are no weights to look for. Give it two to four."
            )
    ready = await plan_runs(ground.context, plain, split, query_set=ground.query_set, options=RunOptions(again=True))
    batches = Batches(ground.store, ready.context.view, ready.state)
    return LegRunner(ready.context, split, batches, listener=progress), ready.plan.fused


async def _all(legs: LegRunner, fusing: FusedVariant) -> tuple[LegRankings, ...]:
    units: dict[str, Unit] = {}
    made = []
    for share in fusing.shares:
        found = await _found(legs, share, share.depth, list(legs.split.queries), units)
        made.append(found)
    await _deepen(legs, fusing, made, units)
    return tuple(made)


async def _found(
    legs: LegRunner, share: LegUse, depth: int, queries: Sequence[str], units: dict[str, Unit]
) -> LegRankings:
    found = await legs.found(deep_enough(share, depth), queries)
    if found.missing:
        raise SpecError(f"{share.name} is not available: {next(iter(found.missing.values()))}")
    await _describe(legs, share, depth, found, units)
    rankings = {query: _placed(found.rankings[query], depth, units) for query in queries if query in found.rankings}
    return LegRankings(share.name, share.leg, depth, rankings, found.milliseconds, dict(found.failures))


async def _deepen(legs: LegRunner, fusing: FusedVariant, made: list[LegRankings], units: dict[str, Unit]) -> None:
    """Ask deeper where a roll-up leaves too few items of all candidates, as the pipeline does it whatever the weights.

    Not where there are more candidates than `fused_depth` lets through: deeper ones would not go on.
    """
    variant = fusing.variant
    if variant.rollup is None:
        return
    depth_of = {share.name: share.depth for share in fusing.shares}
    pending = list(legs.split.queries)
    for _ in range(1, DEEPEST):
        pending = [query for query in pending if _is_short(query, made, depth_of, variant)]
        if not pending:
            return
        depth_of = {name: depth * DEEPER for name, depth in depth_of.items()}
        for at, share in enumerate(fusing.shares):
            deeper = await _found(legs, share, depth_of[share.name], pending, units)
            made[at] = replace(made[at], rankings={**made[at].rankings, **deeper.rankings})


def _is_short(query: str, made: Sequence[LegRankings], depths: Mapping[str, int], variant: Variant) -> bool:
    """Whether what all legs found is of too few items, and more could be found and go on."""
    found = [(leg.rankings[query], depths[leg.name]) for leg in made if query in leg.rankings]
    items = {item for ranked, _ in found for item in ranked.item_ids}
    units = {unit for ranked, _ in found for unit in ranked.ids}
    capped = variant.fused_depth is not None and len(units) >= variant.fused_depth
    return len(items) < variant.top_k and not capped and any(ranked.length >= depth for ranked, depth in found)


async def _describe(legs: LegRunner, share: LegUse, depth: int, found: LegQueryResults, units: dict[str, Unit]) -> None:
    """Add which item each unit is of that was not met before."""
    lacking = sorted({unit for ranked in found.rankings.values() for unit in ranked.ids[:depth]} - units.keys())
    units |= await described(legs.context.store, legs.level(share.task), lacking)


def _placed(ranked: Ranking, depth: int, units: dict[str, Unit]) -> Ranking:
    ids = ranked.ids[:depth]
    items = tuple(units[unit][0] for unit in ids)
    return Ranking(ids, ranked.values[:depth], () if items == ids else items)


def looked(
    base: Variant,
    metric: str,
    steps: int,
    fusions: Sequence[Fusion | Mapping[str, Any] | str],
    procedure: TuningProcedure,
    *,
    per_kind: bool,
) -> TuningRequest:
    read = [FUSIONS.read({"method": each} if isinstance(each, str) else each) for each in fusions]
    return TuningRequest(base, metric, steps, tuple(read), per_kind, procedure)


OFFERED = (RrfFusion(), LinearFusion())  # whose equal weights anybody has without tuning, whatever is swept
DEEPER_CANDIDATES = 100  # candidates from each leg: at what depth the weights found are scored once more


@dataclass(frozen=True, slots=True)
class TuningRequest:
    """What was looked for, over which queries. `deeper` asks what deeper legs would bring."""

    base: Variant
    metric: str
    steps: int
    fusions: tuple[Fusion, ...]
    per_kind: bool
    procedure: TuningProcedure
    deeper: bool = True

    @property
    def deepest(self) -> Variant:
        """The base with the depth at which the weights found are scored once more; itself where it is as deep."""
        short = any(self.base.depth_of(leg) < DEEPER_CANDIDATES for leg in self.base.legs)
        return self.base.at_depth(DEEPER_CANDIDATES) if self.deeper and short else self.base

    @property
    def scored(self) -> list[Variant]:
        """The base, and the same with deeper legs where it is asked what these would bring."""
        return [self.base] if self.deepest == self.base else [self.base, self.deepest]


@dataclass(frozen=True, slots=True)
class TunedVariant:
    """What came of one tuning. `variant` is None where labels are too few, or a loss is expected, and nobody asked for
    it even so.
    """

    name: str
    split: str
    tuned: TuningResult
    variant: Variant | None
    notes: tuple[str, ...] = ()


def exclude_reported(
    ground: EvalContext, split: QuerySplit, reported: QuerySplit
) -> tuple[QuerySplit, tuple[str, ...]]:
    """The split without the queries that are reported too: by their ids, or by their texts under others."""
    taken = {normalised(query.text) for query in reported.queries.values()}
    shared = {
        each for each, query in split.queries.items() if each in reported.queries or normalised(query.text) in taken
    }
    if not shared:
        return split, ()
    left = split.only(split.queries.keys() - shared)
    if not left.queries:
        raise InputError(
            f"Every query of the split {split.name!r} of {ground.view.name!r} is one of {reported.name!r} too, so "
            "there is none to tune by. Tune on a split of other queries."
        )
    note = (
        f"{len(shared)} queries of {split.name!r} are reported in {reported.name!r} too: weights were chosen without."
    )
    return left, (note,)


async def tune_weights(
    ground: EvalContext, split: QuerySplit, asked: TuningRequest, progress: Listener = nobody
) -> tuple[TuningResult, Legs]:
    """Every fusion's surface over these queries, and the choice among them."""
    legs, *deep = await leg_rankings(ground, asked.scored, split, progress)
    surfaces, offered = await asyncio.to_thread(surfaces_of, legs, split, asked)
    kinds = classified(split) if asked.per_kind else None
    tuned = await asyncio.to_thread(lambda: tune(surfaces, asked.procedure, kinds=kinds, offered=offered))
    if deep:
        tuned = replace(tuned, deeper=await asyncio.to_thread(_deeper, deep[0], split, asked, tuned))
    return tuned, legs


def _deeper(legs: Legs, split: QuerySplit, asked: TuningRequest, tuned: TuningResult) -> Deeper:
    """The chosen point, scored once more with what deeper legs found."""
    chosen = tuned.chosen
    point = tuned.surfaces[chosen.surface].grid[[chosen.point]]
    cut, deepest = legs.cut.seen_by(asked.metric), cut_off(asked.metric)
    made = swept(legs.rankings, split, chosen.fusion, steps=asked.steps, cut=cut, deepest=deepest, points=point)
    mean = float(made.surface(asked.metric).means[0])
    depths = {name: asked.base.depth_of(leg) for name, leg in zip(asked.base.leg_names, asked.base.legs, strict=True)}
    return Deeper(depths, DEEPER_CANDIDATES, mean, mean - tuned.in_sample)


def surfaces_of(legs: Legs, split: QuerySplit, asked: TuningRequest) -> tuple[list[Surface], list[Surface]]:
    """Every fusion's surface; and of what else is on offer one point, for its equal weights."""
    arrays, fusions = FusionArrays.of(legs.rankings), asked.fusions
    others = [fusion for fusion in OFFERED if fusion not in fusions]
    cut, deepest = legs.cut.seen_by(asked.metric), cut_off(asked.metric)
    first = surface.points(len(arrays.legs), asked.steps)[:1]
    made = [
        swept(arrays, split, fusion, steps=asked.steps, cut=cut, deepest=deepest, points=points).surface(asked.metric)
        for fusion, points in [*((each, None) for each in fusions), *((each, first) for each in others)]
    ]
    return made[: len(fusions)], made[len(fusions) :]


async def tuned_variant(
    ground: EvalContext,
    name: str,
    split: QuerySplit,
    reported: QuerySplit,
    asked: TuningRequest,
    *,
    even_so: bool = False,
    progress: Listener = nobody,
) -> TunedVariant:
    """The base with the weights that this split's own queries ask for."""
    own, notes = exclude_reported(ground, split, reported)
    found, legs = await tune_weights(ground, own, replace(asked, deeper=False), progress)
    notes = (*notes, *legs.notes)
    why = found.refusal(per_kind=asked.per_kind)
    if why and not even_so:
        left = f"{name} was left out of the table. To have its weights even so, set even_so = true."
        return TunedVariant(name, split.name, found, None, (*notes, why, left))
    made = found.variant(asked.base, per_kind=asked.per_kind, even_so=even_so).but(name=name)
    return TunedVariant(name, split.name, found, made, notes)
