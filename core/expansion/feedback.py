"""Pseudo-relevance feedback (RM3): terms of the first hits, weighted by a relevance model, and its SQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import Field
from sqlalchemy import Double, Integer, Text, and_, cast, column, func, literal, or_, select, true
from sqlalchemy.dialects.postgresql import ARRAY, REGCONFIG
from sqlalchemy.ext.asyncio import AsyncConnection

from core.expansion.base import Expansion, ExpansionContext, Proposal, expansions
from core.legs.bm25 import Bm25Leg
from core.legs.bm25_sql import UNIT, Statistics, TermWeight, best_keys, table_of
from core.legs.query_terms import lexemes_of, words_of
from core.store.schema import lexeme_table
from core.store.search_target import Postings, SearchTarget

READ = 20_000  # characters of each unit in which the written forms of its words are looked for
SHORTEST, LONGEST = 2, 30  # characters of a word worth adding


@dataclass(frozen=True, slots=True)
class Fed:
    """A unit that words are taken from, and its share of the scores."""

    id: str
    item_key: int
    key: int
    share: float


async def query_lexemes(connection: AsyncConnection, language: str, query: str) -> dict[str, int]:
    """The query's lexemes, and how often each stands in it. Stop words are none."""
    entry = lexemes_of(language, query)
    rows = await connection.execute(select(entry.c.lexeme, func.cardinality(entry.c.positions)))
    return {lexeme: repeats or 1 for lexeme, repeats in rows}


async def feedback_units(
    connection: AsyncConnection, postings: Postings, terms: Sequence[TermWeight], known: Statistics, documents: int
) -> list[Fed]:
    """The best units by BM25, ties by id."""
    if not terms:
        return []
    best = best_keys(postings, terms, Bm25Leg().saturation, known.average, documents)
    units = lexeme_table(postings.chunk_set)  # which names a unit by its own id, in attached tables too
    rows = await connection.execute(
        select(units.c.id, units.c.item_key, units.c.key, best.c.total)
        .join_from(best, units, and_(units.c.item_key == best.c.item_key, units.c.key == best.c.key))
        .order_by(best.c.total.desc(), units.c.id)
        .limit(documents)
    )
    found = [(row.id, row.item_key, row.key, float(row.total)) for row in rows]
    whole = sum(total for *_, total in found)
    return [Fed(unit, item_key, key, total / whole) for unit, item_key, key, total in found if whole > 0]


async def relevance_model(
    connection: AsyncConnection,
    postings: Postings,
    fed: Sequence[Fed],
    asked: Sequence[str],
    most: int,
    terms: int,
) -> dict[str, float]:
    """P(w|R) of the likeliest words: the query's own, and others that at most `most` units of the collection have."""
    units, vocabulary, unit = lexeme_table(postings.chunk_set), postings.terms, _table(fed)
    entry = func.unnest(units.c.tsv).table_valued("lexeme", "positions", "weights", name="entry").render_derived()
    share = unit.c.share * func.cardinality(entry.c.positions) / func.greatest(units.c.length, 1)
    weight = (func.sum(func.round(share * UNIT)) / UNIT).label("weight")
    size = func.char_length(vocabulary.c.lexeme)
    worth = and_(vocabulary.c.documents <= most, size >= SHORTEST, size <= LONGEST)
    rows = await connection.execute(
        select(vocabulary.c.lexeme, weight)
        .select_from(unit)
        .join(units, and_(units.c.item_key == unit.c.item_key, units.c.key == unit.c.key))
        .join(entry, true())
        .join(vocabulary, vocabulary.c.lexeme == entry.c.lexeme)
        .where(or_(worth, vocabulary.c.lexeme.in_(asked)))
        .group_by(vocabulary.c.lexeme)
        .order_by(weight.desc(), vocabulary.c.lexeme)
        .limit(terms)
    )
    return {row.lexeme: float(row.weight) for row in rows if row.weight > 0}


def _table(fed: Sequence[Fed]) -> Any:
    return table_of(
        "fed",
        item_key=literal([each.item_key for each in fed], ARRAY(Integer)),
        key=literal([each.key for each in fed], ARRAY(Integer)),
        share=literal([each.share for each in fed], ARRAY(Double)),
    )


async def surface_forms(
    connection: AsyncConnection, level: SearchTarget, ids: Sequence[str], lexemes: Sequence[str]
) -> dict[str, str]:
    """How each lexeme is written most often in those units.

    A lexeme is no word: "excursion" is kept as "excurs", and a leg that is asked for "excurs" looks for "excur".
    """
    if not lexemes:
        return {}
    units = (
        level.described(ids).cte("units").prefix_with("MATERIALIZED")
    )  # few, and a parser asks for them in one place
    whole = func.left(func.concat(units.c.title, " ", units.c.text), READ)
    token = func.ts_parse("default", whole).table_valued(column("tokid"), column("token"), name="token").lateral()
    word = func.lower(token.c.token).collate("C").label("word")
    words = select(word, func.count().label("times")).select_from(units.join(token, true())).group_by(word).cte("words")
    found = func.tsvector_to_array(func.to_tsvector(cast(literal(level.language), REGCONFIG), words.c.word))
    read = select(words.c.word, words.c.times, found.label("lexemes")).cte("read").prefix_with("MATERIALIZED")
    lexeme = func.array_to_string(read.c.lexemes, "").collate("C").label("lexeme")
    rows = await connection.execute(
        select(lexeme, read.c.word)
        .where(func.cardinality(read.c.lexemes) == 1, lexeme == func.any(literal(list(lexemes), ARRAY(Text))))
        .order_by(lexeme, read.c.times, read.c.word.desc())
    )
    return {row.lexeme: row.word for row in rows}  # of several, the last and most usual stays


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
        self, connection: AsyncConnection, level: SearchTarget, query: str, fed: Sequence[Fed], terms: _Terms
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
