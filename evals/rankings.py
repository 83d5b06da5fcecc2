"""What was found for each query: by one leg, or by a whole variant. Plain values between runner, sweep and scorer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from core.legs import Leg


@dataclass(frozen=True, slots=True)
class Ranked:
    """One query's ranking, best first: units (items or chunks) with their scores.

    `items` says which item each unit is part of and `spans` where in its text; both are empty where units are items.
    """

    ids: tuple[str, ...] = ()
    scores: tuple[float, ...] = ()
    items: tuple[str, ...] = ()
    spans: tuple[tuple[int, int], ...] = ()

    @property
    def item_ids(self) -> tuple[str, ...]:
        """The items in the order of their best units, each once."""
        return tuple(dict.fromkeys(self.items or self.ids))


Rankings = Mapping[str, Ranked]  # by query id


@dataclass(frozen=True, slots=True)
class LegRankings:
    """What one leg brought up for each query that it answered, under its name in the variant; and how long it took.

    `failures` says why it could not answer the others. The leg itself is kept for its bounds.
    """

    name: str
    leg: Leg
    depth: int
    rankings: Rankings
    milliseconds: Mapping[str, float] = field(default_factory=dict)
    failures: Mapping[str, str] = field(default_factory=dict)
