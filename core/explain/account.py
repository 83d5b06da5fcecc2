"""What is known of one document under one query and variant: as plain values, in plain words, and by exact names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from core.explain import words
from core.variant import Variant


@dataclass(frozen=True, slots=True)
class Told:
    """A sentence in plain words; `exact` says the same by the names of options, legs and stages, where that differs."""

    text: str
    exact: str = ""


@dataclass(frozen=True, slots=True)
class Standing:
    """What one leg makes of the document, however deep; of several chunks, of the one it likes best.

    `rank` is None where the leg does not find it, or only beyond what was looked through. `fetched` is its rank in the
    run itself, None where that did not bring it up within `depth`; `reason` then says why, and `missed` in a word:
    depth, far, threshold or shortcut.
    """

    leg: str
    depth: int
    unit: str | None = None
    score: float | None = None
    rank: int | None = None
    fetched: int | None = None
    reason: str = ""
    missed: str = ""

    @property
    def matches(self) -> bool:
        return self.score is not None

    def said_of(self, document: str) -> str:
        """In words; a chunk by which the document stands is named."""
        if self.score is None:
            return f"{self.leg}: {self.reason}."
        place = f"{ordinal(self.rank)}, " if self.rank else ""
        chunk = f" by {self.unit}" if self.unit != document else ""
        tail = f" {self.reason}." if self.reason else ""
        return f"{self.leg}: {place}scoring {self.score:.4g}{chunk}.{tail}"


@dataclass(frozen=True, slots=True)
class Place:
    """Where the document stood when a stage handed its ranking on."""

    stage: str
    rank: int
    score: float

    def __str__(self) -> str:
        return f"{self.stage}: {ordinal(self.rank)}, with {self.score:.4g}."


@dataclass(frozen=True, slots=True)
class Loss:
    """The stage after which the document was gone, and that stage's own reason."""

    stage: str
    reason: str


@dataclass(frozen=True, slots=True)
class Change:
    """One option of the variant set otherwise."""

    option: str
    was: Any
    value: Any

    def __str__(self) -> str:
        was = "" if self.was is None else f" (it is {_shown(self.was)})"
        return f"{self.option} = {_shown(self.value)}{was}"


@dataclass(frozen=True, slots=True)
class Remedy:
    """Changes with which the document came in, and where. `variant` is the variant so changed, as it was run."""

    changes: tuple[Change, ...]
    rank: int
    score: float
    variant: Variant

    def __str__(self) -> str:
        return f"With {' and '.join(map(str, self.changes))} it comes in, {ordinal(self.rank)}."


@dataclass(frozen=True, slots=True)
class Account:
    """The whole answer. `filtered` are the conditions of the filter that the document does not meet."""

    document: str
    query: str
    variant: Variant
    kind: str
    results: int
    rank: int | None = None
    score: float | None = None
    shown_as: str | None = None
    standings: tuple[Standing, ...] = ()
    filtered: tuple[str, ...] = ()
    places: tuple[Place, ...] = ()
    loss: Loss | None = None
    remedies: tuple[Remedy, ...] = ()
    notes: tuple[str, ...] = ()
    title: str = ""

    @property
    def there(self) -> bool:
        return self.rank is not None

    def told(self) -> tuple[Told, ...]:
        """The account in plain words with the exact ones beside them, what matters most first."""
        return tuple(self._told())

    def sentences(self) -> tuple[str, ...]:
        """The account in plain words."""
        return tuple(each.text for each in self.told())

    def to_data(self) -> dict[str, Any]:
        """As JSON can hold it; variants by their ids."""
        left_out = {"variant", "remedies"}
        data = {name: value for name in self.__slots__ if name not in left_out and (value := getattr(self, name)) != ()}
        plain = {
            name: [_plain(each) for each in value] if isinstance(value, tuple) else _plain(value)
            for name, value in data.items()
        }
        remedies = [
            {"changes": [asdict(each) for each in remedy.changes], "rank": remedy.rank, "variant": remedy.variant.id}
            for remedy in self.remedies
        ]
        names = {"variant": self.variant.name, "id": self.variant.id, "there": self.there}
        return {
            **names,
            **plain,
            "remedies": remedies,
            "sentences": list(self.sentences()),
            "exact": [each.exact for each in self.told()],
        }

    def _told(self) -> Iterator[Told]:
        yield Told(words.verdict(self), self._verdict())
        for condition in self.filtered:
            yield Told(f"The filter leaves it out: {condition}.")
        if self.filtered and self.standings:
            yield Told("Without the filter, it would stand so:")
        ways = words.ways(self.variant)
        for each in self.standings:
            yield Told(words.standing(each, ways.get(each.leg, f"by {each.leg}")), each.said_of(self.document))
        if way := words.way_through(self):
            yield Told(way, " ".join(map(str, self.places)))
        if self.loss:
            yield Told(words.lost(self), f"It was lost at the stage {self.loss.stage!r}: {self.loss.reason}.")
            yield from (Told(words.remedy(each, ways), str(each)) for each in self.remedies)
            if not self.remedies:
                yield Told("No change that was tried brings it in.")
        yield from map(Told, self.notes)

    def _verdict(self) -> str:
        if self.rank is None:
            return f"{self.document} is not among the {self.results} results."
        shown = f", as {self.shown_as}" if self.shown_as not in (None, self.document) else ""
        return f"{self.document} is there: {ordinal(self.rank)} of {self.results}, with {self.score or 0.0:.4g}{shown}."


def ordinal(number: int) -> str:
    """1st, 2nd, 3rd, 4th ... 11th, 12th, 13th ... 21st."""
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number:,}{ending}"


def _shown(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


def _plain(value: Any) -> Any:
    return asdict(value) if isinstance(value, Standing | Place | Loss) else value
