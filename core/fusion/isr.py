"""Inverse square rank."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from core.fusion.additive import Additive, Column
from core.fusion.base import LegRanking, Weighted, fusions, total


@fusions.register("isr")
class IsrFusion(Weighted, Additive):
    """N x sum of weight / rank^2, N being the number of legs that returned the document; ranks from 1.

    Mourão, Martins and Magalhães, "Multimodal medical information retrieval with unsupervised rank fusion",
    Computerized Medical Imaging and Graphics 39, 2015, who know no weights (all 1 here) and give the logarithm of N as
    a variant, in which what a single leg found scores 0.
    """

    frequency: Literal["count", "log"] = Field("count", description="Multiply by N, or by its natural logarithm.")
    absent: Literal["zero", "drop"] = Field(
        "zero", description="A document that a leg did not return gets nothing from it, or is dropped."
    )

    def columns(self, heard: Sequence[LegRanking]) -> list[Column]:
        return [
            Column([self.weight_of(ranking) / rank**2 for rank in range(1, len(ranking.candidates) + 1)])
            for ranking in heard
        ]

    def spread(self, parts: Sequence[float | None]) -> Sequence[float | None]:
        times = self._times(sum(part is not None for part in parts))
        return [None if part is None else times * part for part in parts]

    def _times(self, legs: int) -> float:
        return legs if self.frequency == "count" else math.log(max(legs, 1))

    def ceiling(self, rankings: Sequence[LegRanking]) -> float:
        """Of a document that is first in every leg."""
        heard = self.heard(rankings)
        return total(self._times(len(heard)) * self.weight_of(ranking) for ranking in heard)
