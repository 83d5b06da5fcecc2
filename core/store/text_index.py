"""Full-text lexemes, BM25's postings and the vocabulary: filled in SQL from the texts, and only for what is new.

Each step works in ranges of keys and commits its watermark with its rows, so that a killed build goes on where it was.
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
from core.store.schema import ChunkSet, ItemRow, chunk_table, lexeme_table, posting_table, term_table

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
# The document length of BM25 is the number of lexemes, repeats included, as far as a tsvector tells them: it puts
# every lexeme beyond position 16,383 there, and keeps no more than 256 positions of one (255 where it is made at once).
# Frequencies and lengths of such a text are lower than it has them; `capped` says so.
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
    """The tables of one chunk set's texts, by the words that stand for them in SQL."""
    return {
        "lexemes": lexeme_table(chunk_set),
        "terms": term_table(chunk_set),
        "postings": posting_table(chunk_set),
        "chunks": chunk_table(chunk_set),
        "items": cast("Table", ItemRow.__table__),
        "chunk_sets": cast("Table", ChunkSet.__table__),
    }


def units_of(chunk_set: int) -> str:
    """SQL for what is searched for of a chunk set, to be put in parentheses."""
    return CHUNK_UNITS if chunk_set else ITEM_UNITS


@dataclass(frozen=True, slots=True)
class KeyRange:
    """Units of one chunk set by their keys, and the tables they concern."""

    view: CollectionView
    chunk_set: int
    after: int
    upto: int

    async def execute(self, connection: AsyncConnection, template: str, **values: Any) -> Any:
        template = template.replace("{units}", units_of(self.chunk_set))
        statement = written(template, self.view.namespace, **tables_of(self.chunk_set))
        given = {"after": self.after, "upto": self.upto, "language": self.view.row.language, **values}
        return await connection.execute(statement, given)


@dataclass(frozen=True, slots=True)
class IndexPass:
    """One way through the units: what it does to a range, and the watermark that says how far it is."""

    name: str
    watermark: str
    units_a_range: int
    work: Callable[[AsyncConnection, KeyRange], Awaitable[None]]


async def fill_lexemes(connection: AsyncConnection, part: KeyRange) -> None:
    """Fill in what full-text search reads."""
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
    """Fill in what BM25 and fuzzy matching read."""
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
            await _run(store, view, chunk_set, each, listener)
        async with store.begin(view.namespace, fresh=True) as connection:
            await KeyRange(view, chunk_set.key, 0, 0).execute(connection, FORGET_TERMS)


async def _run(store: Store, view: CollectionView, chunk_set: ChunkSet, each: IndexPass, listener: Listener) -> None:
    begun = done = getattr(chunk_set, each.watermark)
    while done < chunk_set.last_key:
        upto = min(done + each.units_a_range, chunk_set.last_key)
        async with store.begin(view.namespace, fresh=True) as connection:
            reached = select(getattr(ChunkSet, each.watermark)).where(ChunkSet.key == chunk_set.key)
            await locks.check_watermark(connection, view.name, reached, [(done,)])
            await connection.execute(text(f"SET LOCAL work_mem = '{WORK_MEMORY}'"))
            await each.work(connection, KeyRange(view, chunk_set.key, done, upto))
            mark = update(ChunkSet).where(ChunkSet.key == chunk_set.key).values({each.watermark: upto})
            await connection.execute(mark)
        done = upto
        listener(Step(f"{each.name} of {chunk_set.name}", done - begun, chunk_set.last_key - begun))
