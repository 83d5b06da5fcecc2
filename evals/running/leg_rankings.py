"""What each leg of a variant finds over a split, by itself: what weights are swept and tuned over.

Owns which stages are left out for it. Legs that were asked before, by any variant, are not asked again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from core.errors import SpecError
from core.store.progress import Listener, nobody
from core.variant import Variant
from evals.evaluation import Opened
from evals.rankings import LegRankings, Ranked
from evals.running.batches import Batches
from evals.running.computed import Unit, described
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


async def leg_rankings(ground: Opened, variant: Variant, split: Split, progress: Listener = nobody) -> Legs:
    """As deep as the variant asks them."""
    plain, notes = bare(variant)
    legs, fusing = await _planned(ground, plain, split, progress)
    return Legs(await _all(legs, fusing), Cut.of(plain), notes)


async def embedded(ground: Opened, variant: Variant, split: Split) -> bool:
    """Whether its legs need no query's vector any more, having been asked all before."""
    legs, fusing = await _planned(ground, bare(variant)[0], split)
    kept = [await legs.kept(share.task) for share in fusing.shares if share.leg.uses_model]
    return not any(found.lacks(query) for found in kept for query in split.queries)


async def _planned(ground: Opened, plain: Variant, split: Split, progress: Listener = nobody) -> tuple[LegRuns, Fusing]:
    if len(plain.legs) < 2 or not is_fused(plain):
        raise SpecError(f"{plain.name!r} has one leg, so that there are no weights to look for. Give it two to four.")
    ready = await prepared(ground.context, [plain], split, query_set=ground.query_set, options=Options(again=True))
    batches = Batches(ground.store, ready.context.view, ready.state)
    legs = LegRuns(ready.context, split, batches, listener=progress)
    (fusing,) = ready.plan.fused
    return legs, fusing


async def _all(legs: LegRuns, fusing: Fusing) -> tuple[LegRankings, ...]:
    units: dict[str, Unit] = {}
    made = []
    for share in fusing.shares:
        found = await legs.found(share.task, legs.split.queries)
        if found.missing:
            raise SpecError(f"{share.name} is not available: {next(iter(found.missing.values()))}")
        await _describe(legs, share, found, units)
        rankings = {query: _placed(ranked, share.depth, units) for query, ranked in found.rankings.items()}
        rankings = {query: rankings[query] for query in legs.split.queries if query in rankings}
        made.append(LegRankings(share.name, share.leg, share.depth, rankings, found.milliseconds, dict(found.failures)))
    return tuple(made)


async def _describe(legs: LegRuns, share: Share, found: LegFound, units: dict[str, Unit]) -> None:
    """Add which item each unit is of that was not met before."""
    lacking = sorted({unit for ranked in found.rankings.values() for unit in ranked.ids[: share.depth]} - units.keys())
    units |= await described(legs.context.store, legs.level(share.task), lacking)


def _placed(ranked: Ranked, depth: int, units: dict[str, Unit]) -> Ranked:
    ids = ranked.ids[:depth]
    items = tuple(units[unit][0] for unit in ids)
    return Ranked(ids, ranked.values[:depth], () if items == ids else items)
