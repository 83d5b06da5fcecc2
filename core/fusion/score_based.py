"""Fusions of scores: the linear combination, and CombSUM, CombMNZ, CombANZ and CombMED."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from core.fusion.base import Additive, LegContribution, LegRanking, WeightedFusion, fusions, total
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

    def contribution(self, ranking: LegRanking, voting: Sequence[LegRanking]) -> LegContribution:  # noqa: ARG002
        values = normalised(ranking, self.normalize)
        weight = self.weight_of(ranking)
        least = weight * min(values, default=0.0) if self.absent == "least" else None
        return LegContribution([weight * value for value in values], least, values)

    def ceiling(self, rankings: Sequence[LegRanking]) -> float | None:
        """The weights' sum, where the normalisation ends at 1."""
        if self.normalize not in BOUNDED:
            return None
        return total(self.weight_of(ranking) for ranking in self.voting_legs(rankings))


@fusions.register("combsum")
class CombSumFusion(LinearFusion):
    """Sum of normalised scores; all legs count alike, `linear` is the one with weights.

    Fox and Shaw, "Combination of multiple searches", TREC-2, 1994; normalised by minmax after Lee, SIGIR 1997.
    """

    @property
    def uses_weights(self) -> bool:
        return False


@fusions.register("combmnz")
class CombMnzFusion(WeightedFusion, Additive):
    """N x sum of weight x normalised score, N being the number of legs that returned the document.

    Fox and Shaw, "Combination of multiple searches", TREC-2, 1994; normalised by minmax after Lee, SIGIR 1997. They
    know no weights (all 1 here); a leg of weight 0 does not count into N.
    """

    normalize: Normalisation = Field("minmax", description=NORMALISE_HELP)
    absent: Literal["zero", "drop"] = Field(
        "zero", description="A document that a leg did not return gets nothing from it, or is dropped."
    )

    def contribution(self, ranking: LegRanking, voting: Sequence[LegRanking]) -> LegContribution:  # noqa: ARG002
        values = normalised(ranking, self.normalize)
        return LegContribution([self.weight_of(ranking) * value for value in values], None, values)

    def spread(self, parts: Sequence[float | None]) -> Sequence[float | None]:
        times = sum(part is not None for part in parts)
        return [None if part is None else times * part for part in parts]

    def ceiling(self, rankings: Sequence[LegRanking]) -> float | None:
        """The weights' sum times the legs, where the normalisation ends at 1."""
        if self.normalize not in BOUNDED:
            return None
        voting = self.voting_legs(rankings)
        return total(len(voting) * self.weight_of(ranking) for ranking in voting)


class Averaged(Additive):
    """Fusions that take a middle of the normalised scores. What is in the middle is never above 1 if no score is."""

    normalize: Normalisation = Field("minmax", description=NORMALISE_HELP)
    absent: Literal["skip", "zero", "drop"] = Field(
        "skip",
        description="A leg that did not return a document is left out of its average, or gives it 0, or the document "
        "is dropped.",
    )

    def contribution(self, ranking: LegRanking, voting: Sequence[LegRanking]) -> LegContribution:  # noqa: ARG002
        values = normalised(ranking, self.normalize)
        return LegContribution(values, 0.0 if self.absent == "zero" else None, values)

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


@fusions.register("combmed")
class CombMedFusion(Averaged):
    """The median of the normalised scores that the legs gave to a document; not weighted.

    Fox and Shaw, "Combination of multiple searches", TREC-2, 1994. The leg in the middle contributes all of it, or the
    two in the middle half of theirs each.
    """

    def spread(self, parts: Sequence[float | None]) -> Sequence[float | None]:
        given = sorted((part, leg) for leg, part in enumerate(parts) if part is not None)
        middle = {leg for _, leg in given[(len(given) - 1) // 2 : len(given) // 2 + 1]}
        return [
            None if part is None else part / len(middle) if leg in middle else 0.0 for leg, part in enumerate(parts)
        ]
