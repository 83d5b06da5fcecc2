"""CombSUM."""

from __future__ import annotations

from core.fusion.base import fusions
from core.fusion.linear import LinearFusion


@fusions.register("combsum")
class CombSumFusion(LinearFusion):
    """Sum of normalised scores; all legs count alike, `linear` is the one with weights.

    Fox and Shaw, "Combination of multiple searches", TREC-2, 1994; normalised by minmax after Lee, SIGIR 1997.
    """

    @property
    def uses_weights(self) -> bool:
        return False
