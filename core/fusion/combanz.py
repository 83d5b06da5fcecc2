"""CombANZ."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from core.fusion.additive import Additive, Column
from core.fusion.base import LegRanking, fusions
from core.fusion.normalise import BOUNDED, NORMALISE_HELP, Normalisation, normalised


class Averaged(Additive):
    """Fusions that take a middle of the normalised scores. What is in the middle is never above 1 if no score is."""

    normalize: Normalisation = Field("minmax", description=NORMALISE_HELP)
    absent: Literal["skip", "zero", "drop"] = Field(
        "skip",
        description="A leg that did not return a document is left out of its average, or gives it 0, or the document "
        "is dropped.",
    )

    def columns(self, heard: Sequence[LegRanking]) -> list[Column]:
        absent = 0.0 if self.absent == "zero" else None
        return [Column(values := normalised(ranking, self.normalize), absent, values) for ranking in heard]

    def ceiling(self, rankings: Sequence[LegRanking]) -> float | None:
        """1, where the normalisation ends there."""
        return 1.0 if rankings and self.normalize in BOUNDED else None


@fusions.register("combanz")
class CombAnzFusion(Averaged):
    """The mean of the normalised scores that the legs gave to a document; not weighted.

    Fox and Shaw, "Combination of multiple searches", TREC-2, 1994. One leg's favourite is as good as everybody's.
    """

    def spread(self, parts: Sequence[float | None]) -> Sequence[float | None]:
        count = sum(part is not None for part in parts)
        return [None if part is None else part / count for part in parts]
