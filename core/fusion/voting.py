"""Fusions by voting: Borda counts and Condorcet's pairwise majorities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
from pydantic import Field

from core.fusion.base import Additive, DocumentScore, LegContribution, LegRanking, Ranks, WeightedFusion, fusions, total


@fusions.register("borda")
class BordaFusion(WeightedFusion, Additive):
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

    def contribution(self, ranking: LegRanking, voting: Sequence[LegRanking]) -> LegContribution:
        weight, nominated, returned = self.weight_of(ranking), _nominated(voting), len(ranking.candidates)
        points = [weight * (nominated - place) for place in range(returned)]
        # The points left are 1 to c - n: (c - n + 1) / 2 each. None are left where the leg returned everything.
        left = weight * (nominated - returned + 1) / 2 if nominated > returned else 0.0
        return LegContribution(points, left if self.absent == "remaining" else None)

    def ceiling(self, rankings: Sequence[LegRanking]) -> float:
        """Of a document that is first in every leg."""
        voting = self.voting_legs(rankings)
        return total(self.weight_of(ranking) * _nominated(voting) for ranking in voting)


def _nominated(voting: Sequence[LegRanking]) -> int:
    return len({candidate.id for ranking in voting for candidate in ranking.candidates})


ROUNDING = 1e-12  # of the greatest weight, a leg: 0.1 + 0.2 against 0.3 is a draw


@fusions.register("condorcet")
class CondorcetFusion(WeightedFusion):
    """A document beats another if legs of more weight rank it higher; it scores 1 for each it beats, 1/2 for a draw.

    Montague and Aslam, "Condorcet fusion for improved retrieval", CIKM 2002, weights included. They sort by majority,
    which in a cycle (a beats b beats c beats a) depends on where the sort begins; counting wins, after Copeland,
    "A reasonable social welfare function", 1951, gives their order wherever majorities agree on one, and within a
    cycle an order that depends on nothing else. A document draws with itself, so that one alone attains the ceiling.
    A leg's contribution is its weight times the documents it ranks lower, in words its votes; they do not add up.
    """

    absent: Literal["bottom_rank", "zero", "drop"] = Field(
        "bottom_rank",
        description="A document that a leg did not return is below all that it returned, or the leg does not vote on "
        "it, or it is dropped.",
    )

    def score_documents(
        self, rankings: Sequence[LegRanking], ranks: Mapping[str, Ranks]
    ) -> Mapping[str, DocumentScore]:
        # Legs by documents. NaN compares as neither lower nor higher, which is what no vote is.
        bottom = float("nan") if self.absent == "zero" else float("inf")
        rows = [[bottom if rank is None else rank for rank in own] for own in ranks.values()]
        places = np.array(rows, dtype=float).reshape(len(ranks), len(rankings)).T
        weights = [self.weight_of(ranking) for ranking in rankings]
        greatest = (
            max(weights, default=0.0) or 1.0
        )  # shares of the greatest weight: a sum of weights themselves could overflow
        scores = {}
        for document, (unit, own_ranks) in enumerate(ranks.items()):
            own = places[:, document : document + 1]
            higher, lower = own < places, own > places
            margin = np.zeros(places.shape[1])
            for leg, weight in enumerate(weights):
                margin += weight / greatest * (higher[leg].astype(float) - lower[leg])
            draw = np.abs(margin) <= ROUNDING * len(weights)
            wins = float(((margin > 0) & ~draw).sum() + draw.sum() / 2)
            votes = [weight * int(count) for weight, count in zip(weights, higher.sum(axis=1), strict=True)]
            parts = tuple(None if rank is None else vote for rank, vote in zip(own_ranks, votes, strict=True))
            scores[unit] = DocumentScore(wins, parts, (None,) * len(parts))
        return scores

    def ceiling(self, rankings: Sequence[LegRanking]) -> float:
        """Of a document that beats all others; 0 without any."""
        return max(0.0, len(self.ranks_by_document(rankings)) - 0.5)
