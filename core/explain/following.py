"""A document's way through the stages of a run, read from its trace: where it stood, and which stage lost it."""

from __future__ import annotations

from dataclasses import dataclass

from core.explain.account import Loss, Place
from core.explain.target import Target
from core.retriever import RetrievalBundle
from core.trace import Stage

FOLLOWED = ("roll up", "per-item cap", "parents", "rerank", "cut")


@dataclass(frozen=True, slots=True)
class Way:
    """`waiting` is where it stood before the stage that lost it. `end` is its place among the results."""

    places: tuple[Place, ...] = ()
    loss: Loss | None = None
    waiting: Place | None = None
    end: Place | None = None
    shown_as: str | None = None


def followed(bundle: RetrievalBundle, target: Target) -> Way:
    """The way of the document, or of the best of its units that was left at each stage."""
    stages = {stage.name: stage for stage in bundle.trace.stages}  # of a stage that was done again, the last
    brought_up = any(
        unit in target.units for name in bundle.variant.leg_names for unit, _ in stages[f"leg {name}"].ranking
    )
    if not brought_up:
        why = "no leg has it among those it takes" if target.units else "it has no unit here that could be searched"
        return Way(loss=Loss("recall", why))
    walk = _Walk(set(target.units))
    names = ["fuse", *(name for name in stages if name in FOLLOWED and target.kind != "late chunk")]
    for name in names:
        if not walk.on(stages[name]):
            return Way(tuple(walk.places), walk.loss, walk.places[-1] if walk.places else None)
    if target.kind == "late chunk":
        return _among_evidence(bundle, target, walk)
    if target.kind == "parent" and target.id not in walk.held:
        why = f"parents are not searched themselves, and parents = {bundle.variant.parents!r} shows children"
        return Way(tuple(walk.places), Loss("parents", why), walk.places[-1])
    return Way(tuple(walk.places), end=walk.places[-1], shown_as=walk.best)


class _Walk:
    """What is left of the document's units, stage by stage."""

    def __init__(self, units: set[str]) -> None:
        self.held = units
        self.order: list[str] = []
        self.places: list[Place] = []
        self.loss: Loss | None = None

    @property
    def best(self) -> str:
        return next(unit for unit in self.order if unit in self.held)

    def on(self, stage: Stage) -> bool:
        """Whether the document is still there after it."""
        order = [unit for unit, _ in stage.ranking]
        held = self._renamed(stage, order) & set(order)
        if not held:
            self.loss = Loss(stage.name, self._reason(stage))
            return False
        self.held, self.order = held, order
        rank = next(place for place, unit in enumerate(order, 1) if unit in held)
        self.places.append(Place(stage.name, rank, stage.ranking[rank - 1][1]))
        return True

    def _renamed(self, stage: Stage, order: list[str]) -> set[str]:
        """A parent that stands in a child's place goes by its own id: the stage keeps the order of those it keeps."""
        if stage.name != "parents":
            return self.held
        gone = {each.id for each in stage.dropped}
        kept = [unit for unit in self.order if unit not in gone]
        became = dict(zip(kept, order, strict=False))
        return {became[unit] for unit in self.held if unit in became}

    def _reason(self, stage: Stage) -> str:
        said = {each.id: each.reason for each in stage.dropped}
        for unit in [*self.order, *sorted(self.held)]:
            if unit in self.held and unit in said:
                return said[unit]
        return "the fusion keeps only what every leg brought up" if stage.name == "fuse" else "it was not handed on"


def _among_evidence(bundle: RetrievalBundle, target: Target, walk: _Walk) -> Way:
    for rank, chunk in enumerate(bundle.evidence, start=1):
        if chunk.chunk_id == target.id:
            place = Place("late chunks", rank, chunk.score)
            return Way((*walk.places, place), end=place, shown_as=target.id)
    late = bundle.variant.late
    own = sum(chunk.item_id == target.item_id for chunk in bundle.evidence)
    full = late is not None and own >= late.per_item_cap
    why = f"{own} chunks of its item came out, and per_item_cap is {own}" if full else "other chunks score higher"
    if late is not None and not full and len(bundle.evidence) < late.top_k_chunks:
        why = "its item has no such chunk now"
    return Way(tuple(walk.places), Loss("late chunks", why), walk.places[-1])
