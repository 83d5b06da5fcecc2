"""Fusions whose score is a sum over the legs. Owns the adding, in the legs' order; each method says what a leg adds."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from core.fusion.base import Fusion, LegRanking, Mark, Ranks, total


@dataclass(frozen=True, slots=True)
class Column:
    """What a leg adds to each of its candidates, and to a document it did not return (None: it has no say there)."""

    contributions: Sequence[float]
    absent: float | None = None
    normalised: Sequence[float] | None = None

    def part(self, rank: int | None) -> float | None:
        return self.absent if rank is None else self.contributions[rank - 1]

    def normal(self, rank: int | None) -> float | None:
        return None if rank is None or self.normalised is None else self.normalised[rank - 1]


class Additive(Fusion):
    """A fusion that adds up, leg by leg."""

    @abstractmethod
    def columns(self, heard: Sequence[LegRanking]) -> list[Column]:
        """What each leg that has a say adds."""

    def spread(self, parts: Sequence[float | None]) -> Sequence[float | None]:
        """One document's parts after a look at all of them, for methods in which the number of finds counts."""
        return parts

    def marks(self, rankings: Sequence[LegRanking], found: Mapping[str, Ranks]) -> Mapping[str, Mark]:
        heard = self.heard(rankings)
        columns = {leg.leg: column for leg, column in zip(heard, self.columns(heard), strict=True)}
        aligned = [columns.get(ranking.leg) for ranking in rankings]
        return {unit: self._mark(aligned, ranks) for unit, ranks in found.items()}

    def _mark(self, columns: Sequence[Column | None], ranks: Ranks) -> Mark:
        pairs = list(zip(columns, ranks, strict=True))
        parts = tuple(self.spread([column.part(rank) if column else None for column, rank in pairs]))
        normalised = tuple(column.normal(rank) if column else None for column, rank in pairs)
        return Mark(total(part for part in parts if part is not None), parts, normalised)
