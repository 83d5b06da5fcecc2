"""Plain words for how a document was found and what became of it, for readers who know no leg and no stage.

Owns those words, for the command, the pages and notebooks alike; it asks nobody. What it has no words for it says by
its exact name, as every account does beside them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from core.explain.account import Account, Change, Remedy, Standing
    from core.variant import Variant

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


def ways(variant: Variant) -> dict[str, str]:
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


def named(account: Account) -> str:
    """The document by its title, and by its id where it has none."""
    what = f"“{account.title}”" if account.title else account.document
    return what if account.kind == "item" else f"This passage of {what}" if account.title else what


def verdict(account: Account) -> str:
    if account.rank is None:
        return f"{named(account)} is not among the {account.results} results."
    return f"{named(account)} is there, at rank {account.rank} of {account.results}."


def standing(each: Standing, way: str) -> str:
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


def way_through(account: Account) -> str:
    """From step to step; with one way of searching nothing is put together."""
    places = [each for each in account.places if each.stage != "fuse" or len(account.variant.legs) > 1]
    told = [f"{AFTER.get(each.stage, f'after {each.stage}')} at rank {each.rank:,}" for each in places]
    return f"{told[0][:1].upper()}{told[0][1:]}{''.join(f', {each}' for each in told[1:])}." if told else ""


def lost(account: Account) -> str:
    if account.loss is None:
        return ""
    why = why_left(account.loss.stage, account.loss.reason)
    return f"That is why it is missing: {why}."


def remedy(each: Remedy, ways_: Mapping[str, str]) -> str:
    told = joined([change(one, ways_) for one in each.changes])
    return f"With {told} it would come in, at rank {each.rank:,}."


def change(each: Change, ways_: Mapping[str, str]) -> str:
    value = f"{each.value:,}" if isinstance(each.value, int) else str(each.value)
    if each.option == "parents":
        return "short passages shown" if each.value == "annotate" else "longer passages shown"
    if each.option in OPTIONS:
        return OPTIONS[each.option].format(value)
    leg, _, option = each.option.rpartition(".")
    if leg in ways_ and option in LEG_OPTIONS:
        return LEG_OPTIONS[option].format(value, how=ways_[leg])
    return f"a thorough search {ways_[leg]}" if leg in ways_ else str(each)
