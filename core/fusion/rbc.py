"""Rank-biased centroids."""

from __future__ import annotations

from pydantic import Field

from core.fusion.base import LegRanking, fusions
from core.fusion.rankwise import Rankwise


@fusions.register("rbc")
class RbcFusion(Rankwise):
    """Sum of weight x (1 - persistence) x persistence^(rank - 1): what a reader of that patience would see of it.

    Bailey, Moffat, Scholer and Thomas, "Retrieval consistency in the presence of query variations", SIGIR 2017, who
    call the persistence phi and know no weights (all 1 here).
    """

    persistence: float = Field(0.9, gt=0, lt=1, description="The chance that the reader goes on to the next rank.")

    def share(self, ranking: LegRanking, place: int) -> float:
        return self.weight_of(ranking) * ((1 - self.persistence) * self.persistence**place)
