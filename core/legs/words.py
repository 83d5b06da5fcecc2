"""A query's words as the spelling legs compare them: in lower case, without those that the language drops."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, cast, column, func, literal, select
from sqlalchemy.dialects.postgresql import REGCONFIG
from sqlalchemy.ext.asyncio import AsyncConnection


@dataclass(frozen=True, slots=True)
class Word:
    """A word as it was typed, what the dictionary makes of it, and how often it stands in the query."""

    text: str
    lexemes: tuple[str, ...]
    repeats: int


async def words_of(connection: AsyncConnection, language: str, text: str) -> list[Word]:
    """Each word once, in alphabetical order."""
    rows = await connection.execute(words_asked(language, text))
    return [Word(text, tuple(dict.fromkeys(lexemes)), repeats) for text, lexemes, repeats in rows]


def words_asked(language: str, text: str | ColumnElement[str]) -> Any:
    """The statement for them: `word`, `lexemes` and `repeats`."""
    parsed = _parsed(language, text)
    word = func.lower(parsed.c.token).collate("C").label("word")
    asked = select(word, parsed.c.lexemes, func.count().label("repeats")).where(_meaningful(parsed))
    return asked.group_by(word, parsed.c.lexemes).order_by(word, parsed.c.lexemes)


def keywords_of(language: str, text: str | ColumnElement[str]) -> Any:
    """Those words in the order of the query, as one text."""
    parsed = _parsed(language, text)
    keywords = func.string_agg(func.lower(parsed.c.token), " ").label("keywords")
    return select(keywords).select_from(parsed).where(_meaningful(parsed))


def _parsed(language: str, text: str | ColumnElement[str]) -> Any:
    return func.ts_debug(cast(literal(language), REGCONFIG), text).table_valued(column("token"), column("lexemes"))


def _meaningful(parsed: Any) -> Any:
    return func.cardinality(parsed.c.lexemes) > 0
