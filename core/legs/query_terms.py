"""A query as the server's text search parses it: its words, keywords and lexemes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, cast, column, func, literal, select
from sqlalchemy.dialects.postgresql import REGCONFIG, TSQUERY
from sqlalchemy.ext.asyncio import AsyncConnection


@dataclass(frozen=True, slots=True)
class Word:
    """A word as it was typed, what the dictionary makes of it, and how often it stands in the query."""

    text: str
    lexemes: tuple[str, ...]
    repeats: int


async def words_of(connection: AsyncConnection, language: str, text: str) -> list[Word]:
    """Each word once, in alphabetical order."""
    rows = await connection.execute(words_statement(language, text))
    return [Word(text, tuple(dict.fromkeys(lexemes)), repeats) for text, lexemes, repeats in rows]


def words_statement(language: str, text: str | ColumnElement[str]) -> Any:
    """The statement for them: `word`, `lexemes` and `repeats`."""
    parsed = _parsed(language, text)
    word = func.lower(parsed.c.token).collate("C").label("word")
    words = select(word, parsed.c.lexemes, func.count().label("repeats")).where(_meaningful(parsed))
    return words.group_by(word, parsed.c.lexemes).order_by(word, parsed.c.lexemes)


def keywords_of(language: str, text: str | ColumnElement[str]) -> Any:
    """Those words in the order of the query, as one text."""
    parsed = _parsed(language, text)
    keywords = func.string_agg(func.lower(parsed.c.token), " ").label("keywords")
    return select(keywords).select_from(parsed).where(_meaningful(parsed))


def _parsed(language: str, text: str | ColumnElement[str]) -> Any:
    return func.ts_debug(cast(literal(language), REGCONFIG), text).table_valued(column("token"), column("lexemes"))


def _meaningful(parsed: Any) -> Any:
    return func.cardinality(parsed.c.lexemes) > 0


def lexemes_of(language: str, text: str | ColumnElement[str]) -> Any:
    """The query's lexemes by the collection's own configuration, and how often each stands in it."""
    entry = func.unnest(func.to_tsvector(cast(literal(language), REGCONFIG), text))
    return entry.table_valued("lexeme", "positions", "weights", name="entry").render_derived()


def any_word(configuration: ColumnElement[Any], text: ColumnElement[str] | str) -> ColumnElement[Any]:
    """The query's lexemes joined by OR. Stop words alone leave NULL, which matches nothing."""
    entry = func.unnest(func.to_tsvector(configuration, text)).table_valued("lexeme", "positions", "weights")
    entry = entry.render_derived()
    escaped = func.replace(func.replace(entry.c.lexeme, "\\", "\\\\"), "'", "''")
    words = func.string_agg(func.concat("'", escaped, "'"), " | ")
    return cast(select(words).select_from(entry).scalar_subquery(), TSQUERY)
