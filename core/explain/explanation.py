"""An explanation as data, and its sentences: exact ones for people who tune, plain ones for visitors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from core.legs import LegDescription, describe, legs
from core.variant import Variant

AFTER: Final[Mapping[str, str]] = {
    "fuse": "all ways of searching put together",
    "roll up": "with one passage a document",
    "per-item cap": "with so many passages a document",
    "parents": "with longer passages in place of short ones",
    "rerank": "after a second, closer look",
    "cut": "in the end",
    "late chunks": "among the passages of the best documents",
}
STEPS: Final[Mapping[str, str]] = {
    "expand": "query widened",
    "route": "weights chosen",
    "fuse": "put together",
    "roll up": "one passage a document",
    "per-item cap": "few passages a document",
    "late chunks": "passages chosen",
    "parents": "longer passages",
    "rerank": "second look",
    "cut": "shown",
    "pack": "packed",
}
OPTIONS: Final[Mapping[str, str]] = {
    "filter": "a wider filter",
    "top_k": "{} results shown",
    "fused_depth": "the first {} going on",
    "per_item_cap": "{} passages a document",
    "min_score": "a lower least score",
    "fusion.absent": "results going on that only some ways of searching found",
    "rollup": "all passages of a document",
    "rerank": "no second look",
    "rerank.depth": "a second look at the first {}",
    "rerank.top_k": "the first {} kept by the second look",
    "rerank.min_score": "a lower least score in the second look",
    "late.per_item_cap": "{} passages a document",
    "late.top_k_chunks": "{} passages",
}
REASONS: Final[Mapping[str, str]] = {  # by the code of a reason; {} is its limit
    "not recalled": "no way of searching brought it up",
    "no unit": "nothing of it can be searched",
    "fused_depth": "only the first {} go on",
    "not in every leg": "only what every way of searching found goes on",
    "rolled up": "another passage of its document stands for it",
    "per_item_cap": "as many passages of its document as may be shown stand before it",
    "merged": "the longer passage around it is shown already",
    "parent": "longer passages are not searched themselves, and shorter ones are shown",
    "rerank top_k": "only the first {} are kept",
    "rerank min_score": "its score is below {}, the least that is asked for",
    "rerank endpoint": "it is not among the best {}",
    "min_score": "its score is below {}, the least that is asked for",
    "top_k": "only the first {} are shown",
    "late per_item_cap": "as many passages of its document as may be shown are shown",
    "late top_k_chunks": "other passages are closer to the query",
    "no late chunk": "its document has no such passage now",
}


@dataclass(frozen=True, slots=True)
class ExplanationLine:
    """A sentence in plain words; `exact` says the same by the names of options, legs and stages, where that differs."""

    text: str
    exact: str = ""


@dataclass(frozen=True, slots=True)
class LegDiagnosis:
    """What one leg makes of the document, however deep; of several chunks, of the one that scores best.

    `rank` is None where the leg does not find it, or only beyond the depth that was searched. `fetched` is its rank in
    the search itself, None where it did not come up within `depth`; `reason` then says why, and `missed` in a word:
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

    def exactly(self, document: str) -> str:
        """As a sentence by the leg's name; the chunk that scores is named, where it is not the document itself."""
        if self.score is None:
            return f"{self.leg}: {self.reason}."
        place = f"{ordinal(self.rank)}, " if self.rank else ""
        chunk = f" by {self.unit}" if self.unit != document else ""
        tail = f" {self.reason}." if self.reason else ""
        return f"{self.leg}: {place}scoring {self.score:.4g}{chunk}.{tail}"

    def plainly(self, about: LegDescription) -> str:
        """As a sentence by what the leg does."""
        way = about.phrase
        if not self.matches:
            reason = about.unmatched_plainly if self.reason == about.unmatched else self.reason
            return f"Not found {way}: {reason}."
        if self.fetched:
            return f"Found {way}, at rank {self.fetched:,}."
        at = f"{way[:1].upper()}{way[1:]} it is at rank {self.rank:,}" if self.rank else f"It is found {way}"
        return {
            "depth": f"{at}, and only the first {self.depth:,} are looked at.",
            "far": f"{at}, but far down, and only the first {self.depth:,} are looked at.",
            "threshold": f"{at}, but too unlike the query to count.",
            "shortcut": f"{at}, but a quick way of searching passed it over.",
        }.get(self.missed, f"{at}.")


