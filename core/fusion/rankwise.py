"""Fusions that look at ranks alone, one leg at a time: each says what a place in a leg is worth."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from core.fusion.additive import Additive, Column
from core.fusion.base import LegRanking, Weighted, total


class Rankwise(Weighted, Additive):
    """Adds up what a document's places are worth."""

    absent: Literal["zero", "bottom_rank", "drop"] = Field(
        "zero",
        description="A document that a leg did not return gets nothing from it, or what the rank after its last would "
        "get, or is dropped.",
    )

    @abstractmethod
    def share(self, ranking: LegRanking, place: int) -> float:
        """What the leg adds to the document at a place, counted from 0."""

    def columns(self, heard: Sequence[LegRanking]) -> list[Column]:
        return [self._column(ranking) for ranking in heard]

    def _column(self, ranking: LegRanking) -> Column:
        after = len(ranking.candidates)
        bottom = self.share(ranking, after) if self.absent == "bottom_rank" else None
        return Column([self.share(ranking, place) for place in range(after)], bottom)

    def floor(self, rankings: Sequence[LegRanking], depths: Sequence[int]) -> float | None:
        """Of a document that is last in one leg and in no other."""
        if self.absent != "zero" or len(self.heard(rankings)) < len(rankings):
            return None
        last = min(self.share(ranking, depth - 1) for ranking, depth in zip(rankings, depths, strict=True))
        return last / self.ceiling(rankings)

    def ceiling(self, rankings: Sequence[LegRanking]) -> float:
        """Of a document that is first in every leg."""
        return total(self.share(ranking, 0) for ranking in self.heard(rankings))
