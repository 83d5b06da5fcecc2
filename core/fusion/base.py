"""The contract of fusions and their registry; rankings in, fused hits with each leg's part out.

Sums are added in a fixed order, so that a score is the same to the last bit wherever it is computed.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field

from core.errors import InputError, SpecError
from core.registry import Registry, Tagged
from core.types import LegScore

if TYPE_CHECKING:  # at run time it would bring in the whole store, and fusing needs no database
    from core.types import Candidate

Ranks = tuple[int | None, ...]  # one document's rank in every leg, from 1, None where a leg did not return it


@dataclass(frozen=True, slots=True)
class LegRanking:
    """What one leg returned, best first; the position is the rank. It is empty where the leg found nothing.

    `bounds` are the least and the greatest score that the leg could give to any document, infinite where there is none.
    """

    leg: str
    weight: float
    candidates: Sequence[Candidate]
    bounds: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        if not (math.isfinite(self.weight) and self.weight >= 0):
            raise SpecError(f"The leg {self.leg!r} has the weight {self.weight}. Give it a number from 0 up.")
        for candidate in self.candidates:
            if not math.isfinite(candidate.score):
                raise InputError(
                    f"The leg {self.leg!r} gave {candidate.id!r} the score {candidate.score}, which cannot be ordered "
                    "or added. Mend what makes the score, or leave such documents out of the leg."
                )
        if self.bounds is not None and not self.bounds[0] < self.bounds[1]:  # NaN is refused by this as well
            raise SpecError(f"The leg {self.leg!r} has the bounds {self.bounds}. The first must be below the second.")
        ids = {candidate.id for candidate in self.candidates}
        if len(ids) < len(self.candidates):
            twice = Counter(candidate.id for candidate in self.candidates).most_common(1)[0][0]
            raise InputError(
                f"The leg {self.leg!r} returned {twice!r} more than once. Keep its best place only before fusing."
            )


@dataclass(frozen=True, slots=True)
class FusedHit:
    """One document of a fused ranking.

    `score` is what the formula gives, `relative` is that divided by the ceiling, or `score` itself where there is none.
    `legs` holds the legs that returned the document, in the order they were given. `imputed` names what the `absent`
    policy added for legs that did not; both together, added in the legs' order, are the score of an additive method.
    """

    id: str
    score: float
    relative: float
    legs: tuple[LegScore, ...]
    imputed: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class DocumentScore:
    """A document's score with each leg's part in it, None for a leg that has no say on this document."""

    score: float
    parts: tuple[float | None, ...]
    normalised: tuple[float | None, ...]


class Fusion(BaseModel, ABC):
    """Makes one ranking of several."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    # Each method narrows this to what makes sense for it. Declared here because `drop` is the same for all.
    absent: str = Field("zero", description="What a document gets from a leg that did not return it.")

    @abstractmethod
    def score_documents(
        self, rankings: Sequence[LegRanking], ranks: Mapping[str, Ranks]
    ) -> Mapping[str, DocumentScore]:
        """The score of each document, with each leg's part in it."""

    @abstractmethod
    def ceiling(self, rankings: Sequence[LegRanking]) -> float | None:
        """The most that any document could score with these legs, or None where nothing bounds it.

        A leg that found nothing still counts: otherwise a hit would look better for want of a second opinion.
        """

    def floor(self, rankings: Sequence[LegRanking], depths: Sequence[int]) -> float | None:  # noqa: ARG002 - for others
        """The least relative score of any document that these legs return when asked so deep, where ranks tell it."""
        return None

    @property
    def uses_weights(self) -> bool:
        """Whether legs count by their weights; most published definitions know none."""
        return False

    def weight_of(self, ranking: LegRanking) -> float:
        return ranking.weight if self.uses_weights else 1.0

    def voting_legs(self, rankings: Sequence[LegRanking]) -> list[LegRanking]:
        """The legs that have a say. One of weight 0 brings in its documents and else changes nothing."""
        return [ranking for ranking in rankings if self.weight_of(ranking) > 0]

    def ranks_by_document(self, rankings: Sequence[LegRanking]) -> dict[str, Ranks]:
        """Every document's ranks; under `drop` only of those that all legs with a say returned."""
        places = [{candidate.id: rank for rank, candidate in enumerate(ranking.candidates, 1)} for ranking in rankings]
        ids = dict.fromkeys(candidate.id for ranking in rankings for candidate in ranking.candidates)
        all_ranks = {unit: tuple(place.get(unit) for place in places) for unit in ids}
        if self.absent != "drop":
            return all_ranks
        wanted = [place for place, ranking in zip(places, rankings, strict=True) if self.weight_of(ranking) > 0]
        return {unit: ranks for unit, ranks in all_ranks.items() if all(unit in place for place in wanted)}

    def tie_order(self, rankings: Sequence[LegRanking]) -> list[int]:
        """The legs' places in the order in which their ranks decide among equals: those without a say last."""
        return sorted(range(len(rankings)), key=lambda place: self.weight_of(rankings[place]) <= 0)

    def fuse(self, rankings: Sequence[LegRanking]) -> list[FusedHit]:
        """Score descending, then the rank in the first leg that has the document, then the id, bytewise."""
        for name, times in Counter(ranking.leg for ranking in rankings).items():
            if times > 1:
                raise SpecError(
                    f"{times} legs are called {name!r}, so nobody could tell whose score is whose. Rename one."
                )
        ranks = self.ranks_by_document(rankings)
        scores = self.score_documents(rankings, ranks)
        ceiling = self.ceiling(rankings)
        parts = (part for each in scores.values() for part in (each.score, *each.parts) if part is not None)
        if not all(map(math.isfinite, parts)) or not math.isfinite(ceiling or 0.0):
            raise SpecError(
                "The weighted scores of these legs add up to more than a floating-point number holds. "
                "Lower the weights, or normalise the scores."
            )
        legs = self.tie_order(rankings)

        def place(unit: str) -> tuple[float, int, bytes]:
            before = next(rank for leg in legs if (rank := ranks[unit][leg]) is not None)
            return -scores[unit].score, before, unit.encode("utf-8", "surrogatepass")

        return [_hit(unit, ranks[unit], scores[unit], rankings, ceiling) for unit in sorted(ranks, key=place)]


