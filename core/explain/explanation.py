"""An explanation as data, and its sentences: exact ones for people who tune, plain ones for visitors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from core.variant import Variant


@dataclass(frozen=True, slots=True)
class ExplanationLine:
    """A sentence in plain words; `exact` says the same by the names of options, legs and stages, where that differs."""

    text: str
    exact: str = ""


@dataclass(frozen=True, slots=True)
class LegDiagnosis:
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
class StagePosition:
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
class OptionChange:
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

    def told(self) -> tuple[ExplanationLine, ...]:
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

    def _told(self) -> Iterator[ExplanationLine]:
        yield ExplanationLine(verdict(self), self._verdict())
        for condition in self.filtered:
            yield ExplanationLine(f"The filter leaves it out: {condition}.")
        if self.filtered and self.standings:
            yield ExplanationLine("Without the filter, it would stand so:")
        ways = leg_phrases(self.variant)
        for each in self.standings:
            yield ExplanationLine(standing(each, ways.get(each.leg, f"by {each.leg}")), each.said_of(self.document))
        if way := way_through(self):
            yield ExplanationLine(way, " ".join(map(str, self.places)))
        if self.loss:
            yield ExplanationLine(lost(self), f"It was lost at the stage {self.loss.stage!r}: {self.loss.reason}.")
            yield from (ExplanationLine(remedy(each, ways), str(each)) for each in self.remedies)
            if not self.remedies:
                yield ExplanationLine("No change that was tried brings it in.")
        yield from map(ExplanationLine, self.notes)

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
    return asdict(value) if isinstance(value, LegDiagnosis | StagePosition | Loss) else value


HOW: Final[Mapping[str, str]] = {
    "vector": "by its meaning",
    "fulltext": "by its words",
    "bm25": "by its rare words",
    "trigram": "by its spelling",
    "fuzzy": "by words spelled alike",
}
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
LEG_OPTIONS: Final[Mapping[str, str]] = {
    "depth": "the first {} found {how}",
    "mode": "any one of the query's words enough",
    "threshold": "less likeness asked of what is found {how}",
    "min_score": "less likeness asked of what is found {how}",
    "min_rank": "less asked of what is found {how}",
}
NOTHING: Final[Mapping[str, str]] = {
    "it has no vector of the model to compare with": "nothing of it has been prepared for that",
}
REASONS: Final[Mapping[str, Mapping[str, str]]] = {  # a stage's, by what its own reason holds; {} is the number in it
    "recall": {
        "no leg has it": "no way of searching brought it up",
        "no unit": "nothing of it can be searched",
    },
    "fuse": {
        "fused_depth": "only the first {} go on",
        "every leg": "only what every way of searching found goes on",
    },
    "roll up": {"stands for its item": "another passage of its document stands for it"},
    "per-item cap": {"per_item_cap": "as many passages of its document as may be shown stand before it"},
    "parents": {
        "merged into": "the longer passage around it is shown already",
        "not searched themselves": "longer passages are not searched themselves, and shorter ones are shown",
    },
    "rerank": {
        "top_k": "only the first {} are kept",
        "below the minimum": "its score is below {}, the least that is asked for",
        "endpoint's best": "it is not among the best {}",
    },
    "cut": {
        "min_score": "its score is below {}, the least that is asked for",
        "top_k": "only the first {} are shown",
    },
    "late chunks": {
        "per_item_cap": "as many passages of its document as may be shown are shown",
        "score higher": "other passages are closer to the query",
        "no such chunk": "its document has no such passage now",
    },
}


# -- the ways of searching ---------------------------------------------------------------------------------------------


def how(kind: str, name: str = "") -> str:
    """How a leg of that kind finds what it finds."""
    return HOW.get(kind, f"by {name or kind}")


def leg_phrases(variant: Variant) -> dict[str, str]:
    """How each leg of a variant finds, by its name; two that find alike are told apart by it."""
    from core.legs import legs

    kinds = {name: legs.name_of(type(leg)) for name, leg in zip(variant.leg_names, variant.legs, strict=True)}
    alike = list(kinds.values())
    return {
        name: f"{how(kind, name)} ({name})" if alike.count(kind) > 1 else how(kind, name)
        for name, kind in kinds.items()
    }


def found(places: Iterable[tuple[str, int]]) -> str:
    """By what a result was found, in a sentence: pairs of how, and at which rank."""
    told = joined([f"{way} at rank {rank}" for way, rank in places])
    return f"Found {told}." if told else ""


def step(stage: str) -> str:
    """A stage in a word or two."""
    leg = stage.removeprefix("leg ")
    return f"found {how(leg)}" if leg != stage else STEPS.get(stage, stage)


def why_left(stage: str, reason: str) -> str:
    """A stage's reason for leaving something out."""
    number = reason.rstrip(".").rsplit(" ", 1)[-1]
    known = REASONS.get(stage, {})
    return next((words.format(number) for said, words in known.items() if said in reason), reason)


