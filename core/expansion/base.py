"""The contract of query expansions and their registry, the expanded query, and the words of a query."""

from __future__ import annotations

import re
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import ClassVar

from pydantic import BaseModel, ConfigDict

from core.context import RequestContext
from core.legs.base import LONGEST_QUERY
from core.registry import Registry, Tagged
from core.store.sanitize import cleaned
from core.store.search_target import SearchTarget

# A word may end in marks that tell it from another: C, C++ and C#.
_WORD = re.compile(r"\w+(?:\+\+|#)?")

# Only words that name nothing in any query. "can", "may" and "will" are left out: each is a noun somewhere.
FUNCTION_WORDS = frozenset(
    "a an the this that these those and or but nor so if then than as at by for from in into of off on onto out over "  # noqa: SIM905
    "to up with without about after before between through during under i me my mine we us our ours you your yours he "
    "him his she her hers it its they them their theirs one who whom whose which what when where why how is am are was "
    "were be been being do does did done doing has have had having would should could there here not no yes also just "
    "too very such s t re ve ll d m don doesn didn isn aren wasn weren won".split()
)


def folded(text: str) -> str:
    """In the form in which words are compared: no difference of case or of compatible characters."""
    return unicodedata.normalize("NFKC", text).casefold()


def words_in(text: str) -> list[str]:
    """The text's words, folded, in order."""
    return _WORD.findall(folded(text))


def content_words(text: str) -> list[str]:
    """Those of them that are no English function words."""
    return [word for word in words_in(text) if word not in FUNCTION_WORDS]


def contains(words: Sequence[str], phrase: Sequence[str]) -> bool:
    """Whether the phrase stands in the words, side by side and in order."""
    size = len(phrase)
    return any(list(words[at : at + size]) == list(phrase) for at in range(len(words) - size + 1))


def new_words(query: str, texts: Iterable[str]) -> Iterator[str]:
    """The content words of the texts that the query has not got, each once, in order."""
    known = set(words_in(query))
    for text in texts:
        for word in content_words(text):
            if word not in known:
                known.add(word)
                yield word


LONGEST_EXPANDED = 2_000  # characters: a longer query says enough by itself
_OPERATOR = re.compile(r"(?:^|(?<=\s))-+|[\"“”]")  # what websearch_to_tsquery would read as "not" and as a phrase


@dataclass(frozen=True, slots=True)
class ExpandedQuery:
    """A query, and what takes its place.

    Keyword legs search with `words`, where a repeated word weighs as often as it is repeated; `meaning` is embedded.
    `added` is what `words` has and the query has not. Legs that want every word of a query (full text in the modes web,
    plain, phrase and strict) would find less with more words: they search with `original`.
    """

    original: str
    words: str
    meaning: str
    added: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @classmethod
    def unchanged(cls, query: str, *notes: str) -> ExpandedQuery:
        """The query as it is, and why."""
        return cls(query, query, query, notes=notes)


@dataclass(frozen=True, slots=True)
class Proposal:
    """What a method would add: words or phrases for keyword legs, and a text to embed, where it is not the query."""

    words: tuple[str, ...] = ()
    meaning: str | None = None
    notes: tuple[str, ...] = ()


class Expansion(BaseModel, ABC):
    """One way to expand queries."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    calls_endpoint: ClassVar[bool] = False  # whether it sends the query to a server
    reads_files: ClassVar[bool] = False  # whether it reads files of this machine

    async def expand(self, context: RequestContext, target: SearchTarget, query: str) -> ExpandedQuery:
        """The query with what the method proposes after it. A query without words, or a page long, stays as it is."""
        if len(query) > LONGEST_EXPANDED:
            return ExpandedQuery.unchanged(
                query, f"The query has more than {LONGEST_EXPANDED:,} characters: it was not expanded."
            )
        if not words_in(query):
            return ExpandedQuery.unchanged(query)
        return merge_proposal(query, await self.propose(context, target, cleaned(query)))

    @abstractmethod
    async def propose(self, context: RequestContext, target: SearchTarget, query: str) -> Proposal:
        """What to add to the query, which has words in it and is text that the server takes."""


expansions: Registry[type[Expansion]] = Registry("expansion")


def merge_proposal(query: str, proposal: Proposal) -> ExpandedQuery:
    """Query and proposal as one. Words beyond what a leg reads are left out, and a note says so."""
    # Without what full-text search would read as an operator: proposed words are words and nothing else.
    proposed = [text for word in proposal.words if (text := " ".join(_OPERATOR.sub(" ", cleaned(word)).split()))]
    lengths = accumulate((len(word) + 1 for word in proposed), initial=len(query))
    fitting = [word for word, length in zip(proposed, list(lengths)[1:], strict=True) if length <= LONGEST_QUERY]
    notes = list(proposal.notes)
    if len(fitting) < len(proposed):
        notes.append(f"{len(proposed) - len(fitting)} of the words to add were left out: the query grew too long.")
    meaning = query if proposal.meaning is None else cleaned(proposal.meaning)
    if len(meaning) > LONGEST_QUERY:
        meaning = query
        notes.append("The text to embed grew too long: the query itself is embedded.")
    known = set(words_in(query))
    added = dict.fromkeys(word for word in fitting if not set(words_in(word)) <= known)
    return ExpandedQuery(query, " ".join([query, *fitting]), meaning, tuple(added), tuple(notes))


EXPANSIONS = Tagged(expansions, "method")
expansion_from, spec_of = EXPANSIONS.read, EXPANSIONS.write
