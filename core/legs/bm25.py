"""The BM25 leg: words weighed by how rare they are. States which engine ranks; today that is plain SQL everywhere."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from pydantic import Field
from sqlalchemy import (
    CTE,
    ColumnElement,
    Double,
    FromClause,
    Select,
    Text,
    bindparam,
    cast,
    func,
    literal,
    select,
    true,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from core.legs.base import Candidates, Leg, LegDescription, LegSql, PreparedQuery, QueryParameters, legs
from core.legs.bm25_sql import (
    UNIT,
    Saturation,
    Statistics,
    TermWeight,
    average_length,
    best_keys,
    counted_in,
    counts,
    inverse_frequency,
    ranked,
    ranking,
)
from core.legs.query_terms import lexemes_of
from core.store.search_target import Postings, SearchTarget


@dataclass(frozen=True, slots=True)
class Engine:
    """Something that can rank by BM25. `driven` says whether Rankbook has SQL for it that was tried on a server."""

    name: str
    extension: str | None = None
    driven: bool = False


PLAIN_SQL = Engine("plain SQL over Rankbook's own postings", driven=True)
# The first of these that is installed and driven ranks. To drive one, give it its SQL and a server to be tested on.
ENGINES = (
    Engine("pg_textsearch", "pg_textsearch"),
    Engine("ParadeDB's pg_search", "pg_search"),
    Engine("vchord_bm25", "vchord_bm25"),
    PLAIN_SQL,
)


def engine_notes(target: SearchTarget) -> tuple[str, ...]:
    """A sentence for each engine that the server has and that does not rank."""
    installed = [each for each in ENGINES if each.extension is None or each.extension in target.extensions]
    used = next(each for each in installed if each.driven)
    return tuple(
        f"The server has {each.name}, which Rankbook does not drive; BM25 is ranked by {used.name}."
        for each in installed
        if each is not used and each is not PLAIN_SQL
    )


@legs.register("bm25")
class Bm25Leg(Leg):
    """Units that hold the query's words: rare words count more, repeats ever less, and long units are not favoured."""

    about = LegDescription(
        label="BM25",
        slot=3,
        finds="Passages that hold the query's rare words.",
        strength="Good with exact terms, the rare ones above all. Blind to synonyms and typing errors.",
        nothing="No passage holds them.",
        phrase="by its rare words",
        unmatched="it shares no word with the query",
        visitor_word="words",
        visitor_reason="holds",
    )

    uses_model: ClassVar[bool] = False
    reads_words: ClassVar[bool] = True

    k1: float = Field(1.2, ge=0, le=1000, description="How much repeats of a word add; 0 counts its presence alone.")
    b: float = Field(0.75, ge=0, le=1, description="How far a unit's length is held against it; 0 not at all.")

    @property
    def bounds(self) -> tuple[float, float] | None:
        """Its IDF is never negative, and it adds up without end."""
        return (0.0, math.inf)

    @property
    def saturation(self) -> Saturation:
        return Saturation(self.k1, self.b)

    async def recall(
        self, connection: AsyncConnection, target: SearchTarget, query: PreparedQuery, depth: int
    ) -> Candidates:
        terms, known = await self.terms(connection, target, query.text)
        found = await ranked(connection, target.postings, terms, self.saturation, known, depth)
        return Candidates(found.candidates, (*engine_notes(target), *found.notes))

    async def as_sql(self, target: SearchTarget, parameters: QueryParameters, depth: int) -> LegSql:
        counted = counted_in(target.postings)
        wanted = self._wanted(target, counted, parameters.text)
        statement = ranking(target.postings, wanted, self.saturation, average_length(counted), depth)
        return LegSql(statement, indexes=("_term_key",), notes=engine_notes(target))

    def best_for(self, target: SearchTarget, text: ColumnElement[str], depth: int, language: str | None = None) -> CTE:
        """The units ranked highest by a text that is not there yet."""
        counted = counted_in(target.postings)
        wanted = self._wanted(target, counted, text, language)
        return best_keys(target.postings, wanted, self.saturation, average_length(counted), depth)

    def _wanted(
        self, target: SearchTarget, counted: CTE, text: ColumnElement[str], language: str | None = None
    ) -> FromClause:
        """What `terms` finds, in SQL: `word`, `term` and `weight`."""
        entry, terms = lexemes_of(language or target.language, text), target.postings.terms
        repeats = cast(func.cardinality(entry.c.positions), Double)
        weight = repeats * inverse_frequency(counted, terms.c.documents) * literal(UNIT, Double)
        return (
            select(terms.c.key.label("word"), terms.c.key.label("term"), weight.label("weight"))
            .join_from(entry, terms, terms.c.lexeme == entry.c.lexeme)
            .where(terms.c.documents > 0)
            .cte("wanted")
            .prefix_with("MATERIALIZED")
        )

    async def terms(
        self, connection: AsyncConnection, target: SearchTarget, text: str, language: str | None = None
    ) -> tuple[list[TermWeight], Statistics]:
        """The query's words that the collection has, a repeated one weighing as often as it is repeated."""
        postings, configuration = target.postings, language or target.language
        statement = postings.made.once(("terms", configuration), lambda: _known_terms(postings, configuration))
        rows = (await connection.execute(statement, {"text": text})).all()
        known = Statistics(*rows[0][:3])
        return [
            TermWeight(key, key, repeats * known.idf(documents))
            for *_, key, documents, repeats in rows
            if key is not None
        ], known


def _known_terms(postings: Postings, language: str) -> Select[Any]:
    """A row of statistics with each word of `text` that the collection has, or one row where it has none of them."""
    entry, terms = lexemes_of(language, bindparam("text", type_=Text)), postings.terms
    repeats = func.cardinality(entry.c.positions).label("repeats")
    met = (
        select(terms.c.key, terms.c.documents, repeats)
        .join_from(entry, terms, terms.c.lexeme == entry.c.lexeme)
        .where(terms.c.documents > 0)
        .subquery("met")
    )
    counted = counts(postings).subquery("counted")
    return select(counted, met).join_from(counted, met, true(), isouter=True).order_by(met.c.key)