def joined(told: list[str]) -> str:
    return told[0] if len(told) == 1 else f"{', '.join(told[:-1])} and {told[-1]}" if told else ""


# -- an account --------------------------------------------------------------------------------------------------------


def named(account: Explanation) -> str:
    """The document by its title, and by its id where it has none."""
    what = f"“{account.title}”" if account.title else account.document
    return what if account.kind == "item" else f"This passage of {what}" if account.title else what


def verdict(account: Explanation) -> str:
    if account.rank is None:
        return f"{named(account)} is not among the {account.results} results."
    return f"{named(account)} is there, at rank {account.rank} of {account.results}."


def standing(each: LegDiagnosis, way: str) -> str:
    """What one way of searching makes of the document."""
    at = f"{way[:1].upper()}{way[1:]} it is at rank {each.rank:,}" if each.rank else f"It is found {way}"
    if not each.matches:
        return f"Not found {way}: {NOTHING.get(each.reason, each.reason)}."
    if each.fetched:
        return f"Found {way}, at rank {each.fetched:,}."
    return {
        "depth": f"{at}, and only the first {each.depth:,} are looked at.",
        "far": f"{at}, but far down, and only the first {each.depth:,} are looked at.",
        "threshold": f"{at}, but too unlike the query to count.",
        "shortcut": f"{at}, but a quick way of searching passed it over.",
    }.get(each.missed, f"{at}.")


def way_through(account: Explanation) -> str:
    """From step to step; with one way of searching nothing is put together."""
    places = [each for each in account.places if each.stage != "fuse" or len(account.variant.legs) > 1]
    told = [f"{AFTER.get(each.stage, f'after {each.stage}')} at rank {each.rank:,}" for each in places]
    return f"{told[0][:1].upper()}{told[0][1:]}{''.join(f', {each}' for each in told[1:])}." if told else ""


def lost(account: Explanation) -> str:
    if account.loss is None:
        return ""
    why = why_left(account.loss.stage, account.loss.reason)
    return f"That is why it is missing: {why}."


def remedy(each: Remedy, ways_: Mapping[str, str]) -> str:
    told = joined([change(one, ways_) for one in each.changes])
    return f"With {told} it would come in, at rank {each.rank:,}."


def change(each: OptionChange, ways_: Mapping[str, str]) -> str:
    value = f"{each.value:,}" if isinstance(each.value, int) else str(each.value)
    if each.option == "parents":
        return "short passages shown" if each.value == "annotate" else "longer passages shown"
    if each.option in OPTIONS:
        return OPTIONS[each.option].format(value)
    leg, _, option = each.option.rpartition(".")
    if leg in ways_ and option in LEG_OPTIONS:
        return LEG_OPTIONS[option].format(value, how=ways_[leg])
    return f"a thorough search {ways_[leg]}" if leg in ways_ else str(each)
