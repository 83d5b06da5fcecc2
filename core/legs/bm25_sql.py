"""Okapi BM25 over postings, in plain SQL: the weights of terms, and the statement that ranks units by them.

BM25 is Robertson & Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond", 2009, in the form of Lucene
(Kamphuis et al., "Which BM25 Do You Mean?", ECIR 2020), whose IDF is never negative, and which leaves out the factor
k1 + 1 that all scores share:

    score(d) = sum over t of idf(t) * tf / (tf + k1 * (1 - b + b * |d| / avgdl))
    idf(t) = ln(1 + (N - n + 0.5) / (n + 0.5))

Every contribution is rounded to a multiple of 2^-30. Sums of such numbers are exact in double precision (to 2^23, which
no query reaches), so a score does not depend on the order in which a plan happens to add: equal units tie exactly.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from typing import cast as cast_to

from sqlalchemy import (
    CTE,
    BigInteger,
    BindParameter,
    ColumnElement,
    Double,
    FromClause,
    Integer,
    Row,
    Select,
    bindparam,
    cast,
    column,
    func,
    literal,
    select,
)
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.ext.asyncio import AsyncConnection

from core.legs.base import Candidates, recalled
from core.store.schema import ChunkSet
from core.store.search_target import Postings

UNIT = 2.0**30  # how many of the smallest step make a score of one
AVERAGE: BindParameter[float] = bindparam("average", type_=Double)


@dataclass(frozen=True, slots=True)
class Statistics:
    """What BM25 must know of a chunk set: how many units, how long together, how many not yet counted."""

    units: int
    length: int
    behind: int

    @property
    def average(self) -> float:
        return self.length / self.units if self.units and self.length else 1.0

    def idf(self, documents: int) -> float:
        # A count may lag behind while somebody loads: never more documents than there are.
        units = max(self.units, documents)
        return math.log(1 + (units - documents + 0.5) / (documents + 0.5))

    @property
    def notes(self) -> tuple[str, ...]:
        if not self.behind:
            return ()
        return (f"{self.behind:,} units are not in the postings yet, so they cannot be found. Complete the loading.",)


@dataclass(frozen=True, slots=True)
class TermWeight:
    """A term to look for, and what a unit full of it would score. Of the terms of one `word` the best counts."""

    word: int
    term: int
    weight: float


@dataclass(frozen=True, slots=True)
class Saturation:
    """How a unit's score grows with a term's repeats (k1), and how its length is held against it (b)."""

    k1: float
    b: float


Terms = Sequence[TermWeight] | FromClause  # a table of `word`, `term` and `weight` x UNIT, where the query is to come
Average = float | ColumnElement[float]


def counts(postings: Postings) -> Select[int, int, int]:
    """The statement for a chunk set's `Statistics`."""
    behind = (ChunkSet.last_key - ChunkSet.posted_to).label("behind")
    return select(ChunkSet.units, ChunkSet.length, behind).where(ChunkSet.key == postings.chunk_set)


def inverse_frequency(counted: CTE, documents: ColumnElement[int]) -> ColumnElement[float]:
    """`Statistics.idf` in SQL."""
    units = func.greatest(select(counted.c.units).scalar_subquery(), documents, type_=BigInteger)
    without = cast(units - documents, Double) + literal(0.5, Double)
    found: ColumnElement[float] = func.ln(
        literal(1.0, Double) + without / (cast(documents, Double) + 0.5), type_=Double
    )
    return found


def average_length(counted: CTE) -> ColumnElement[float]:
    """`Statistics.average` in SQL."""
    return select(counted.c.average).scalar_subquery()


def counted_in(postings: Postings) -> CTE:
    """`Statistics` in SQL: `units` and `average`."""
    units, length = (
        func.nullif(cast(each, Double), literal(0.0, Double), type_=Double)
        for each in (ChunkSet.units, ChunkSet.length)
    )
    average = func.coalesce(length / units, literal(1.0, Double), type_=Double).label("average")
    counted = select(ChunkSet.units, average).where(ChunkSet.key == postings.chunk_set)
    return counted.cte("known").prefix_with("MATERIALIZED")


async def ranked(
    connection: AsyncConnection,
    postings: Postings,
    terms: Sequence[TermWeight],
    saturation: Saturation,
    known: Statistics,
    depth: int,
) -> Candidates:
    """The best units by these terms; ties by id."""
    if not terms:
        return Candidates(notes=known.notes)
    single = len({each.word for each in terms}) == len(terms)
    wanted = table_of(
        "wanted",
        word=bindparam("words", type_=ARRAY(Integer)),
        term=bindparam("terms", type_=ARRAY(Integer)),
        weight=bindparam("weights", type_=ARRAY(Double)),
    )
    values = {
        "words": [each.word for each in terms],
        "terms": [each.term for each in terms],
        "weights": [each.weight * UNIT for each in terms],
        "average": known.average,
    }

    async def rows(fetched: int, *, ties: bool) -> Sequence[Row[Any]]:
        statement = postings.made.once(
            ("ranked", single, saturation, fetched, ties),
            lambda: ranking(postings, wanted, saturation, AVERAGE, fetched, single=single, ties=ties),
        )
        found: Sequence[Row[Any]] = (await connection.execute(statement, values)).all()
        return found

    if postings.distributed:  # what finds all ties takes a cluster twice as long, and the cut seldom parts some
        found = await rows(depth + 1, ties=False)
        if len(found) <= depth or found[depth - 1].score > found[depth].score:
            return recalled(found[:depth], *known.notes)
    return recalled(await rows(depth, ties=True), *known.notes)


