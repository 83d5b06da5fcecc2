"""Weighted sum of normalised scores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from core.fusion.additive import Additive, Column
from core.fusion.base import LegRanking, fusions, total
from core.fusion.normalise import BOUNDED, NORMALISE_HELP, Normalisation, normalised


@fusions.register("linear")
class LinearFusion(Additive):
    """Sum of weight x normalised score; always weighted. Weights that sum to 1 make it a convex combination.

    Fox and Shaw, TREC-2, 1994, as CombSUM with weights; Bruch, Gai and Ingber, ACM TOIS 2023, for what the
    normalisation does to it.
    """

    normalize: Normalisation = Field("minmax", description=NORMALISE_HELP)
    absent: Literal["zero", "least", "drop"] = Field(
        "zero",
        description="A document that a leg did not return gets 0, or the least normalised score of what it returned "
        "(wiser with zscore and negative scores, where 0 is not the bottom), or is dropped.",
    )

    @property
    def uses_weights(self) -> bool:
        return True

    def columns(self, heard: Sequence[LegRanking]) -> list[Column]:
        return [self._column(ranking) for ranking in heard]

    def _column(self, ranking: LegRanking) -> Column:
        values = normalised(ranking, self.normalize)
        weight = self.weight_of(ranking)
        least = weight * min(values, default=0.0) if self.absent == "least" else None
        return Column([weight * value for value in values], least, values)

    def ceiling(self, rankings: Sequence[LegRanking]) -> float | None:
        """The weights' sum, where the normalisation ends at 1."""
        if self.normalize not in BOUNDED:
            return None
        return total(self.weight_of(ranking) for ranking in self.heard(rankings))
