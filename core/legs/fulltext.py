"""The full-text leg: PostgreSQL's `ts_rank` over lexemes, with the bound that lets it rank few documents."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Annotated, Any, ClassVar, Final, Literal
from typing import cast as cast_to

import psycopg
from pydantic import Field
from sqlalchemy import (
    CTE,
    BindParameter,
    Cast,
    ColumnElement,
    Double,
    FromClause,
    Integer,
    Select,
    Table,
    Text,
    and_,
    cast,
    func,
    literal,
    select,
    true,
)
from sqlalchemy.dialects.postgresql import ARRAY, REAL, REGCONFIG, TSQUERY
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.sql.elements import Grouping

from core.errors import InputError, MissingCapability, RankbookError, SpecError
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
from core.legs.bm25 import Bm25Leg
from core.legs.bm25_sql import BY_LENGTH, BY_LOGARITHM, TOLD_BY_POSTINGS, best_keys, table_of
from core.legs.query_terms import any_word, lexemes_of
from core.store.indexes import TITLES, titled
from core.store.names import quoted
from core.store.schema import ChunkSet
from core.store.search_target import Postings, SearchColumn, SearchTarget

# -- what ts_rank can come to ----------------------------------------------------------------------------------------

# ts_rank of words joined by OR adds, for each word in the unit, its label's weight x (1 + 1/4 + 1/9 ...), a term for
# each of its repeats (calc_rank_or in PostgreSQL's tsrank.c). A tsvector keeps at most 256 of a word's places.
REPEATS = tuple(accumulate(1 / place**2 for place in range(1, 257)))
ROUNDING = 1 - 1e-4  # ts_rank adds in single precision


@dataclass(frozen=True, slots=True)
class FulltextBound:
    """The words to look for, and how much more than its postings tell a unit scores with one of them in its title."""

    terms: Sequence[int]
    normalization: int
    titles_count: float  # how many times as much as the text
    depth: int


def contenders(postings: Postings, bound: FulltextBound, titled: CTE) -> CTE:
    """item_key and key of all units that can be among the first by ts_rank, and of few others.

    Postings do not say whether a word stands in the title, which counts more. Taken for the text's, they tell what a
    unit scores at least; that of the `depth`-th best is the bar. A unit below it comes in where a title's word, one of
    `titled`, could lift it over the bar.
    """
    # What ts_rank would be, but for a factor that all units share, if every word were the text's.
    posting = postings.postings
    repeats: Any = Grouping(literal(list(REPEATS), ARRAY(Double)))  # PostgreSQL takes no subscript after a cast
    gained = repeats[func.least(posting.c.frequency, len(REPEATS), type_=Integer)]
    if bound.normalization & BY_LOGARITHM:
        gained = gained / func.ln(cast(posting.c.length + 1, Double), type_=Double)
    if bound.normalization & BY_LENGTH:
        gained = gained / posting.c.length
    wanted = table_of("wanted", term=literal(list(bound.terms), ARRAY(Integer)))
    unit = (posting.c.item_key, posting.c.key)
    shares = (
        select(*unit, func.sum(gained, type_=Double).label("share"))
        .select_from(posting.join(wanted, posting.c.term_key == wanted.c.term))
        .where(postings.where)
        .group_by(*unit)
        .cte("shares")
        .prefix_with("MATERIALIZED")
    )
    last = select(shares.c.share).order_by(shares.c.share.desc()).offset(bound.depth - 1).limit(1)
    bar = func.coalesce(last.scalar_subquery(), literal(0.0, Double), type_=Double) * ROUNDING
    lifted = (shares.c.share * bound.titles_count >= bar) & shares.c.key.in_(select(titled.c.key))
    able = select(shares.c.item_key, shares.c.key).where((shares.c.share >= bar) | lifted)
    return able.cte("contenders").prefix_with("MATERIALIZED")


LAST_PART: Final = "[^ \t\n\r]+\\Z"  # of a word that is cut; for Python and for PostgreSQL alike
PARSERS: Final = {
    "web": func.websearch_to_tsquery,
    "plain": func.plainto_tsquery,
    "phrase": func.phraseto_tsquery,
    "strict": func.to_tsquery,
}
# What PostgreSQL says of a text that names no configuration: of an unknown one, of one in no schema, of too many dots.
NO_CONFIGURATION: Final = (
    psycopg.errors.UndefinedObject,
    psycopg.errors.InvalidName,
    psycopg.errors.InvalidSchemaName,
    psycopg.errors.FeatureNotSupported,
    psycopg.errors.SyntaxError,
)
Share = Annotated[float, Field(ge=0, le=1)]
READ: Final = 1_000  # characters by cover density, some 120 words: four times that take a minute on 2,000 texts
CUT: Final = (
    f"Of the query the first {READ:,} characters, in whole words, were read, as ts_rank_cd takes long over more."
)
MANY = 3_000  # postings of the query's words; fewer units are ranked sooner than they are chosen from


@legs.register("fulltext")
class FulltextLeg(Leg):
    """Units that hold the query's words: `any` one of them, the other modes all, which few texts do of a question."""

    about = LegDescription(
        label="Full text",
        slot=1,
        finds="Passages that hold the query's words, in any inflection.",
        strength="Good with exact terms. Blind to synonyms and typing errors, and a common word counts as much as a "
        "rare one.",
        nothing="No passage holds any of the query's words.",
        phrase="by its words",
        unmatched="it does not hold the words of the query that are asked for",
        changes={
            "mode": "any one of the query's words enough",
            "min_rank": "less asked of what is found {how}",
        },
        visitor_word="words",
        visitor_reason="holds",
        opening=LegOpening("min_rank", None, {"pool": None}, {"mode": ("any",)}),
    )

    uses_model: ClassVar[bool] = False
    reads_words: ClassVar[bool] = True

    mode: Literal["any", "web", "plain", "phrase", "strict"] = Field("any", description="How the query's text is read.")
    config: str | None = Field(
        None,
        min_length=1,
        pattern=r"^[^\x00]+$",
        description="The text-search configuration of the query; by default the collection's own.",
    )
    rank: Literal["ts_rank", "ts_rank_cd"] = Field("ts_rank", description="PostgreSQL's ranking function.")
    normalization: int = Field(1, ge=0, le=63, description="Its flags; 1 divides by the logarithm of the length.")
    weights: tuple[Share, Share, Share, Share] = Field(
        (0.1, 0.1, 0.2, 0.2),
        description="What a word counts by its label, D C B A: texts are D, titles A. PostgreSQL's own are 0.1 0.2 0.4 "
        "1, at which a title drowns its text.",
    )
    min_rank: float | None = Field(None, ge=0, description="Drop what ranks lower.")
    unaccent: bool = Field(
        False,
        description="Look for the query's words without their accents too. Accents in the texts stay, unless the "
        "collection's own configuration takes them off.",
    )
    pool: int | None = Field(
        None,
        ge=1,
        le=100_000,
        description="In the mode any, rank only this many units, the best by BM25: quick on large collections, and not "
        "quite the same ranking. By default every match is ranked.",
    )

    @property
    def bounds(self) -> tuple[float, float] | None:
        """ts_rank is a mean over the query's words of at most 1 each; ts_rank_cd adds up without end."""
        return (0.0, 1.0 if self.rank == "ts_rank" else math.inf)

    @property
    def deepens(self) -> bool:
        """A pool grows with a depth beyond it, and what comes in may rank above what was there."""
        return self.pool is None or self.mode != "any"

    async def recall(
        self, connection: AsyncConnection, target: SearchTarget, query: PreparedQuery, depth: int
    ) -> Candidates:
        if self.unaccent and "unaccent" in target.missing:
            raise MissingCapability(target.missing["unaccent"])
        lexemes = target.column("lexemes")
        whole = query.text if self.mode == "any" else query.original
        text = re.sub(LAST_PART, "", f"{whole} "[: READ + 1]) if self._is_slow and len(whole) > READ else whole
        notes = [CUT] if text != whole else []
        found = Candidates()
        try:
            pool: FromClause | None = None
            if self.pool is not None and self.mode == "any":
                # The best by BM25, which is cheaper: it reads a few numbers a match, and no tsvector.
                bm25 = Bm25Leg()
                terms, known = await bm25.terms(connection, target, text, self.config)
                average, most = known.average, max(self.pool, depth)
                pool = best_keys(target.postings, terms, bm25.saturation, average, most)
                notes.append(f"Only the {self.pool:,} units best by BM25 were ranked.")
            wanted = await self._wanted(connection, target, text)
            if wanted is not None:
                if pool is None:
                    pool = await self._contenders(connection, target, text, wanted, depth)
                found = recalled(await connection.execute(self._statement(target, lexemes, wanted, depth, pool)))
        except DBAPIError as error:
            raise self._refused(text, error) from error
        kept = found.candidates
        if self.min_rank is not None:
            kept = tuple(each for each in kept if each.score >= self.min_rank)
            if dropped := len(found) - len(kept):
                notes.append(f"{dropped} ranked lower than {self.min_rank:g} and were dropped.")
        return Candidates(kept, (*found.notes, *notes))

    async def as_sql(self, target: SearchTarget, parameters: QueryParameters, depth: int) -> LegSql:
        if self.unaccent and "unaccent" in target.missing:
            raise MissingCapability(target.missing["unaccent"])
        text: ColumnElement[str] = parameters.text
        if self._is_slow:  # the same cut; a blank at the end changes nothing of what is read
            beginning = func.left(text.op("||", return_type=Text())(" "), READ + 1, type_=Text)
            text = func.regexp_replace(beginning, LAST_PART, "", type_=Text)
        pool = None
        if self.pool is not None and self.mode == "any":
            pool = Bm25Leg().best_for(target, text, max(self.pool, depth), self.config)
        lexemes = target.column("lexemes")
        wanted = self._tsquery(self.config or target.language, text)
        statement = self._statement(target, lexemes, wanted, depth, pool)
        indexes = ("_tsv_gin",) if pool is None else ("_term_key", f"{_name(lexemes)}_item_key_key")
        notes = (CUT.replace("were read", "are read"),) if self._is_slow else ()
        return LegSql(statement, least=self.min_rank, single=True, indexes=indexes, notes=notes)

    @property
    def _is_slow(self) -> bool:
        """Cover density looks at all of a query for each place in a text. A strict query cannot be cut."""
        return self.rank == "ts_rank_cd" and self.mode != "strict"

    def _statement(
        self,
        target: SearchTarget,
        lexemes: SearchColumn,
        wanted: ColumnElement[Any],
        depth: int,
        pool: FromClause | None,
    ) -> Select[str, float]:
        """`wanted` is the tsquery: one that is made already is bound, and any other is made once for all rows."""
        source: FromClause = lexemes.relation
        if not _is_bound(wanted):
            query = select(wanted.label("wanted"))
            if "citus" in target.extensions:  # its workers cannot read an empty tsquery that it sends them as a row
                query = query.where(func.numnode(wanted) > 0)
            made = query.cte("query").prefix_with("MATERIALIZED")
            source, wanted = source.join(made, true()), made.c.wanted
        weights = literal(list(self.weights), ARRAY(REAL))
        score = getattr(func, self.rank)(weights, lexemes.value, wanted, self.normalization).label("score")
        matches: ColumnElement[bool] = lexemes.value.op("@@")(wanted)
        if pool is not None:
            unit = lexemes.relation.c
            source = source.join(pool, and_(unit.item_key == pool.c.item_key, unit.key == pool.c.key))
            matches = true()  # each has one of the words; said again, it would be looked up among all that have one
        matching = select(lexemes.id.label("id"), score).select_from(source).where(matches, lexemes.where)
        return matching.order_by(score.desc(), lexemes.id).limit(depth)

    def _tsquery(self, language: str, text: ColumnElement[str]) -> ColumnElement[Any]:
        configuration = cast(literal(language), REGCONFIG)

        def parsed(text: ColumnElement[str]) -> ColumnElement[Any]:
            if self.mode == "any":
                return any_word(configuration, text)
            tsquery: ColumnElement[Any] = PARSERS[self.mode](configuration, text, type_=TSQUERY)
            return tsquery

        as_typed = parsed(text)
        if not self.unaccent:
            return as_typed
        bare = parsed(func.unaccent(text))
        # An empty half, of stop words alone, is NULL in the mode any; the other half still counts.
        return func.coalesce(as_typed.op("||", return_type=TSQUERY())(bare), as_typed, bare)

    async def _wanted(self, connection: AsyncConnection, target: SearchTarget, text: str) -> ColumnElement[Any] | None:
        """The tsquery, or None of a query without words.

        What a statement makes for itself, Citus sends to all workers before it asks them. So there it is made first,
        and bound.
        """
        made = self._tsquery(self.config or target.language, literal(text))
        if "citus" not in target.extensions:
            return made
        written = await connection.scalar(select(cast(made, Text)))
        return cast(literal(written, Text), TSQUERY) if written else None

    async def _contenders(
        self, connection: AsyncConnection, target: SearchTarget, text: str, wanted: ColumnElement[Any], depth: int
    ) -> FromClause | None:
        """The units that can be among the first, where many match: to rank these alone changes nothing but the time.

        None where a word's places and a unit's length do not say what it can score at most, where postings are not
        complete, and where few match.
        """
        text_counts, _, _, title_counts = self.weights
        bounded = self.mode == "any" and self.rank == "ts_rank" and not self.unaccent
        bounded = bounded and not self.normalization & ~TOLD_BY_POSTINGS and 0 < text_counts <= title_counts
        postings = target.lexicon
        if not bounded or postings is None:
            return None
        lexemes = target.column("lexemes")
        entry, terms = lexemes_of(self.config or target.language, text), postings.terms
        lagging = select(ChunkSet.last_key - ChunkSet.posted_to).where(ChunkSet.key == postings.chunk_set)
        index = quoted(target.namespace or "", f"{_name(lexemes)}_{TITLES}")
        statement = select(
            func.array_agg(terms.c.key).label("terms"),
            func.sum(terms.c.documents).label("documents"),
            lagging.scalar_subquery().label("behind"),
            func.to_regclass(literal(index)).is_not(None).label("indexed"),
        ).join_from(entry, terms, terms.c.lexeme == entry.c.lexeme)
        known = (await connection.execute(statement)).one()
        if known.behind or not known.indexed or (known.documents or 0) < MANY:
            return None
        bound = FulltextBound(known.terms, self.normalization, title_counts / text_counts, depth)
        tsquery = wanted if _is_bound(wanted) else select(wanted).scalar_subquery()
        with_title = select(lexemes.relation.c.key).where(titled(lexemes.value).op("@@")(tsquery))
        return contenders(postings, bound, with_title.cte("titled").prefix_with("MATERIALIZED"))

    def _refused(self, text: str, error: DBAPIError) -> RankbookError | DBAPIError:
        if self.mode == "strict" and isinstance(error.orig, psycopg.errors.SyntaxError):
            return InputError(
                f"The query {text!r} is not in the syntax of to_tsquery, such as cat & (dog | mouse). "
                "Mend it, or use the mode web, which takes any text."
            )
        if isinstance(error.orig, NO_CONFIGURATION) and self.config is not None:
            return SpecError(
                f"The server has no text-search configuration {self.config!r}. Its names are in pg_ts_config: english, "
                "german, simple and so on."
            )
        return error


def _name(lexemes: SearchColumn) -> str:
    """The table's, where it is one of ours: only these have postings."""
    return cast_to("Table", lexemes.relation).name


def _is_bound(wanted: ColumnElement[Any]) -> bool:
    """Whether this is a tsquery that is there already, as a parameter."""
    return isinstance(wanted, Cast) and isinstance(wanted.clause, BindParameter)
