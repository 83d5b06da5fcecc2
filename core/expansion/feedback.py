"""Pseudo-relevance feedback (RM3): terms of the first hits, weighted by a relevance model, and its SQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pydantic import Field
from sqlalchemy import Double, Integer, Text, and_, cast, column, func, literal, or_, select, true
from sqlalchemy.dialects.postgresql import ARRAY, REGCONFIG
from sqlalchemy.ext.asyncio import AsyncConnection

from core.context import RequestContext
from core.expansion.base import Expansion, Proposal, expansions
from core.legs.bm25 import Bm25Leg
from core.legs.bm25_sql import UNIT, Statistics, TermWeight, best_keys, table_of
from core.legs.query_terms import lexemes_of, words_of
from core.store.schema import lexeme_table
from core.store.search_target import Postings, SearchTarget

READ = 20_000  # characters of each unit in which the written forms of its words are looked for
SHORTEST, LONGEST = 2, 30  # characters of a word worth adding
HEAVIEST = 10  # how often the expanded query has its heaviest word


@dataclass(frozen=True, slots=True)
class FeedbackUnit:
    """A unit that words are taken from, and its share of the scores."""

    id: str
    item_key: int
    key: int
    share: float


async def feedback_units(
    connection: AsyncConnection, postings: Postings, terms: Sequence[TermWeight], known: Statistics, documents: int
) -> list[FeedbackUnit]:
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
    return [FeedbackUnit(unit, item_key, key, total / whole) for unit, item_key, key, total in found if whole > 0]


async def relevance_model(
    connection: AsyncConnection,
    postings: Postings,
    fed: Sequence[FeedbackUnit],
    own: Sequence[str],
    most: int,
    terms: int,
) -> dict[str, float]:
    """P(w|R) of the likeliest words: the query's own, and others that at most `most` units of the collection have."""
    units, vocabulary = lexeme_table(postings.chunk_set), postings.terms
    unit = table_of(
        "fed",
        item_key=literal([each.item_key for each in fed], ARRAY(Integer)),
        key=literal([each.key for each in fed], ARRAY(Integer)),
        share=literal([each.share for each in fed], ARRAY(Double)),
    )
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
        .where(or_(worth, vocabulary.c.lexeme.in_(own)))
        .group_by(vocabulary.c.lexeme)
        .order_by(weight.desc(), vocabulary.c.lexeme)
        .limit(terms)
    )
    return {row.lexeme: float(row.weight) for row in rows if row.weight > 0}


async def surface_forms(
    connection: AsyncConnection, target: SearchTarget, ids: Sequence[str], lexemes: Sequence[str]
) -> dict[str, str]:
    """How each lexeme is written most often in those units.

    A lexeme is no word: "excursion" is kept as "excurs", and a leg that is asked for "excurs" looks for "excur".
    """
    if not lexemes:
        return {}
    # Few, and a parser asks for them in one place.
    units = target.described(ids).cte("units").prefix_with("MATERIALIZED")
    whole = func.left(func.concat(units.c.title, " ", units.c.text), READ)
    token = func.ts_parse("default", whole).table_valued(column("tokid"), column("token"), name="token").lateral()
    word = func.lower(token.c.token).collate("C").label("word")
    words = select(word, func.count().label("times")).select_from(units.join(token, true())).group_by(word).cte("words")
    found = func.tsvector_to_array(func.to_tsvector(cast(literal(target.language), REGCONFIG), words.c.word))
    read = select(words.c.word, words.c.times, found.label("lexemes")).cte("read").prefix_with("MATERIALIZED")
    lexeme = func.array_to_string(read.c.lexemes, "").collate("C").label("lexeme")
    rows = await connection.execute(
        select(lexeme, read.c.word)
        .where(func.cardinality(read.c.lexemes) == 1, lexeme == func.any(literal(list(lexemes), ARRAY(Text))))
        .order_by(lexeme, read.c.times, read.c.word.desc())
    )
    return {row.lexeme: row.word for row in rows}  # of several, the last and most usual stays


@expansions.register("feedback")
class FeedbackExpansion(Expansion):
    """Asks also for words that the best units of a first BM25 pass have in common, weighted by RM3."""

    documents: int = Field(10, ge=1, le=100, description="From how many of the best units words are taken.")
    terms: int = Field(10, ge=1, le=100, description="How many words the relevance model keeps, the query's included.")
    original_weight: float = Field(0.5, ge=0, le=1, description="The query's own share of the weights; 1 adds nothing.")
    common: float = Field(0.1, gt=0, le=1, description="Words that a larger share of all units has are not taken.")
    embed: bool = Field(False, description="Whether the added words are embedded with the query.")

    async def propose(self, context: RequestContext, target: SearchTarget, query: str) -> Proposal:
        target.postings  # noqa: B018 - says why, where there are none, before anything is asked
        async with context.store.begin(target.namespace, read_only=True) as connection:
            entry = lexemes_of(target.language, query)
            rows = await connection.execute(select(entry.c.lexeme, func.cardinality(entry.c.positions)))
            own = {lexeme: repeats or 1 for lexeme, repeats in rows}  # without stop words
            if not own or self.original_weight == 1:
                return Proposal()
            terms, known = await Bm25Leg().terms(connection, target, query)
            notes = (*known.notes, *(await target.lag(connection) if target.lag else ()))
            units = await feedback_units(connection, target.postings, terms, known, self.documents)
            if not units:
                nothing = "Nothing here has any of the query's words, so there were no units to learn words from."
                return Proposal(notes=(*notes, nothing))
            most = max(1, int(self.common * known.units))
            model = await relevance_model(connection, target.postings, units, list(own), most, self.terms)
            repeats = self.repeats(own, model)
            # The query's own words as they are typed, others as the units most often write them.
            written = {each.lexemes[0]: each.text for each in await words_of(connection, target.language, query)}
            others = [lexeme for lexeme in repeats if lexeme not in own]
            written |= await surface_forms(connection, target, [each.id for each in units], others)
        new = [written[lexeme] for lexeme in others if lexeme in written]
        if not new:  # repeats of the query's own words alone would change its balance for no gain
            return Proposal(notes=notes)
        words = tuple(written[each] for each, count in repeats.items() if each in written for _ in range(count))
        meaning = " ".join([query, *dict.fromkeys(new)]) if self.embed else None
        return Proposal(words, meaning, notes)

    def repeats(self, own: Mapping[str, int], model: Mapping[str, float]) -> dict[str, int]:
        """How often each lexeme is added to the query, the heaviest first, so that it weighs as RM3's mixture says.

        The model's weights are made to sum to one first, as only its best words are kept. The heaviest lexeme stands in
        the expanded query ten times.
        """
        of_query, of_model = sum(own.values()), sum(model.values()) or 1.0
        weights = {each: self.original_weight * count / of_query for each, count in own.items()}
        for each, weight in model.items():
            weights[each] = weights.get(each, 0.0) + (1 - self.original_weight) * weight / of_model
        heaviest = max(weights.values(), default=1.0)
        order = sorted(weights, key=lambda each: (-weights[each], each))
        missing = {each: round(HEAVIEST * weights[each] / heaviest) - own.get(each, 0) for each in order}
        return {each: count for each, count in missing.items() if count > 0}
