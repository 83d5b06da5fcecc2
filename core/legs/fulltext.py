"""The full-text leg: PostgreSQL's own ranking of lexemes."""

from __future__ import annotations

from typing import Any, Literal

import psycopg
from pydantic import Field
from sqlalchemy import ColumnElement, cast, func, literal, select, true
from sqlalchemy.dialects.postgresql import REGCONFIG, TSQUERY
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from core.errors import InputError
from core.legs.base import Candidate, Leg, PreparedQuery, candidates, legs
from core.store.levels import Level

PARSERS = {
    "web": func.websearch_to_tsquery,
    "plain": func.plainto_tsquery,
    "phrase": func.phraseto_tsquery,
    "strict": func.to_tsquery,
}


@legs.register("fulltext")
class FulltextLeg(Leg):
    """Units that hold the query's words: `any` one of them, the other modes all, which few texts do of a question."""

    mode: Literal["any", "web", "plain", "phrase", "strict"] = Field("any", description="How the query's text is read.")
    rank: Literal["ts_rank", "ts_rank_cd"] = Field("ts_rank", description="PostgreSQL's ranking function.")
    normalization: int = Field(1, ge=0, le=63, description="Its flags; 1 divides by the logarithm of the length.")

    async def recall(
        self, connection: AsyncConnection, level: Level, query: PreparedQuery, depth: int
    ) -> list[Candidate]:
        lexemes = level.column("lexemes")
        wanted = (
            select(self._tsquery(level.language, query.text).label("wanted")).cte("query").prefix_with("MATERIALIZED")
        )
        score = getattr(func, self.rank)(lexemes.value, wanted.c.wanted, self.normalization).label("score")
        statement = (
            select(lexemes.id.label("id"), score)
            .select_from(lexemes.relation.join(wanted, true()))
            .where(lexemes.value.op("@@")(wanted.c.wanted), lexemes.where)
            .order_by(score.desc(), lexemes.id)
            .limit(depth)
        )
        try:
            return candidates(await connection.execute(statement))
        except DBAPIError as error:
            if not isinstance(error.orig, psycopg.errors.SyntaxError):
                raise
            raise InputError(
                f"The query {query.text!r} is not in the syntax of to_tsquery, such as cat & (dog | mouse). "
                "Mend it, or use the mode web, which takes any text."
            ) from error

    def _tsquery(self, language: str, text: str) -> ColumnElement[Any]:
        configuration = cast(literal(language), REGCONFIG)
        if self.mode != "any":
            return PARSERS[self.mode](configuration, text)
        return any_word(configuration, text)


def any_word(configuration: ColumnElement[Any], text: str) -> ColumnElement[Any]:
    """The query's lexemes joined by OR. Stop words alone leave NULL, which matches nothing."""
    entry = func.unnest(func.to_tsvector(configuration, text)).table_valued("lexeme", "positions", "weights")
    entry = entry.render_derived()
    escaped = func.replace(func.replace(entry.c.lexeme, "\\", "\\\\"), "'", "''")
    words = func.string_agg(func.concat("'", escaped, "'"), " | ")
    return cast(select(words).select_from(entry).scalar_subquery(), TSQUERY)
