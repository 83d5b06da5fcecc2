"""Full-text lexemes, BM25's postings and the vocabulary, filled in SQL from the texts that are new.

Each pass works in ranges of keys and commits its watermark with its rows, so that a killed build continues.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any, cast

import psycopg
from sqlalchemy import Table, select, text, update
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from core.progress import Listener, Step, nobody
from core.store import locks
from core.store.collections import CollectionView
from core.store.engine import Store
from core.store.names import written
from core.store.schema import ITEM_TABLE, ChunkSet, chunk_table, lexeme_table, posting_table, term_table

SURELY_FITS = 250_000  # bytes whose tsvector stays below PostgreSQL's limit of 1 MB: hyphens and URLs treble a text
PIECE = 50_000  # characters of a text beyond that which are read at a time
WORK_MEMORY = "256MB"

# A chunk is searched with its item's title, as it is embedded with it.
CHUNK_UNITS = """
    SELECT chunk.item_key, chunk.key, chunk.id, item.title, chunk.text
    FROM {chunks} AS chunk
    JOIN {items} AS item ON item.key = chunk.item_key
    WHERE chunk.level <> 'parent'
"""
ITEM_UNITS = "SELECT key AS item_key, key, id, title, text FROM {items}"
OF_RANGE = "key > :after AND key <= :upto"
# The document length of BM25 is the number of lexemes, repeats included, as far as a tsvector counts them: every lexeme
# beyond position 16,383 is put there, and no more than 256 positions of one are kept (255 where it is made at once).
# Frequencies and lengths of such a text are too low; `capped` says so.
MEASURED = """(
    SELECT coalesce(sum(cardinality(positions)), 0) AS length,
           coalesce(bool_or(cardinality(positions) >= 255 OR positions[cardinality(positions)] >= 16383), false)
               AS capped
    FROM unnest(tsv)
)"""
CUT_OFF, CAPPED = 1, 2  # values of `cut`

LEX = f"""
INSERT INTO {{lexemes}} (item_key, key, id, tsv, length, cut)
SELECT item_key, key, id, tsv, measured.length, CASE WHEN measured.capped THEN {CAPPED} ELSE 0 END
FROM (
    SELECT item_key, key, id,
           setweight(to_tsvector(CAST(:language AS regconfig), title), 'A')
           || to_tsvector(CAST(:language AS regconfig), text) AS tsv
    FROM ({{units}}) AS unit
    WHERE {OF_RANGE} AND octet_length(title) + octet_length(text) <= {SURELY_FITS}
) AS made, LATERAL {MEASURED} AS measured
"""
HUGE = f"""
SELECT * FROM ({{units}}) AS unit WHERE {OF_RANGE} AND octet_length(title) + octet_length(text) > {SURELY_FITS}
"""
JOIN_PIECE = """
SELECT CAST(
    CAST(:tsv AS tsvector) || setweight(to_tsvector(CAST(:language AS regconfig), :piece), CAST(:weight AS "char"))
    AS text)
"""
KEEP_HUGE = f"""
INSERT INTO {{lexemes}} (item_key, key, id, tsv, length, cut)
SELECT :item_key, :key, :id, tsv, measured.length,
       CASE WHEN :cut_off THEN {CUT_OFF} WHEN measured.capped THEN {CAPPED} ELSE 0 END
FROM (SELECT CAST(:tsv AS tsvector) AS tsv) AS made, LATERAL {MEASURED} AS measured
"""

MEET_TERMS = """
INSERT INTO {terms} AS term (key, lexeme, documents)
WITH met AS MATERIALIZED (
    SELECT lexeme, count(*) AS documents
    FROM {lexemes}, unnest(tsv) AS entry
    WHERE key > :after AND key <= :upto
    GROUP BY lexeme
)
SELECT newest.key + row_number() OVER (ORDER BY met.lexeme), met.lexeme, met.documents
FROM met, (SELECT coalesce(max(key), 0) AS key FROM {terms}) AS newest
ON CONFLICT (lexeme) DO UPDATE SET documents = term.documents + excluded.documents
"""
POST = """
INSERT INTO {postings} (term_key, item_key, key, length, frequency)
SELECT term.key, found.item_key, found.key, found.length, cardinality(entry.positions)
FROM {lexemes} AS found, unnest(found.tsv) AS entry, {terms} AS term
WHERE found.key > :after AND found.key <= :upto AND term.lexeme = entry.lexeme
ORDER BY term.key, found.key
"""
MEASURE = """
SELECT count(*) AS units, coalesce(sum(length), 0) AS length FROM {lexemes} WHERE key > :after AND key <= :upto
"""
COUNT = "UPDATE {chunk_sets} SET units = units + :units, length = length + :length WHERE key = :chunk_set"
FORGET_TERMS = "DELETE FROM {terms} WHERE documents <= 0"


def tables_of(chunk_set: int) -> dict[str, Table]:
    """The tables of one chunk set's texts, by their names in the SQL templates."""
    return {
        "lexemes": lexeme_table(chunk_set),
        "terms": term_table(chunk_set),
        "postings": posting_table(chunk_set),
        "chunks": chunk_table(chunk_set),
        "items": ITEM_TABLE,
        "chunk_sets": cast("Table", ChunkSet.__table__),
    }


