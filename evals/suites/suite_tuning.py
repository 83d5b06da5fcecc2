"""What a suite's [[tune]] asks: weights looked for on a split of its own, before the reported one is looked at.

Owns that no query which is reported has a say. How weights are chosen is `evals.weights.tuning`'s.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace

from core.errors import InputError
from core.fusion import Fusion, LinearFusion, RrfFusion
from core.store.progress import Listener, nobody
from core.variant import Variant
from evals.evaluation import Opened
from evals.running.leg_rankings import Legs, leg_rankings
from evals.splits import Split
from evals.weights import simplex
from evals.weights.arrays import Arrays
from evals.weights.crossfit import normalised
from evals.weights.places import cut_off
from evals.weights.surface import Surface
from evals.weights.sweep import swept
from evals.weights.tuned import Deeper, Procedure, Tuned
from evals.weights.tuning import classified, tune

OFFERED = (RrfFusion(), LinearFusion())  # whose equal weights anybody has without tuning, whatever is swept
DEEPER = 100  # candidates from each leg: at what depth the weights found are scored once more


@dataclass(frozen=True, slots=True)
class Looked:
    """What was looked for, over which queries. `deeper` asks what deeper legs would bring."""

    base: Variant
    metric: str
    steps: int
    fusions: tuple[Fusion, ...]
    per_kind: bool
    procedure: Procedure
    deeper: bool = True

    @property
    def deepest(self) -> Variant:
        """The base with the depth at which the weights found are scored once more; itself where it is as deep."""
        short = any(self.base.depth_of(leg) < DEEPER for leg in self.base.legs)
        return self.base.at_depth(DEEPER) if self.deeper and short else self.base

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
    tuned: Tuned
    variant: Variant | None
    notes: tuple[str, ...] = ()


def apart(ground: Opened, split: Split, reported: Split) -> tuple[Split, tuple[str, ...]]:
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


async def looked_for(ground: Opened, split: Split, asked: Looked, progress: Listener = nobody) -> tuple[Tuned, Legs]:
    """Every fusion's surface over these queries, and the choice among them."""
    legs, *deep = await leg_rankings(ground, asked.scored, split, progress)
    surfaces, offered = await asyncio.to_thread(surfaces_of, legs, split, asked)
    kinds = classified(split) if asked.per_kind else None
    tuned = await asyncio.to_thread(lambda: tune(surfaces, asked.procedure, kinds=kinds, offered=offered))
    if deep:
        tuned = replace(tuned, deeper=await asyncio.to_thread(_deeper, deep[0], split, asked, tuned))
    return tuned, legs


def _deeper(legs: Legs, split: Split, asked: Looked, tuned: Tuned) -> Deeper:
    """The chosen point, scored once more with what deeper legs found."""
    chosen = tuned.chosen
    point = tuned.surfaces[chosen.surface].grid[[chosen.point]]
    cut, deepest = legs.cut.seen_by(asked.metric), cut_off(asked.metric)
    made = swept(legs.rankings, split, chosen.fusion, steps=asked.steps, cut=cut, deepest=deepest, points=point)
    mean = float(made.surface(asked.metric).means[0])
    depths = {name: asked.base.depth_of(leg) for name, leg in zip(asked.base.leg_names, asked.base.legs, strict=True)}
    return Deeper(depths, DEEPER, mean, mean - tuned.in_sample)


def surfaces_of(legs: Legs, split: Split, asked: Looked) -> tuple[list[Surface], list[Surface]]:
    """Every fusion's surface; and of what else is on offer one point, for its equal weights."""
    arrays, fusions = Arrays.of(legs.rankings), asked.fusions
    others = [fusion for fusion in OFFERED if fusion not in fusions]
    cut, deepest = legs.cut.seen_by(asked.metric), cut_off(asked.metric)
    first = simplex.points(len(arrays.legs), asked.steps)[:1]
    made = [
        swept(arrays, split, fusion, steps=asked.steps, cut=cut, deepest=deepest, points=points).surface(asked.metric)
        for fusion, points in [*((each, None) for each in fusions), *((each, first) for each in others)]
    ]
    return made[: len(fusions)], made[len(fusions) :]


async def tuned_variant(
    ground: Opened,
    name: str,
    split: Split,
    reported: Split,
    asked: Looked,
    *,
    even_so: bool = False,
    progress: Listener = nobody,
) -> TunedVariant:
    """The base with the weights that this split's own queries ask for."""
    own, notes = apart(ground, split, reported)
    found, legs = await looked_for(ground, own, replace(asked, deeper=False), progress)
    notes = (*notes, *legs.notes)
    why = found.refusal(per_kind=asked.per_kind)
    if why and not even_so:
        left = f"{name} was left out of the table. To have its weights even so, set even_so = true."
        return TunedVariant(name, split.name, found, None, (*notes, why, left))
    made = found.variant(asked.base, per_kind=asked.per_kind, even_so=even_so).but(name=name)
    return TunedVariant(name, split.name, found, made, notes)
