"""The trigram leg: texts that hold something spelled like the query's keywords."""

from __future__ import annotations

from typing import Any

from pydantic import Field
from sqlalchemy import cast, column, func, literal, select
from sqlalchemy.dialects.postgresql import REGCONFIG
from sqlalchemy.ext.asyncio import AsyncConnection

from core.legs.base import Candidate, Leg, PreparedQuery, candidates, legs
from core.store.levels import Level


@legs.register("trigram")
class TrigramLeg(Leg):
    """Units in which some stretch of words resembles the query's keywords; stop words of the language are left out."""

    threshold: float = Field(0.3, gt=0, le=1, description="The least word similarity that counts as a find.")

    async def recall(
        self, connection: AsyncConnection, level: Level, query: PreparedQuery, depth: int
    ) -> list[Candidate]:
        texts = level.column("text")
        keywords = await connection.scalar(keywords_of(level.language, query.text))
        if not keywords:
            return []
        await connection.execute(
            select(func.set_config("pg_trgm.word_similarity_threshold", str(self.threshold), True))
        )
        score = func.word_similarity(keywords, texts.value).label("score")
        rows = await connection.execute(
            select(texts.id.label("id"), score)
            .where(literal(keywords).op("<%")(texts.value), texts.where)
            .order_by(score.desc(), texts.id)
            .limit(depth)
        )
        return candidates(rows)


def keywords_of(language: str, text: str) -> Any:
    """The query's words in lower case, without those that the language's dictionary drops."""
    parsed = func.ts_debug(cast(literal(language), REGCONFIG), text).table_valued(column("token"), column("lexemes"))
    meaningful = func.cardinality(parsed.c.lexemes) > 0
    return select(func.string_agg(func.lower(parsed.c.token), " ")).select_from(parsed).where(meaningful)
