"""Fusions of ranks: reciprocal rank fusion, rank-biased centroids, inverse square rank."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import Literal

from pydantic import Field, model_validator

from core.fusion.base import Additive, LegContribution, LegRanking, WeightedFusion, fusions, total


class Rankwise(WeightedFusion, Additive):
    """Adds up what a document's places are worth."""

    absent: Literal["zero", "bottom_rank", "drop"] = Field(
        "zero",
        description="A document that a leg did not return gets nothing from it, or what the rank after its last would "
        "get, or is dropped.",
    )

    @abstractmethod
    def share(self, ranking: LegRanking, place: int) -> float:
        """What the leg adds to the document at a place, counted from 0."""

    def contribution(self, ranking: LegRanking, voting: Sequence[LegRanking]) -> LegContribution:  # noqa: ARG002
        after = len(ranking.candidates)
        bottom = self.share(ranking, after) if self.absent == "bottom_rank" else None
        return LegContribution([self.share(ranking, place) for place in range(after)], bottom)

    def floor(self, rankings: Sequence[LegRanking], depths: Sequence[int]) -> float | None:
        """Of a document that is last in one leg and in no other."""
        if self.absent != "zero" or len(self.voting_legs(rankings)) < len(rankings):
            return None
        last = min(self.share(ranking, depth - 1) for ranking, depth in zip(rankings, depths, strict=True))
        return last / self.ceiling(rankings)

    def ceiling(self, rankings: Sequence[LegRanking]) -> float:
        """Of a document that is first in every leg."""
        return total(self.share(ranking, 0) for ranking in self.voting_legs(rankings))


@fusions.register("rrf")
class RrfFusion(Rankwise):
    """Sum of weight / (k + rank): looks at ranks alone. With all weights 1 it is the published method.

    Cormack, Clarke and Büttcher, "Reciprocal rank fusion outperforms Condorcet and individual rank learning methods",
    SIGIR 2009: ranks from 1, k 60, nothing for a document that a leg did not return.
    """

    k: float = Field(60.0, ge=0, description="The larger, the less the first ranks stand out.")
    origin: Literal[0, 1] = Field(1, description="The rank of a leg's first document: 1 as published, or 0.")

    @model_validator(mode="after")
    def _divides(self) -> RrfFusion:
        if self.k + self.origin <= 0:
            raise ValueError("k and origin are both 0, which divides by zero at the first rank; raise one of them")
        return self

    def share(self, ranking: LegRanking, place: int) -> float:
        return self.weight_of(ranking) / (self.k + (place + self.origin))


@fusions.register("rbc")
class RbcFusion(Rankwise):
    """Sum of weight x (1 - persistence) x persistence^(rank - 1): what a reader of that patience would see of it.

    Bailey, Moffat, Scholer and Thomas, "Retrieval consistency in the presence of query variations", SIGIR 2017, who
    call the persistence phi and know no weights (all 1 here).
    """

    persistence: float = Field(0.9, gt=0, lt=1, description="The chance that the reader goes on to the next rank.")

    def share(self, ranking: LegRanking, place: int) -> float:
        return self.weight_of(ranking) * ((1 - self.persistence) * self.persistence**place)


@fusions.register("isr")
class IsrFusion(WeightedFusion, Additive):
    """N x sum of weight / rank^2, N being the number of legs that returned the document; ranks from 1.

    Mourão, Martins and Magalhães, "Multimodal medical information retrieval with unsupervised rank fusion",
    Computerized Medical Imaging and Graphics 39, 2015, who know no weights (all 1 here) and give the logarithm of N as
    a variant, in which what a single leg found scores 0.
    """

    frequency: Literal["count", "log"] = Field("count", description="Multiply by N, or by its natural logarithm.")
    absent: Literal["zero", "drop"] = Field(
        "zero", description="A document that a leg did not return gets nothing from it, or is dropped."
    )

    def contribution(self, ranking: LegRanking, voting: Sequence[LegRanking]) -> LegContribution:  # noqa: ARG002
        weight = self.weight_of(ranking)
        return LegContribution([weight / rank**2 for rank in range(1, len(ranking.candidates) + 1)])

    def spread(self, parts: Sequence[float | None]) -> Sequence[float | None]:
        times = self._times(sum(part is not None for part in parts))
        return [None if part is None else times * part for part in parts]

    def _times(self, legs: int) -> float:
        return legs if self.frequency == "count" else math.log(max(legs, 1))

    def ceiling(self, rankings: Sequence[LegRanking]) -> float:
        """Of a document that is first in every leg."""
        voting = self.voting_legs(rankings)
        return total(self._times(len(voting)) * self.weight_of(ranking) for ranking in voting)
