"""What each leg of a variant finds over a split, by itself: what weights are swept and tuned over.

Owns which stages are left out for it. Legs that were asked before, by any variant, are not asked again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from core.errors import SpecError
from core.retriever import DEEPER, DEEPEST
from core.store.progress import Listener, nobody
from core.variant import Variant
from evals.evaluation import Opened
from evals.rankings import LegRankings, Ranked
from evals.running.batches import Batches
from evals.running.computed import Unit, deep_enough, described
from evals.running.leg_runs import LegFound, LegRuns
from evals.running.plan import PER_QUERY, Fusing, Share, is_fused
from evals.running.runner import Options, prepared
from evals.splits import Split
from evals.weights.fusing import Cut


@dataclass(frozen=True, slots=True)
class Legs:
    """The legs' rankings, what is cut of what they fuse to, and what was left out to get there."""

    rankings: tuple[LegRankings, ...]
    cut: Cut
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
    ground: Opened, variants: Sequence[Variant], split: Split, progress: Listener = nobody
) -> list[Legs]:
    """Of each variant, as deep as it asks them. What several ask is asked once, and no query is embedded twice."""
    plain = [bare(each) for each in variants]
    legs, fusings = await _planned(ground, [each for each, _ in plain], split, progress)
    return [
        Legs(await _all(legs, fusing), Cut.of(each), notes)
        for fusing, (each, notes) in zip(fusings, plain, strict=True)
    ]


async def embedded(ground: Opened, variant: Variant, split: Split) -> bool:
    """Whether its legs need no query's vector any more, having been asked all before."""
    legs, (fusing,) = await _planned(ground, [bare(variant)[0]], split)
    kept = [await legs.kept(share.task) for share in fusing.shares if share.leg.uses_model]
    return not any(found.lacks(query) for found in kept for query in split.queries)


async def _planned(
    ground: Opened, plain: Sequence[Variant], split: Split, progress: Listener = nobody
) -> tuple[LegRuns, tuple[Fusing, ...]]:
    for each in plain:
        if len(each.legs) < 2 or not is_fused(each):
            raise SpecError(
                f"{each.name!r} has one leg, so that there are no weights to look for. Give it two to four."
            )
    ready = await prepared(ground.context, plain, split, query_set=ground.query_set, options=Options(again=True))
    batches = Batches(ground.store, ready.context.view, ready.state)
    return LegRuns(ready.context, split, batches, listener=progress), ready.plan.fused


async def _all(legs: LegRuns, fusing: Fusing) -> tuple[LegRankings, ...]:
    units: dict[str, Unit] = {}
    made = []
    for share in fusing.shares:
        found = await _found(legs, share, share.depth, list(legs.split.queries), units)
        made.append(found)
    await _deepen(legs, fusing, made, units)
    return tuple(made)


async def _found(
    legs: LegRuns, share: Share, depth: int, queries: Sequence[str], units: dict[str, Unit]
) -> LegRankings:
    found = await legs.found(deep_enough(share, depth), queries)
    if found.missing:
        raise SpecError(f"{share.name} is not available: {next(iter(found.missing.values()))}")
    await _describe(legs, share, depth, found, units)
    rankings = {query: _placed(found.rankings[query], depth, units) for query in queries if query in found.rankings}
    return LegRankings(share.name, share.leg, depth, rankings, found.milliseconds, dict(found.failures))


async def _deepen(legs: LegRuns, fusing: Fusing, made: list[LegRankings], units: dict[str, Unit]) -> None:
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


async def _describe(legs: LegRuns, share: Share, depth: int, found: LegFound, units: dict[str, Unit]) -> None:
    """Add which item each unit is of that was not met before."""
    lacking = sorted({unit for ranked in found.rankings.values() for unit in ranked.ids[:depth]} - units.keys())
    units |= await described(legs.context.store, legs.level(share.task), lacking)


def _placed(ranked: Ranked, depth: int, units: dict[str, Unit]) -> Ranked:
    ids = ranked.ids[:depth]
    items = tuple(units[unit][0] for unit in ids)
    return Ranked(ids, ranked.values[:depth], () if items == ids else items)
