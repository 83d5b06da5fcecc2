"""What an expansion is: options as data, and words or a meaning proposed beside a query.

Owns that the query as typed always comes first and whole, whatever a method proposes, and that what is handed on can be
asked. Knows no method.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict

from core.expansion.words import words_in
from core.legs.base import LONGEST_QUERY
from core.registry import Registry
from core.resources import Resources
from core.store.collections import View
from core.store.engine import Store
from core.store.gate import cleaned
from core.store.levels import Level

LONGEST_EXPANDED = 2_000  # characters: a longer query says enough by itself
_OPERATOR = re.compile(r"(?:^|(?<=\s))-+|[\"“”]")  # what websearch_to_tsquery would read as "not" and as a phrase


@dataclass(frozen=True, slots=True)
class Expanded:
    """A query, and what is asked in its place.

    Keyword legs ask with `words`, where a repeated word weighs as often as it is repeated; `meaning` is embedded.
    `added` is what `words` says that the query does not. Legs that want every word of a query (full text in the modes
    web, plain, phrase and strict) find less with more words: they had better ask with `original`.
    """

    original: str
    words: str
    meaning: str
    added: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @classmethod
    def unchanged(cls, query: str, *notes: str) -> Expanded:
        """The query as it is, and why."""
        return cls(query, query, query, notes=notes)


@dataclass(frozen=True, slots=True)
class Proposal:
    """What a method would add: words or phrases for keyword legs, and a text to embed, where it is not the query."""

    words: tuple[str, ...] = ()
    meaning: str | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ExpansionContext:
    """What an expansion may look at: the collection, the level that will be searched, and models and the network."""

    store: Store
    view: View
    level: Level
    resources: Resources


class Expansion(BaseModel, ABC):
    """One way to expand queries."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    async def expand(self, context: ExpansionContext, query: str) -> Expanded:
        """The query with what the method proposes behind it. A query without words, or a page long, stays as it is."""
        if len(query) > LONGEST_EXPANDED:
            return Expanded.unchanged(
                query, f"The query has more than {LONGEST_EXPANDED:,} characters: it was not expanded."
            )
        if not words_in(query):
            return Expanded.unchanged(query)
        return joined(query, await self.propose(context, cleaned(query)))

    @abstractmethod
    async def propose(self, context: ExpansionContext, query: str) -> Proposal:
        """What to ask beside the query, which has words in it and is text that the server takes."""


expansions: Registry[type[Expansion]] = Registry("expansion")


def joined(query: str, proposal: Proposal) -> Expanded:
    """Query and proposal as one. Words beyond what a leg reads are left out, and a note says so."""
    proposed = [text for word in proposal.words if (text := _askable(word))]
    fitting = list(_fitting(proposed, LONGEST_QUERY - len(query)))
    notes = list(proposal.notes)
    if len(fitting) < len(proposed):
        notes.append(f"{len(proposed) - len(fitting)} of the words to add were left out: the query grew too long.")
    meaning = query if proposal.meaning is None else cleaned(proposal.meaning)
    if len(meaning) > LONGEST_QUERY:
        meaning = query
        notes.append("The text to embed grew too long: the query itself is embedded.")
    return Expanded(query, " ".join([query, *fitting]), meaning, _added(query, fitting), tuple(notes))


def _askable(words: str) -> str:
    """Without what full-text search would read as an operator: proposed words are words and nothing else."""
    return " ".join(_OPERATOR.sub(" ", cleaned(words)).split())


def _fitting(words: Iterable[str], room: int) -> Iterable[str]:
    for word in words:
        room -= len(word) + 1
        if room < 0:
            return
        yield word


def _added(query: str, words: Iterable[str]) -> tuple[str, ...]:
    """Each once, without those whose words all stand in the query."""
    known = set(words_in(query))
    return tuple(dict.fromkeys(word for word in words if not set(words_in(word)) <= known))