@dataclass(frozen=True, slots=True)
class StagePosition:
    """Where the document stood when a stage handed its ranking on."""

    stage: str
    rank: int
    score: float

    def __str__(self) -> str:
        return f"{self.stage}: {ordinal(self.rank)}, with {self.score:.4g}."


@dataclass(frozen=True, slots=True)
class Loss:
    """The stage after which the document was gone, and that stage's own reason, with its code and limit."""

    stage: str
    reason: str
    code: str = ""
    limit: str = ""


@dataclass(frozen=True, slots=True)
class OptionChange:
    """One option of the variant with another value."""

    option: str
    was: Any
    value: Any

    def __str__(self) -> str:
        was = "" if self.was is None else f" (it is {_value(self.was)})"
        return f"{self.option} = {_value(self.value)}{was}"

    def plainly(self, legs: Mapping[str, LegDescription]) -> str:
        """What the change means to a reader, with the variant's legs by name."""
        value = f"{self.value:,}" if isinstance(self.value, int) else str(self.value)
        if self.option == "parents":
            return "short passages shown" if self.value == "annotate" else "longer passages shown"
        if self.option in OPTIONS:
            return OPTIONS[self.option].format(value)
        leg, _, option = self.option.rpartition(".")
        if leg not in legs:
            return str(self)
        about = legs[leg]
        by_option = {"depth": "the first {} found {how}", **about.changes}
        if about.opening.threshold:
            by_option.setdefault(about.opening.threshold, "less asked of what is found {how}")
        return by_option.get(option, "a thorough search {how}").format(value, how=about.phrase)


@dataclass(frozen=True, slots=True)
class Remedy:
    """Changes with which the document became a result, and at which rank. `variant` is the changed one that was run."""

    changes: tuple[OptionChange, ...]
    rank: int
    score: float
    variant: Variant

    def __str__(self) -> str:
        return f"With {' and '.join(map(str, self.changes))} it comes in, {ordinal(self.rank)}."


