"""Why a result is there, in a sentence for people who have never heard of a leg. Asks nobody, computes nothing anew.

It says what the ranking itself holds: which ways of searching brought the hit up, where each had it, and whether a
second look moved it. A way of searching that it has no words for is passed over.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from core.explain.account import ordinal
from core.legs import legs
from core.retriever import RetrievalBundle
from core.trace import Stage
from core.types import Hit, LegScore
from core.variant import Variant
from workbench.behind.search.marking import WORD, matches

WORDS_NAMED: Final = 4
READ: Final = 20_000  # characters of a text in which words are looked for
Reason = Callable[[Sequence[str]], str]


def _means(_: Sequence[str]) -> str:
    return "means something similar"


def _holds(words: Sequence[str]) -> str:
    named = ", ".join(f"“{word}”" for word in words[:WORDS_NAMED])
    return f"holds the word{'s' * (len(words) > 1)} {named}" if words else "holds words of the question"


def _spelled(words: Sequence[str]) -> str:
    named = ", ".join(f"“{word}”" for word in words[:WORDS_NAMED])
    return f"is spelled like {named}" if words else "is spelled like the question"


REASONS: Final[Mapping[str, Reason]] = {
    "vector": _means,
    "fulltext": _holds,
    "bm25": _holds,
    "trigram": _spelled,
    "fuzzy": _spelled,
}


def why(bundle: RetrievalBundle, hit: Hit, keywords: Sequence[str]) -> str:
    """The sentence of one hit."""
    words = named_words(hit, keywords)
    told = [_with_place(hit, each, reason(words)) for each, reason in _reasons(bundle.variant, hit)]
    found = f"Found because it {_joined(told)}." if told else "Found because it matches the question."
    return f"{found} {_second_look(bundle, hit)}".strip()


def named_words(hit: Hit, keywords: Sequence[str]) -> list[str]:
    """The words of the query that stand in the hit, in the query's order."""
    there = {found.lower() for found in WORD.findall(f"{hit.title}\n{hit.text[:READ]}")}
    return [word for word in keywords if any(matches(each, word) for each in there)]


def _reasons(variant: Variant, hit: Hit) -> list[tuple[LegScore, Reason]]:
    """Those that had a say, in the order of the variant's legs; two of one kind are said once, by the better."""
    kinds = {name: legs.name_of(type(leg)) for name, leg in zip(variant.leg_names, variant.legs, strict=True)}
    heard = [each for each in hit.legs if each.contribution] or list(hit.legs)
    best: dict[Reason, LegScore] = {}
    for each in sorted(heard, key=lambda score: score.rank):
        if reason := REASONS.get(kinds.get(each.leg, "")):
            best.setdefault(reason, each)
    order = list(kinds)
    return sorted(((each, reason) for reason, each in best.items()), key=lambda pair: order.index(pair[0].leg))


def _with_place(hit: Hit, score: LegScore, reason: str) -> str:
    """The place by that reason alone, where there is another."""
    return f"{reason} ({ordinal(score.rank)})" if len(hit.legs) > 1 else reason


def _joined(told: Sequence[str]) -> str:
    return told[0] if len(told) == 1 else f"{', '.join(told[:-1])} and {told[-1]}"


def _second_look(bundle: RetrievalBundle, hit: Hit) -> str:
    """What the reranking did to it, told by its place before."""
    stages = bundle.trace.stages
    at = next((at for at, stage in enumerate(stages) if stage.name == "rerank"), None)
    if at is None or hit.rerank_score is None:
        return ""
    before = _place(stages[:at], hit)
    if before is None or before == hit.rank:
        return "A second, closer look agreed."
    return f"A second, closer look moved it {'up' if before > hit.rank else 'down'} from the {ordinal(before)} place."


def _place(stages: Sequence[Stage], hit: Hit) -> int | None:
    """Where the last stage before had it; a parent that took its child's place is not found there."""
    ranking = next((stage.ranking for stage in reversed(stages) if stage.ranking), ())
    return next((at for at, (unit, _) in enumerate(ranking, start=1) if unit == hit.id), None)
