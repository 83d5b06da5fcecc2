"""Pseudo-relevance feedback: the words that set apart the best units of a first keyword pass, asked for as well.

RM3: the relevance model of Lavrenko & Croft, "Relevance-Based Language Models", SIGIR 2001 (RM1),

    P(w|R) = sum over feedback units d of P(d) * tf(w, d) / |d|

mixed with the query's own words as in Abdul-Jaleel et al., "UMass at TREC 2004: Novelty and HARD":

    P'(w) = original_weight * P(w|query) + (1 - original_weight) * P(w|R)

P(d) is the unit's share of the feedback units' BM25 scores, which stand in for query likelihoods, as in Anserini (Yang,
Fang & Lin, JDIQ 2018). From there also comes that words which stand in very many units are left out.

Keyword legs take text, so weights become repeats: the heaviest word stands HEAVIEST times, and what would round to none
is not added. BM25 and fuzzy search count repeats; the other legs hear each word once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pydantic import Field
from sqlalchemy.ext.asyncio import AsyncConnection

from core.expansion.base import Expansion, ExpansionContext, Proposal, expansions
from core.expansion.feedback_sql import Fed, feedback_units, query_lexemes, relevance_model, surface_forms
from core.legs.bm25 import Bm25Leg
from core.legs.words import words_of
from core.store.levels import Level

HEAVIEST = 10


@dataclass(frozen=True, slots=True)
class _Terms:
    """How heavy each lexeme is, and how often the query says it already."""

    weights: Mapping[str, float]
    asked: Mapping[str, int]

    def repeats(self) -> dict[str, int]:
        """How often each lexeme is to be said beside the query, the heaviest first."""
        heaviest = max(self.weights.values(), default=1.0)
        wanted = {each: round(HEAVIEST * weight / heaviest) for each, weight in self.weights.items()}
        order = sorted(wanted, key=lambda each: (-self.weights[each], each))
        missing = {each: wanted[each] - self.asked.get(each, 0) for each in order}
        return {each: count for each, count in missing.items() if count > 0}


@expansions.register("feedback")
class FeedbackExpansion(Expansion):
    """Asks also for words that the best units of a first BM25 pass have in common, weighted by RM3."""

    documents: int = Field(10, ge=1, le=100, description="From how many of the best units words are taken.")
    terms: int = Field(10, ge=1, le=100, description="How many words the relevance model keeps, the query's included.")
    original_weight: float = Field(0.5, ge=0, le=1, description="The query's own share of the weights; 1 adds nothing.")
    common: float = Field(0.1, gt=0, le=1, description="Words that a larger share of all units has are not taken.")
    embed: bool = Field(False, description="Whether the added words are embedded with the query.")

    async def propose(self, context: ExpansionContext, query: str) -> Proposal:
        level = context.level
        level.postings  # noqa: B018 - says why, where there are none, before anything is asked
        async with context.store.begin(level.namespace, read_only=True) as connection:
            asked = await query_lexemes(connection, level.language, query)
            if not asked or self.original_weight == 1:
                return Proposal()
            terms, known = await Bm25Leg().terms(connection, level, query)
            notes = (*known.notes, *(await level.lag(connection) if level.lag else ()))
            fed = await feedback_units(connection, level.postings, terms, known, self.documents)
            if not fed:
                nothing = "Nothing here has any of the query's words, so there were no units to learn words from."
                return Proposal(notes=(*notes, nothing))
            most = max(1, int(self.common * known.units))
            model = await relevance_model(connection, level.postings, fed, list(asked), most, self.terms)
            words = await self._said(connection, level, query, fed, self.mixed(asked, model))
        return self._proposal(query, words, asked, notes)

    def mixed(self, asked: Mapping[str, int], model: Mapping[str, float]) -> _Terms:
        """RM3's mixture; the model's weights are made to sum to one first, as only its best words are kept."""
        of_query, of_model = sum(asked.values()), sum(model.values()) or 1.0
        weights = {each: self.original_weight * count / of_query for each, count in asked.items()}
        for each, weight in model.items():
            weights[each] = weights.get(each, 0.0) + (1 - self.original_weight) * weight / of_model
        return _Terms(weights, asked)

    async def _said(
        self, connection: AsyncConnection, level: Level, query: str, fed: Sequence[Fed], terms: _Terms
    ) -> list[tuple[str, str]]:
        """Lexeme and word, as often as it is to be said: the query's own word, else the units' most usual one."""
        repeats = terms.repeats()
        known = {each.lexemes[0]: each.text for each in await words_of(connection, level.language, query)}
        unknown = [each for each in repeats if each not in terms.asked]
        known |= await surface_forms(connection, level, [each.id for each in fed], unknown)
        return [(each, known[each]) for each, count in repeats.items() if each in known for _ in range(count)]

    def _proposal(
        self, query: str, words: Sequence[tuple[str, str]], asked: Mapping[str, int], notes: Sequence[str]
    ) -> Proposal:
        new = list(dict.fromkeys(word for lexeme, word in words if lexeme not in asked))
        if not new:  # repeats of the query's own words alone would change its balance for no gain
            return Proposal(notes=tuple(notes))
        meaning = " ".join([query, *new]) if self.embed else None
        return Proposal(tuple(word for _, word in words), meaning, tuple(notes))
