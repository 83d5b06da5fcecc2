"""The fuzzy leg: words spelled like the query's, looked up in the collection's vocabulary, then weighed as BM25 does.

The vocabulary is small where the texts are not, so this costs a fraction of comparing trigrams with whole texts, and
unlike that it knows rare words from common ones:

    score(d) = sum over words w of max over lexemes t like w of similarity(w, t) * idf(t) * saturation(t, d)

with the IDF and saturation of `bm25_sql`. A lexeme that the language's dictionary makes of a word counts as the word
itself: similarity 1. A unit with two spellings of one word gains by the better one only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from pydantic import Field
from sqlalchemy import Double, Integer, Text, cast, func, literal, select, true
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.ext.asyncio import AsyncConnection

from core.legs.base import Candidates, Leg, LegDescription, LegOpening, LegSql, PreparedQuery, QueryParameters, legs
from core.legs.bm25_sql import (
    UNIT,
    Saturation,
    Statistics,
    TermWeight,
    average_length,
    counted_in,
    counts,
    inverse_frequency,
    ranked,
    ranking,
    table_of,
)
from core.legs.query_terms import words_of, words_statement
from core.store.engine import settle
from core.store.search_target import Postings, SearchTarget


@dataclass(frozen=True, slots=True)
class SpellingMatch:
    """A lexeme of the collection that a word of the query may have meant."""

    word: int
    term: int
    documents: int
    similarity: float


@legs.register("fuzzy")
class FuzzyLeg(Leg):
    """Units with words spelled like the query's; misspellings on either side are forgiven."""

    about = LegDescription(
        label="Fuzzy",
        slot=4,
        finds="Words of the collection spelled alike.",
        strength="Good with misspelled words, and knows rare ones from common ones. Knows nothing of meaning.",
        nothing="No word is spelled alike.",
        phrase="by words spelled alike",
        unmatched="it has no word that is one of the query's, or spelled like one",
        changes={"threshold": "less likeness asked of what is found {how}"},
        visitor_word="spelling",
        visitor_reason="spelled",
        # Lower thresholds, at which words far off still share trigrams.
        opening=LegOpening(wider={"threshold": (0.4, 0.35, 0.3, 0.25, 0.2)}),
    )

    uses_model: ClassVar[bool] = False
    reads_words: ClassVar[bool] = True

    threshold: float = Field(0.45, gt=0, le=1, description="The least trigram similarity of two words taken for one.")
    expansions: int = Field(8, ge=0, le=100, description="At most how many other spellings a word is looked up by.")
    shortest: int = Field(4, ge=1, description="Words of fewer characters are looked up as they are and no other way.")
    k1: float = Field(1.2, ge=0, le=1000, description="How much repeats of a word add, as in BM25.")
    b: float = Field(0.75, ge=0, le=1, description="How far a unit's length is held against it, as in BM25.")

    @property
    def bounds(self) -> tuple[float, float]:
        """Similarity, IDF and saturation are never negative, and their sum has no end."""
        return (0.0, math.inf)

    async def recall(
        self, connection: AsyncConnection, target: SearchTarget, query: PreparedQuery, depth: int
    ) -> Candidates:
        postings = target.postings
        target.column("text")  # says why, where the server has no trigrams
        words = await words_of(connection, target.language, query.text)
        known = Statistics(*(await connection.execute(counts(postings))).one())
        matches: list[SpellingMatch] = []
        if words:
            await settle(connection, **self._settings())
            lexemes = [(at, lexeme) for at, each in enumerate(words) for lexeme in each.lexemes]
            matches += [SpellingMatch(*row) for row in await connection.execute(_exact(postings, _table(lexemes)))]
            if typed := [(at, each.text) for at, each in enumerate(words) if len(each.text) >= self.shortest]:
                alike = _spelled_alike(postings, _table(typed), self.expansions)
                matches += [SpellingMatch(*row) for row in await connection.execute(alike)]
        # One weight a word and term: the better, where a term is both the word's lexeme and spelled like it.
        weights: dict[tuple[int, int], float] = {}
        for each in matches:
            weight = each.similarity * known.idf(each.documents) * words[each.word].repeats
            weights[each.word, each.term] = max(weight, weights.get((each.word, each.term), 0.0))
        terms = [TermWeight(word, term, weight) for (word, term), weight in sorted(weights.items())]
        return await ranked(connection, postings, terms, Saturation(self.k1, self.b), known, depth)

    async def as_sql(self, target: SearchTarget, parameters: QueryParameters, depth: int) -> LegSql:
        """The same lookup and the same weights in SQL: the table `wanted` of `word`, `term` and `weight`."""
        postings = target.postings
        target.column("text")  # says why, where the server has no trigrams
        counted = counted_in(postings)
        typed = words_statement(target.language, parameters.text).subquery("typed")
        number = func.row_number().over(order_by=(typed.c.word, typed.c.lexemes))
        numbered = select(number.label("word"), typed.c.word.label("text"), typed.c.lexemes, typed.c.repeats)
        words = numbered.cte("words").prefix_with("MATERIALIZED")
        entry = func.unnest(words.c.lexemes).table_valued("lexeme", name="entry").render_derived()
        lexemes = select(words.c.word, entry.c.lexeme.label("text")).join_from(words, entry, true()).subquery("asked")
        long = select(words.c.word, words.c.text).where(func.char_length(words.c.text) >= self.shortest)
        spelled = _spelled_alike(postings, long.subquery("asked"), self.expansions, self.threshold).subquery()
        word, term, documents, similarity = spelled.c
        # A similarity has single precision, and is read as its shortest decimal.
        alike = select(word, term, documents, cast(cast(similarity, Text), Double).label("similarity"))
        meant = _exact(postings, lexemes).union_all(alike).subquery("meant")
        rarity = inverse_frequency(counted, meant.c.documents)
        own = meant.c.similarity * rarity * cast(words.c.repeats, Double) * literal(UNIT, Double)
        wanted = (
            select(meant.c.word, meant.c.term, func.max(own, type_=Double).label("weight"))
            .join_from(meant, words, words.c.word == meant.c.word)
            .group_by(meant.c.word, meant.c.term)
            .cte("wanted")
            .prefix_with("MATERIALIZED")
        )
        statement = ranking(postings, wanted, Saturation(self.k1, self.b), average_length(counted), depth)
        return LegSql(statement, settings=self._settings(), indexes=("_term_key", "_lexeme_gin"))

    def _settings(self) -> dict[str, object]:
        return {"pg_trgm__similarity_threshold": self.threshold}