def ranking(
    postings: Postings,
    terms: Terms,
    saturation: Saturation,
    average: Average,
    depth: int,
    *,
    single: bool = False,
    ties: bool = True,
) -> Select[Any]:
    """Keys are ranked first, and only the best, with all that tie with the last of them, are joined to their ids."""
    best = best_keys(postings, terms, saturation, average, depth, single=single, ties=ties)
    names = postings.names
    same = names.c.key == best.c.key
    if postings.chunk_set:  # an item's own key is both
        same = same & (names.c.item_key == best.c.item_key)
    return (
        select(names.c.id.label("id"), (best.c.total / UNIT).label("score"))
        .join_from(best, names, same)
        .order_by(best.c.total.desc(), names.c.id)
        .limit(depth)
    )


def best_keys(
    postings: Postings,
    terms: Terms,
    saturation: Saturation,
    average: Average,
    depth: int,
    *,
    single: bool = False,
    ties: bool = True,
) -> CTE:
    """item_key, key and total of the best units, and of all that tie with the last of them, unless `ties` may be cut.

    `single` says of terms that are a table that no word has two of them; of others it is seen.
    """
    totals = _totals(postings, terms, saturation, average, single)
    best_first = totals.order_by(column("total").desc())
    if not ties:
        best = best_first.limit(depth)
    elif postings.distributed:
        # All whose total is at least the lowest of the best: Citus sends its workers a LIMIT without its ties.
        first = best_first.limit(depth).subquery("first")
        lowest = select(func.min(first.c.total).label("total")).cte("lowest").prefix_with("MATERIALIZED")
        total = cast_to("ColumnElement[float]", totals.selected_columns["total"]).element
        best = totals.having(total >= select(lowest.c.total).scalar_subquery())
    else:
        best = best_first.fetch(depth, with_ties=True)
    return best.cte("best").prefix_with("MATERIALIZED")


def _totals(postings: Postings, terms: Terms, saturation: Saturation, average: Average, single: bool) -> Select[Any]:
    posting = postings.postings
    if isinstance(terms, FromClause):
        wanted: Any = terms
    else:  # as arrays, whose length the planner sees: a statement has room for few single values
        single = len({each.word for each in terms}) == len(terms)
        wanted = table_of(
            "wanted",
            word=literal([each.word for each in terms], ARRAY(Integer)),
            term=literal([each.term for each in terms], ARRAY(Integer)),
            weight=literal([each.weight * UNIT for each in terms], ARRAY(Double)),
        )
    k1, b = saturation.k1, saturation.b
    if isinstance(average, ColumnElement):
        share: Any = literal(k1 * b, Double) / average
    else:
        share = literal(k1 * b / average, Double)
    length = literal(k1 * (1 - b), Double) + share * posting.c.length
    gained: Any = wanted.c.weight * posting.c.frequency / (posting.c.frequency + length)
    gained = func.round(gained, type_=Double)
    matching = posting.join(wanted, posting.c.term_key == wanted.c.term)
    unit = (posting.c.item_key, posting.c.key)
    if single:
        total = func.sum(gained).label("total")
        return select(*unit, total).select_from(matching).where(postings.where).group_by(*unit)
    by_word = (
        select(*unit, func.max(gained).label("gained"))
        .select_from(matching)
        .where(postings.where)
        .group_by(*unit, wanted.c.word)
        .subquery("by_word")
    )
    total = func.sum(by_word.c.gained).label("total")
    return select(by_word.c.item_key, by_word.c.key, total).group_by(by_word.c.item_key, by_word.c.key)


def table_of(name: str, **arrays: BindParameter[Any]) -> Any:
    """Arrays of one length, side by side as the columns of a table, and `place`.

    Numbered, because Citus would put a subquery in the place of what is not, and give all columns the first one's type.
    """
    columns = [column(each, cast_to("ARRAY[Any]", array.type).item_type) for each, array in arrays.items()]
    found = func.unnest(*arrays.values()).table_valued(*columns, name=name, with_ordinality="place")
    return found.render_derived()


BY_LOGARITHM, BY_LENGTH, TOLD_BY_POSTINGS = 1, 2, 1 | 2 | 4 | 32  # flags of normalisation; 4 and 32 change no order
