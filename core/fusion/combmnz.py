"""CombMNZ."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from core.fusion.additive import Additive, Column
from core.fusion.base import LegRanking, Weighted, fusions, total
from core.fusion.normalise import BOUNDED, NORMALISE_HELP, Normalisation, normalised


@fusions.register("combmnz")
class CombMnzFusion(Weighted, Additive):
    """N x sum of weight x normalised score, N being the number of legs that returned the document.

    Fox and Shaw, "Combination of multiple searches", TREC-2, 1994; normalised by minmax after Lee, SIGIR 1997. They
    know no weights (all 1 here); a leg of weight 0 does not count into N.
    """

    normalize: Normalisation = Field("minmax", description=NORMALISE_HELP)
    absent: Literal["zero", "drop"] = Field(
        "zero", description="A document that a leg did not return gets nothing from it, or is dropped."
    )

    def columns(self, heard: Sequence[LegRanking]) -> list[Column]:
        return [self._column(ranking) for ranking in heard]

    def _column(self, ranking: LegRanking) -> Column:
        values = normalised(ranking, self.normalize)
        return Column([self.weight_of(ranking) * value for value in values], None, values)

    def spread(self, parts: Sequence[float | None]) -> Sequence[float | None]:
        times = sum(part is not None for part in parts)
        return [None if part is None else times * part for part in parts]

    def ceiling(self, rankings: Sequence[LegRanking]) -> float | None:
        """The weights' sum times the legs, where the normalisation ends at 1."""
        if self.normalize not in BOUNDED:
            return None
        heard = self.heard(rankings)
        return total(len(heard) * self.weight_of(ranking) for ranking in heard)