def _exact(postings: Postings, words: Any) -> Any:
    """The collection's lexemes that are these words."""
    terms = postings.terms
    return (
        select(words.c.word, terms.c.key.label("term"), terms.c.documents, literal(1.0, Double).label("similarity"))
        .join_from(words, terms, terms.c.lexeme == words.c.text)
        .where(terms.c.documents > 0)
    )


def _spelled_alike(postings: Postings, words: Any, most: int, least: float | None = None) -> Any:
    """For each word the lexemes most like it. The operator, not the function, is what the index answers to.

    `least` says the threshold once more, where the setting may be lower for another leg's sake.
    """
    terms = postings.terms
    similarity = func.similarity(terms.c.lexeme, words.c.text)
    enough = true() if least is None else similarity >= literal(least)
    alike = (
        select(terms.c.key, terms.c.documents, similarity.label("similarity"))
        .where(terms.c.lexeme.op("%", is_comparison=True)(words.c.text), terms.c.documents > 0, enough)
        .order_by(similarity.desc(), terms.c.lexeme)
        .limit(most)
        .lateral("alike")
    )
    return select(words.c.word, alike.c.key, alike.c.documents, alike.c.similarity).join_from(words, alike, true())


def _table(words: Sequence[tuple[int, str]]) -> Any:
    numbers = literal([number for number, _ in words], ARRAY(Integer))
    return table_of("asked", word=numbers, text=literal([text for _, text in words], ARRAY(Text)))
