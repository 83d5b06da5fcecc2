"""What was found for each query: by one leg, or by a whole variant. Plain values between runner, sweep and scorer.

Held small: a suite has tens of millions of hits. A score is eight bytes of an array, and a unit that many rankings
share is written once, and four bytes in each.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from core.legs import Leg

T = TypeVar("T")
Span = tuple[int, int]
Codes = NDArray[np.int32]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Units:
    """Items or chunks, by number: their ids, which item each is part of, and where in its text.

    The latter two are empty where units are items.
    """

    ids: tuple[str, ...] = ()
    items: tuple[str, ...] = ()
    spans: tuple[Span, ...] = ()


@dataclass(frozen=True, slots=True, init=False, eq=False, repr=False)
class Ranked:
    """One query's ranking, best first: units (items or chunks) with their scores.

    `items` says which item each unit is part of and `spans` where in its text; both are empty where units are items.
    `units` may be those of many rankings: `codes` are then the numbers of this one's. `values` are the scores as they
    are held; the other names give plain values, made anew whenever they are asked for.
    """

    units: Units
    codes: Codes | None  # None: all units, in their order
    values: Floats

    def __init__(
        self,
        ids: Sequence[str] = (),
        scores: ArrayLike = (),
        items: Sequence[str] = (),
        spans: Sequence[Span] = (),
    ) -> None:
        self._hold(Units(tuple(ids), tuple(items), tuple(spans)), None, np.array(scores, dtype=np.float64))

    @classmethod
    def among(cls, units: Units, codes: Codes, values: Floats) -> Self:
        """A ranking of units that are shared with others."""
        made = cls.__new__(cls)
        made._hold(units, codes, values)
        return made

    def _hold(self, units: Units, codes: Codes | None, values: Floats) -> None:
        object.__setattr__(self, "units", units)
        object.__setattr__(self, "codes", codes)
        object.__setattr__(self, "values", values)

    @property
    def length(self) -> int:
        return len(self.units.ids) if self.codes is None else len(self.codes)

    @property
    def ids(self) -> tuple[str, ...]:
        return self._picked(self.units.ids)

    @property
    def scores(self) -> tuple[float, ...]:
        return tuple(self.values.tolist())

    @property
    def items(self) -> tuple[str, ...]:
        return self._picked(self.units.items)

    @property
    def spans(self) -> tuple[Span, ...]:
        return self._picked(self.units.spans)

    @property
    def item_ids(self) -> tuple[str, ...]:
        """The items in the order of their best units, each once."""
        return tuple(dict.fromkeys(self.items or self.ids))

    def at(self, places: Sequence[int] | slice) -> Ranked:
        """The hits at these places, in that order."""
        chosen = places if isinstance(places, slice) else np.asarray(places, dtype=np.int64)
        codes = np.arange(self.length, dtype=np.int32) if self.codes is None else self.codes
        return Ranked.among(self.units, codes[chosen], self.values[chosen])

    def then(self, more: Ranked) -> Ranked:
        """This ranking with another one below it."""
        if not more.length or not self.length:
            return self if self.length else more
        if self.units is more.units and self.codes is not None and more.codes is not None:
            codes, values = np.concatenate([self.codes, more.codes]), np.concatenate([self.values, more.values])
            return Ranked.among(self.units, codes, values)
        return Ranked(self.ids + more.ids, self.scores + more.scores, self.items + more.items, self.spans + more.spans)

    def _picked(self, column: tuple[T, ...]) -> tuple[T, ...]:
        if self.codes is None or not column:
            return column
        return tuple(map(column.__getitem__, self.codes.tolist()))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Ranked):
            return NotImplemented
        return self._plain == other._plain

    def __hash__(self) -> int:
        return hash(self._plain)

    def __repr__(self) -> str:
        return "Ranked(ids={!r}, scores={!r}, items={!r}, spans={!r})".format(*self._plain)

    @property
    def _plain(self) -> tuple[tuple[str, ...], tuple[float, ...], tuple[str, ...], tuple[Span, ...]]:
        return self.ids, self.scores, self.items, self.spans


Rankings = Mapping[str, Ranked]  # by query id


def cut_off(rankings: Rankings, top_k: int, *, keep: bool = True) -> tuple[dict[str, Ranked], dict[str, Ranked]]:
    """The first `top_k` of each ranking; and what is behind them, where that is to be kept."""
    first = {query: ranked.at(slice(top_k)) if ranked.length > top_k else ranked for query, ranked in rankings.items()}
    behind = {query: ranked.at(slice(top_k, None)) for query, ranked in rankings.items() if ranked.length > top_k}
    return first, behind if keep else {}


Unit = tuple[str, str | None, Span | None]  # its id, its item, its span


def numbered(rankings: Iterable[Ranked]) -> tuple[list[Unit], Codes]:
    """Every unit of these rankings once, in the order in which it is first met; and each hit's number among them."""
    numbers: dict[Unit, int] = {}
    parts = [np.zeros(0, dtype=np.int32)]
    for _, alike in groupby(rankings, key=lambda ranked: id(ranked.units)):
        group = list(alike)
        units = group[0].units
        codes = _codes(group)
        met = np.arange(len(codes)) if group[0].codes is None else _met(codes, len(units.ids))
        number_of = np.zeros(len(units.ids), dtype=np.int32)
        number_of[met] = [numbers.setdefault(unit, len(numbers)) for unit in _triples(units, met.tolist())]
        parts.append(number_of[codes])
    return list(numbers), np.concatenate(parts)


def _codes(group: Sequence[Ranked]) -> Codes:
    given = [np.arange(each.length, dtype=np.int32) if each.codes is None else each.codes for each in group]
    return np.concatenate(given)


def _met(codes: Codes, units: int) -> NDArray[np.int64]:
    """Which numbers there are, in the order in which they come first."""
    first = np.full(units, -1, dtype=np.int64)
    first[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)  # of several the last one written stays: the first
    there = np.flatnonzero(first >= 0)
    return there[np.argsort(first[there])]


def _triples(units: Units, chosen: Sequence[int]) -> Iterator[Unit]:
    for at in chosen:
        yield units.ids[at], units.items[at] if units.items else None, units.spans[at] if units.spans else None


def pooled(rankings: Rankings) -> dict[str, Ranked]:
    """The same rankings, over units that they share."""
    if len({id(ranked.units) for ranked in rankings.values() if ranked.length}) <= 1:
        return dict(rankings)
    units, codes = numbered(rankings.values())
    ends = np.cumsum([ranked.length for ranked in rankings.values()])[:-1]
    values = [ranked.values for ranked in rankings.values()]
    return dict(zip(rankings, shared(units, np.split(codes, ends), values), strict=True))


def shared(units: Sequence[Unit], codes: Iterable[Codes], values: Iterable[Floats]) -> Iterator[Ranked]:
    """Rankings of these units by their numbers."""
    table = _table(units)
    for some, scores in zip(codes, values, strict=True):
        if table is not None:
            yield Ranked.among(table, some, scores)
        else:
            found = [units[at] for at in some.tolist()]
            items = tuple(item for _, item, _ in found if item is not None)
            yield Ranked(
                [unit for unit, _, _ in found], scores, items, [span for *_, span in found if span is not None]
            )


def _table(units: Sequence[Unit]) -> Units | None:
    """As columns; None where some are items and some are chunks, so that a column would have holes."""
    ids, items, spans = zip(*units, strict=True) if units else ((), (), ())
    columns = [() if set(column) <= {None} else column for column in (items, spans)]
    return None if any(None in column for column in columns) else Units(ids, *columns)


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
