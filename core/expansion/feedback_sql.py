"""What feedback asks the server: the best units, the words in them, and how those words are written.

Weights are added as whole multiples of a small step, so that no plan's order of adding shows in a
sum, as in core.legs.postings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Double, Integer, Text, and_, cast, column, func, literal, or_, select, true
from sqlalchemy.dialects.postgresql import ARRAY, REGCONFIG
from sqlalchemy.ext.asyncio import AsyncConnection

from core.legs.bm25 import Bm25Leg
from core.legs.postings import UNIT, Statistics, Weighted, best_keys, lexemes_of, table_of
from core.store.levels import Level, Postings
from core.store.schema import lexeme_table

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
    connection: AsyncConnection, postings: Postings, terms: Sequence[Weighted], known: Statistics, documents: int
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
    connection: AsyncConnection, level: Level, ids: Sequence[str], lexemes: Sequence[str]
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
