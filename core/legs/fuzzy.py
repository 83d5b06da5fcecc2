"""The fuzzy leg: words spelled like the query's, looked up in the collection's vocabulary, then weighed as BM25 does.

The vocabulary is small where the texts are not, so this costs a fraction of comparing trigrams with whole texts, and
unlike that it knows rare words from common ones:

    score(d) = sum over words w of max over lexemes t like w of similarity(w, t) * idf(t) * saturation(t, d)

with the IDF and saturation of `postings`. A lexeme that the language's dictionary makes of a word counts as the word
itself: similarity 1. A unit with two spellings of one word gains by the better one only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import Field
from sqlalchemy import Integer, Text, func, literal, select, true
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.ext.asyncio import AsyncConnection

from core.legs.base import Leg, PreparedQuery, Recalled, legs, settle
from core.legs.postings import Saturation, Statistics, Weighted, ranked, statistics, table_of
from core.legs.words import Word, words_of
from core.store.levels import Level, Postings


@dataclass(frozen=True, slots=True)
class Meant:
    """A lexeme of the collection that a word of the query may have meant."""

    word: int
    term: int
    documents: int
    similarity: float


@legs.register("fuzzy")
class FuzzyLeg(Leg):
    """Units with words spelled like the query's; misspellings on either side are forgiven."""

    threshold: float = Field(0.45, gt=0, le=1, description="The least trigram similarity of two words taken for one.")
    expansions: int = Field(8, ge=0, le=100, description="At most how many other spellings a word is looked up by.")
    shortest: int = Field(4, ge=1, description="Words of fewer characters are looked up as they are and no other way.")
    k1: float = Field(1.2, ge=0, le=1000, description="How much repeats of a word add, as in BM25.")
    b: float = Field(0.75, ge=0, le=1, description="How far a unit's length is held against it, as in BM25.")

    async def recall(self, connection: AsyncConnection, level: Level, query: PreparedQuery, depth: int) -> Recalled:
        postings = level.postings
        level.column("text")  # says why, where the server has no trigrams
        words = await words_of(connection, level.language, query.text)
        known = await statistics(connection, postings)
        meant = await self._meant(connection, postings, words) if words else []
        terms = _weighted(words, meant, known)
        return await ranked(connection, postings, terms, Saturation(self.k1, self.b), known, depth)

    async def _meant(self, connection: AsyncConnection, postings: Postings, words: Sequence[Word]) -> list[Meant]:
        await settle(connection, pg_trgm__similarity_threshold=self.threshold)
        exact = await connection.execute(_as_they_are(postings, words))
        meant = [Meant(*row) for row in exact]
        if asked := self._misspellable(words):
            alike = await connection.execute(_spelled_alike(postings, asked, self.expansions))
            meant += [Meant(*row) for row in alike]
        return meant

    def _misspellable(self, words: Sequence[Word]) -> list[tuple[int, str]]:
        return [(at, each.text) for at, each in enumerate(words) if len(each.text) >= self.shortest]


def _weighted(words: Sequence[Word], meant: Sequence[Meant], known: Statistics) -> list[Weighted]:
    """One weight a word and term: the better, where a term is both the word's lexeme and spelled like it."""
    best: dict[tuple[int, int], float] = {}
    for each in meant:
        weight = each.similarity * known.idf(each.documents) * words[each.word].repeats
        best[each.word, each.term] = max(weight, best.get((each.word, each.term), 0.0))
    return [Weighted(word, term, weight) for (word, term), weight in sorted(best.items())]


def _as_they_are(postings: Postings, words: Sequence[Word]) -> Any:
    terms = postings.terms
    lexemes = [(at, lexeme) for at, each in enumerate(words) for lexeme in each.lexemes]
    asked = _asked(lexemes)
    return (
        select(asked.c.word, terms.c.key, terms.c.documents, literal(1.0))
        .join_from(asked, terms, terms.c.lexeme == asked.c.text)
        .where(terms.c.documents > 0)
    )


def _spelled_alike(postings: Postings, words: Sequence[tuple[int, str]], most: int) -> Any:
    """For each word the lexemes most like it. The operator, not the function, is what the index answers to."""
    terms = postings.terms
    asked = _asked(words)
    similarity = func.similarity(terms.c.lexeme, asked.c.text)
    alike = (
        select(terms.c.key, terms.c.documents, similarity.label("similarity"))
        .where(terms.c.lexeme.op("%", is_comparison=True)(asked.c.text), terms.c.documents > 0)
        .order_by(similarity.desc(), terms.c.lexeme)
        .limit(most)
        .lateral("alike")
    )
    return select(asked.c.word, alike.c.key, alike.c.documents, alike.c.similarity).join_from(asked, alike, true())


def _asked(words: Sequence[tuple[int, str]]) -> Any:
    numbers = literal([number for number, _ in words], ARRAY(Integer))
    return table_of("asked", word=numbers, text=literal([text for _, text in words], ARRAY(Text)))
