"""The trigram leg: texts that hold something spelled like the query's keywords."""

from __future__ import annotations

from typing import Any, ClassVar, Final, Literal

from pydantic import Field
from sqlalchemy import ColumnElement, Select, func, literal, select
from sqlalchemy.ext.asyncio import AsyncConnection

from core.legs.base import (
    Candidates,
    Leg,
    LegDescription,
    LegOpening,
    LegSql,
    PreparedQuery,
    QueryParameters,
    legs,
    recalled,
)
from core.legs.query_terms import keywords_of
from core.store.engine import settle
from core.store.search_target import SearchColumn, SearchTarget

# Each function has an operator that an index answers to; the function in a condition would scan every text.
OPERATORS: Final = {"word_similarity": "<%", "strict_word_similarity": "<<%", "similarity": "%"}
READ: Final = 1_000  # characters of keywords, some 120 words: twenty times that take 15 s on 2,000 texts
CUT: Final = f"Of the query's keywords the first {READ:,} characters were compared, and the rest was left out."


@legs.register("trigram")
class TrigramLeg(Leg):
    """Units in which some stretch of words resembles the query's keywords; stop words of the language are left out."""

    about = LegDescription(
        label="Trigram",
        slot=2,
        finds="Passages spelled alike: typing errors, part numbers, codes.",
        strength="Good with misspelled words and half-remembered codes. Knows nothing of meaning, and likes long "
        "passages.",
        nothing="Nothing is spelled like the query's words.",
        phrase="by its spelling",
        unmatched="nothing in it is spelled like the query's keywords",
        changes={"threshold": "less likeness asked of what is found {how}"},
        visitor_word="spelling",
        visitor_reason="spelled",
        opening=LegOpening("threshold", 1e-6),  # whatever shares anything at all
    )

    uses_model: ClassVar[bool] = False

    function: Literal["word_similarity", "strict_word_similarity", "similarity"] = Field(
        "word_similarity",
        description="What the keywords resemble: any stretch of the text, a stretch of whole words, or the whole text.",
    )
    threshold: float = Field(0.3, gt=0, le=1, description="The least similarity that counts as a find.")

    @property
    def bounds(self) -> tuple[float, float] | None:
        return (0.0, 1.0)

    async def recall(
        self, connection: AsyncConnection, target: SearchTarget, query: PreparedQuery, depth: int
    ) -> Candidates:
        texts = target.column("text")
        keywords = await connection.scalar(keywords_of(target.language, query.text))
        if not keywords:
            return Candidates(notes=("The query has no words but stop words.",))
        await settle(connection, **self._settings())
        notes = (CUT,) if len(keywords) > READ else ()
        return recalled(await connection.execute(self._statement(texts, literal(keywords[:READ]), depth)), *notes)

    async def as_sql(self, target: SearchTarget, parameters: QueryParameters, depth: int) -> LegSql:
        """The threshold is said beside the setting: another leg of the statement may have need of a lower one."""
        words = keywords_of(target.language, parameters.text).cte("keywords").prefix_with("MATERIALIZED")
        texts, keywords = target.column("text"), select(func.left(words.c.keywords, READ)).scalar_subquery()
        alike = getattr(func, self.function)(keywords, texts.value) >= literal(self.threshold)
        statement = self._statement(texts, keywords, depth).where(alike)
        return LegSql(statement, settings=self._settings(), single=True, indexes=("_text_gin",))

    def _settings(self) -> dict[str, object]:
        return {f"pg_trgm__{self.function}_threshold": self.threshold}

    def _statement(self, texts: SearchColumn, keywords: ColumnElement[Any], depth: int) -> Select[Any]:
        score = getattr(func, self.function)(keywords, texts.value).label("score")
        return (
            select(texts.id.label("id"), score)
            .where(keywords.op(OPERATORS[self.function])(texts.value), texts.where)
            .order_by(score.desc(), texts.id)
            .limit(depth)
        )
