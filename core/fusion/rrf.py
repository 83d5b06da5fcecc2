"""Reciprocal rank fusion."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from core.fusion.base import LegRanking, fusions
from core.fusion.rankwise import Rankwise


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