@dataclass(frozen=True, slots=True)
class Explanation:
    """The whole answer. `filtered` are the conditions of the filter that the document does not meet."""

    document: str
    query: str
    variant: Variant
    kind: str
    results: int
    rank: int | None = None
    score: float | None = None
    shown_as: str | None = None
    standings: tuple[LegDiagnosis, ...] = ()
    filtered: tuple[str, ...] = ()
    places: tuple[StagePosition, ...] = ()
    loss: Loss | None = None
    remedies: tuple[Remedy, ...] = ()
    notes: tuple[str, ...] = ()
    title: str = ""

    @property
    def there(self) -> bool:
        return self.rank is not None

    def lines(self) -> tuple[ExplanationLine, ...]:
        """The explanation line by line, what matters most first."""
        return tuple(self._lines())

    def sentences(self) -> tuple[str, ...]:
        """The explanation in plain words."""
        return tuple(each.text for each in self.lines())

    def to_data(self) -> dict[str, Any]:
        """As JSON can hold it; variants by their ids."""
        lines = self.lines()
        data: dict[str, Any] = {"variant": self.variant.name, "id": self.variant.id, "there": self.there}
        for name in self.__slots__:
            value = getattr(self, name)
            if name == "loss" and self.loss is not None:
                data[name] = {"stage": self.loss.stage, "reason": self.loss.reason}
            elif name in {"standings", "places"} and value:
                data[name] = [asdict(each) for each in value]
            elif name not in {"variant", "remedies"} and value != ():
                data[name] = list(value) if isinstance(value, tuple) else value
        remedies = [
            {"changes": [asdict(each) for each in remedy.changes], "rank": remedy.rank, "variant": remedy.variant.id}
            for remedy in self.remedies
        ]
        return {
            **data,
            "remedies": remedies,
            "sentences": [each.text for each in lines],
            "exact": [each.exact for each in lines],
        }

    def _lines(self) -> Iterator[ExplanationLine]:
        legs = described_legs(self.variant)
        title = f"“{self.title}”" if self.title else self.document
        named = f"This passage of {title}" if self.title and self.kind != "item" else title
        if self.rank is None:
            missing = f"is not among the {self.results} results."
            yield ExplanationLine(f"{named} {missing}", f"{self.document} {missing}")
        else:
            shown = f", as {self.shown_as}" if self.shown_as not in (None, self.document) else ""
            yield ExplanationLine(
                f"{named} is there, at rank {self.rank} of {self.results}.",
                f"{self.document} is there: {ordinal(self.rank)} of {self.results}, with {self.score or 0.0:.4g}"
                f"{shown}.",
            )
        for condition in self.filtered:
            yield ExplanationLine(f"The filter leaves it out: {condition}.")
        if self.filtered and self.standings:
            yield ExplanationLine("Without the filter, it would stand so:")
        for each in self.standings:
            yield ExplanationLine(each.plainly(legs[each.leg]), each.exactly(self.document))
        # With one way of searching, nothing is put together.
        places = [each for each in self.places if each.stage != "fuse" or len(self.variant.legs) > 1]
        path = ", ".join(f"{AFTER.get(each.stage, f'after {each.stage}')} at rank {each.rank:,}" for each in places)
        if path:
            yield ExplanationLine(f"{path[:1].upper()}{path[1:]}.", " ".join(map(str, self.places)))
        if self.loss:
            yield ExplanationLine(
                f"That is why it is missing: {why_dropped(self.loss.code, self.loss.limit) or self.loss.reason}.",
                f"It was lost at the stage {self.loss.stage!r}: {self.loss.reason}.",
            )
            for remedy in self.remedies:
                changes = joined([each.plainly(legs) for each in remedy.changes])
                yield ExplanationLine(f"With {changes} it would come in, at rank {remedy.rank:,}.", str(remedy))
            if not self.remedies:
                yield ExplanationLine("No change that was tried brings it in.")
        yield from map(ExplanationLine, self.notes)


def ordinal(number: int) -> str:
    """1st, 2nd, 3rd, 4th ... 11th, 12th, 13th ... 21st."""
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number:,}{ending}"


def joined(parts: list[str]) -> str:
    """`a, b and c`."""
    return f"{', '.join(parts[:-1])} and {parts[-1]}" if len(parts) > 1 else "".join(parts)


def _value(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


def described_legs(variant: Variant) -> dict[str, LegDescription]:
    """The legs of a variant by name; the phrases of two of one kind are told apart by their names."""
    kinds = [legs.name_of(type(leg)) for leg in variant.legs]
    descriptions = {}
    for name, kind in zip(variant.leg_names, kinds, strict=True):
        about = describe(kind)
        several = Counter(kinds)[kind] > 1
        descriptions[name] = replace(about, phrase=f"{about.phrase} ({name})") if several else about
    return descriptions


def found(places: Iterable[tuple[str, int]]) -> str:
    """How a result was found, as a sentence, by pairs of a leg's phrase and a rank."""
    phrases = joined([f"{way} at rank {rank}" for way, rank in places])
    return f"Found {phrases}." if phrases else ""


def step(stage: str) -> str:
    """A stage in a word or two."""
    leg = stage.removeprefix("leg ")
    return f"found {describe(leg).phrase}" if leg != stage else STEPS.get(stage, stage)


def why_dropped(code: str, limit: str) -> str:
    """The reason for which a stage left something out, in plain words; empty where there are none for it."""
    return REASONS.get(code, "").format(limit)