class WeightedFusion(Fusion):
    """A fusion in which legs have weights, unless `weighted` is off."""

    weighted: bool = Field(True, description="Count each leg by its weight; off, all legs count alike.")

    @property
    def uses_weights(self) -> bool:
        return self.weighted


def total(contributions: Iterable[float]) -> float:
    """((0 + c1) + c2) + c3, as SQL adds. Not `sum`, which from Python 3.12 on corrects for rounding and so differs."""
    added = 0.0
    for contribution in contributions:
        added += contribution
    return added


def _hit(
    unit: str, ranks: Ranks, score: DocumentScore, rankings: Sequence[LegRanking], ceiling: float | None
) -> FusedHit:
    legs: list[LegScore] = []
    imputed: list[tuple[str, float]] = []
    for ranking, rank, part, normalised in zip(rankings, ranks, score.parts, score.normalised, strict=True):
        if rank is not None:
            raw = ranking.candidates[rank - 1].score
            legs.append(LegScore(ranking.leg, rank, raw, 0.0 if part is None else part, normalised))
        elif part is not None:
            imputed.append((ranking.leg, part))
    relative = score.score
    if ceiling is not None:  # 0 where no leg has a say; and a mean of ones, added in thirds, may be off by a last digit
        relative = min(score.score / ceiling, 1.0) if ceiling else 0.0
    return FusedHit(unit, score.score, relative, tuple(legs), tuple(imputed))


fusions: Registry[type[Fusion]] = Registry("fusion")

FUSIONS = Tagged(fusions, "method")
fusion_from, spec_of = FUSIONS.read, FUSIONS.write


@dataclass(frozen=True, slots=True)
class LegContribution:
    """What a leg adds to each of its candidates, and to a document it did not return (None: it has no say there)."""

    contributions: Sequence[float]
    absent: float | None = None
    normalised: Sequence[float] | None = None

    def part(self, rank: int | None) -> float | None:
        return self.absent if rank is None else self.contributions[rank - 1]

    def normal(self, rank: int | None) -> float | None:
        return None if rank is None or self.normalised is None else self.normalised[rank - 1]


class Additive(Fusion):
    """A fusion that adds up, leg by leg."""

    @abstractmethod
    def contribution(self, ranking: LegRanking, voting: Sequence[LegRanking]) -> LegContribution:
        """What one of the legs that have a say adds."""

    def spread(self, parts: Sequence[float | None]) -> Sequence[float | None]:
        """One document's parts after a look at all of them, for methods in which the number of finds counts."""
        return parts

    def score_documents(
        self, rankings: Sequence[LegRanking], ranks: Mapping[str, Ranks]
    ) -> Mapping[str, DocumentScore]:
        voting = self.voting_legs(rankings)
        by_leg = {ranking.leg: self.contribution(ranking, voting) for ranking in voting}
        aligned = [by_leg.get(ranking.leg) for ranking in rankings]
        scores = {}
        for unit, unit_ranks in ranks.items():
            pairs = list(zip(aligned, unit_ranks, strict=True))
            parts = tuple(self.spread([leg.part(rank) if leg else None for leg, rank in pairs]))
            normalised = tuple(leg.normal(rank) if leg else None for leg, rank in pairs)
            added = total(part for part in parts if part is not None)
            scores[unit] = DocumentScore(added, parts, normalised)
        return scores