def units_of(chunk_set: int) -> str:
    """SQL for the units of search of a chunk set, to be put in parentheses."""
    return CHUNK_UNITS if chunk_set else ITEM_UNITS


@dataclass(frozen=True, slots=True)
class KeyRange:
    """Units of one chunk set by their keys, and the tables they concern."""

    view: CollectionView
    chunk_set: int
    after: int
    upto: int

    async def execute(self, connection: AsyncConnection, template: str, **more: Any) -> Any:
        template = template.replace("{units}", units_of(self.chunk_set))
        statement = written(template, self.view.namespace, **tables_of(self.chunk_set))
        values = {"after": self.after, "upto": self.upto, "language": self.view.row.language, **more}
        return await connection.execute(statement, values)


@dataclass(frozen=True, slots=True)
class IndexPass:
    """One pass over the units: what it does to a range, and the watermark that says how far it has come."""

    name: str
    watermark: str
    units_a_range: int
    work: Callable[[AsyncConnection, KeyRange], Awaitable[None]]


async def fill_lexemes(connection: AsyncConnection, part: KeyRange) -> None:
    """The lexemes, which full-text search reads."""
    await part.execute(connection, LEX)
    for unit in await part.execute(connection, HUGE):
        await _lex_huge(connection, part, unit)


async def _lex_huge(connection: AsyncConnection, part: KeyRange, unit: Any) -> None:
    """A text beyond a tsvector's limit: as many of its pieces as fit, and a flag that says so."""
    tsv, cut_off = "", False
    for weight, piece in (*_pieces("A", unit.title), *_pieces("D", unit.text)):
        try:
            async with connection.begin_nested():
                joined = await part.execute(connection, JOIN_PIECE, tsv=tsv, piece=piece, weight=weight)
                tsv = joined.scalar_one()
        except DBAPIError as error:
            if not isinstance(error.orig, psycopg.errors.ProgramLimitExceeded):
                raise
            cut_off = True
            break
    named = {"item_key": unit.item_key, "key": unit.key, "id": unit.id}
    await part.execute(connection, KEEP_HUGE, **named, tsv=tsv, cut_off=cut_off)


def _pieces(weight: str, words: str) -> Iterator[tuple[str, str]]:
    return ((weight, words[at : at + PIECE]) for at in range(0, len(words), PIECE))


async def fill_postings(connection: AsyncConnection, part: KeyRange) -> None:
    """The vocabulary and the postings, which BM25 and fuzzy search read."""
    await part.execute(connection, MEET_TERMS)
    await part.execute(connection, POST)
    more = (await part.execute(connection, MEASURE)).one()
    await part.execute(connection, COUNT, chunk_set=part.chunk_set, units=more.units, length=more.length)


PASSES = (
    IndexPass("Full-text lexemes", "lexed_to", 20_000, fill_lexemes),
    # Postings are sorted by term within a range: the larger the ranges, the fewer places a term is read from.
    IndexPass("BM25 postings and vocabulary", "posted_to", 200_000, fill_postings),
)


async def update_texts(store: Store, view: CollectionView, listener: Listener = nobody) -> None:
    """Every pass over every chunk set, up to its newest unit; then words that no text holds any more are forgotten."""
    for chunk_set in view.chunk_sets:
        for each in PASSES:
            begun = getattr(chunk_set, each.watermark)
            reached = select(getattr(ChunkSet, each.watermark)).where(ChunkSet.key == chunk_set.key)
            for part in _ranges(view, chunk_set, each, begun):
                async with store.begin(view.namespace, fresh=True) as connection:
                    await locks.check_watermark(connection, view.name, reached, [(part.after,)])
                    await _fill_range(connection, part, each)
                listener(Step(f"{each.name} of {chunk_set.name}", part.upto - begun, chunk_set.last_key - begun))
        async with store.begin(view.namespace, fresh=True) as connection:
            await KeyRange(view, chunk_set.key, 0, 0).execute(connection, FORGET_TERMS)


async def fill(connection: AsyncConnection, view: CollectionView, listener: Listener = nobody) -> None:
    """The same within the caller's transaction, for a collection that nobody else sees yet."""
    for chunk_set in view.chunk_sets:
        for each in PASSES:
            for part in _ranges(view, chunk_set, each, 0):
                await _fill_range(connection, part, each)
                listener(Step(f"{each.name} of {chunk_set.name}", part.upto, chunk_set.last_key))
        await KeyRange(view, chunk_set.key, 0, 0).execute(connection, FORGET_TERMS)


def _ranges(view: CollectionView, chunk_set: ChunkSet, each: IndexPass, after: int) -> Iterator[KeyRange]:
    for at in range(after, chunk_set.last_key, each.units_a_range):
        yield KeyRange(view, chunk_set.key, at, min(at + each.units_a_range, chunk_set.last_key))


async def _fill_range(connection: AsyncConnection, part: KeyRange, each: IndexPass) -> None:
    """One range of a pass, with the watermark that says that it is done."""
    await connection.execute(text(f"SET LOCAL work_mem = '{WORK_MEMORY}'"))
    await each.work(connection, part)
    mark = update(ChunkSet).where(ChunkSet.key == part.chunk_set).values({each.watermark: part.upto})
    await connection.execute(mark)
