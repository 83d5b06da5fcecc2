"""Borda fuse."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from core.fusion.additive import Additive, Column
from core.fusion.base import LegRanking, Weighted, fusions, total


@fusions.register("borda")
class BordaFusion(Weighted, Additive):
    """An election by points: of c documents a leg's first gets c, its second c - 1, and so on, times its weight.

    Aslam and Montague, "Models for metasearch", SIGIR 2001, where documents that a leg did not return share its
    remaining points alike; their Weighted Borda-fuse has the weights. A leg of weight 0 nominates nobody: what it alone
    returned does not count into c.
    """

    absent: Literal["remaining", "zero", "drop"] = Field(
        "remaining",
        description="A document that a leg did not return gets an equal share of the points it has left, or nothing, "
        "or is dropped.",
    )

    def columns(self, heard: Sequence[LegRanking]) -> list[Column]:
        nominated = _nominated(heard)
        return [self._column(ranking, nominated) for ranking in heard]

    def _column(self, ranking: LegRanking, nominated: int) -> Column:
        weight, returned = self.weight_of(ranking), len(ranking.candidates)
        # The points left are 1 to c - n: (c - n + 1) / 2 each. None are left where the leg returned everything.
        left = weight * (nominated - returned + 1) / 2 if nominated > returned else 0.0
        return Column(
            [weight * (nominated - place) for place in range(returned)], left if self.absent == "remaining" else None
        )

    def ceiling(self, rankings: Sequence[LegRanking]) -> float:
        """Of a document that is first in every leg."""
        heard = self.heard(rankings)
        return total(self.weight_of(ranking) * _nominated(heard) for ranking in heard)


def _nominated(heard: Sequence[LegRanking]) -> int:
    return len({candidate.id for ranking in heard for candidate in ranking.candidates})
