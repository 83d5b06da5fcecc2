"""The vector leg: nearest neighbours of the query's embedding, by an index or by comparing with every vector.

Which of the two, where a filter leaves few rows, is decided here and not left to the planner: an HNSW scan that throws
most of what it meets away costs recall.
"""

from __future__ import annotations

from typing import Any, Literal

from pgvector.sqlalchemy import BIT
from pydantic import Field
from sqlalchemy import (
    BindParameter,
    Boolean,
    Select,
    bindparam,
    case,
    false,
    func,
    literal,
    not_,
    or_,
    select,
    type_coerce,
)
from sqlalchemy import cast as sql_cast
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.types import Float

from core.embedding import Vectors
from core.errors import MissingCapability
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
from core.store.engine import settle
from core.store.indexes import ordered_by_index
from core.store.search_target import SearchColumn, SearchTarget

OPERATORS = {"cosine": "<=>", "l2": "<->", "ip": "<#>"}
HAMMING = "<~>"
SMALLEST_EF_SEARCH, LARGEST_EF_SEARCH = 100, 1000  # pgvector takes no more
FEW = 20_000  # rows; comparing that many takes some 30 ms


@legs.register("vector")
class VectorLeg(Leg):
    """Units whose embedding is nearest to the query's. `exact` reads every vector instead of the HNSW index."""

    about = LegDescription(
        label="Vector",
        slot=0,
        finds="Passages that mean something alike, whatever the words.",
        strength="Good with questions and paraphrases. Weak with codes and names that its model has never met.",
        nothing="There are no embedded passages to compare with.",
        phrase="by its meaning",
        unmatched="it has no vector of the model to compare with",
        unmatched_plainly="nothing of it has been prepared for that",
        changes={"min_score": "less likeness asked of what is found {how}"},
        visitor_word="meaning",
        visitor_reason="means",
        opening=LegOpening("min_score", None, {"exact": True}),
    )

    distance: Literal["cosine", "l2", "ip"] = Field(
        "cosine", description="What orders the neighbours: cosine, Euclidean distance (l2), or inner product (ip)."
    )
    exact: bool = Field(False, description="Compare with every vector: slower, and the reference for the index.")
    ef_search: int | None = Field(
        None, ge=1, le=LARGEST_EF_SEARCH, description="How many neighbours the HNSW scan keeps in sight; 2 x depth."
    )
    oversample: int = Field(
        40, ge=1, le=100, description="With an index of bits: how many times the depth are compared by full vector."
    )
    min_score: float | None = Field(None, description="Drop what scores less: a cosine similarity, or minus the l2.")

    @property
    def bounds(self) -> tuple[float, float] | None:
        return (-1.0, 1.0) if self.distance == "cosine" else None

    @property
    def deepens(self) -> bool:
        """Not by the index: a deeper scan may find nearer ones, and where it finds too few, all are compared."""
        return self.exact

    async def prepare(self, target: SearchTarget, query: PreparedQuery) -> None:
        if target.model is not None and "vectors" in target.columns:
            await query.vector(target.model)

    async def recall(
        self, connection: AsyncConnection, target: SearchTarget, query: PreparedQuery, depth: int
    ) -> Candidates:
        vectors = target.column("vectors")
        if target.model is None:
            raise MissingCapability("Nothing says which model made these vectors, so the query cannot be embedded.")
        embedded = await query.vector(target.model)
        await settle(connection, **self._settings(target, depth))
        if self.exact:
            found = await self._compared(connection, vectors, embedded, depth)
        elif target.filter is not None and await _are_few(connection, vectors):
            why = "The filter leaves few units, so the query was compared with every one of them."
            found = await self._compared(connection, vectors, embedded, depth, why)
        else:
            found = await self._by_index(connection, target, embedded, depth)
        if self.min_score is None:
            return found
        kept = tuple(each for each in found if each.score >= self.min_score)
        dropped = len(found) - len(kept)
        notes = (f"{dropped} scored less than {self.min_score:g} and were dropped.",) if dropped else ()
        return Candidates(kept, (*found.notes, *notes))

    async def as_sql(self, target: SearchTarget, parameters: QueryParameters, depth: int) -> LegSql:
        """By the index; or by every vector where `exact` says so or a filter leaves few, as it is today."""
        vectors = target.column("vectors")
        if target.model is None:
            raise MissingCapability("Nothing says which model made these vectors, so the query cannot be embedded.")
        few = await _are_few(parameters.connection, vectors)
        on_one_server = "citus" not in target.extensions  # a cluster takes no LIMIT that the statement looks up
        every = self._nearest(vectors, self._distance(vectors.value, parameters.vector) + 0.0, depth)
        if self.exact or (few and target.filter is not None):
            why = "." if self.exact else ": the filter leaves few."
            note = f"It compares with every vector{why}"
            return LegSql(every, order="distance", least=self.min_score, notes=(note,))
        by_index, note = self._statement(target, vectors, parameters.vector, depth + 1), "It asks the index alone."
        if few and on_one_server:
            note = "Where units tie at the cut, or the index brings up too few, it compares with every vector."
        return LegSql(
            _or_every(by_index, every, depth) if few and on_one_server else by_index.limit(depth),
            order="distance",
            settings=self._settings(target, depth),
            least=self.min_score,
            indexes=("_hnsw",),
            notes=(note,),
        )

    async def measured_recall(
        self, connection: AsyncConnection, target: SearchTarget, query: PreparedQuery, depth: int = 10
    ) -> float:
        """The share of the true nearest that this leg retrieves."""
        truth = await self.model_copy(update={"exact": True}).recall(connection, target, query, depth)
        found = {each.id for each in await self.recall(connection, target, query, depth)}
        return sum(each.id in found for each in truth) / len(truth) if truth else 1.0

    async def _compared(
        self, connection: AsyncConnection, vectors: SearchColumn, embedded: Vectors, depth: int, *notes: str
    ) -> Candidates:
        """Every vector, truly: by an expression over the operator, which no index is ordered by."""
        distance = self._distance(vectors.value, embedded) + 0.0  # adding nothing changes no distance
        found = recalled(await connection.execute(self._nearest(vectors, distance, depth)), *notes)
        return _with_shortfall(found, depth, "there are no more")

    async def _by_index(
        self, connection: AsyncConnection, target: SearchTarget, embedded: Vectors, depth: int
    ) -> Candidates:
        """What the index brings up. Where that is too little, or cuts ties short: all there is."""
        vectors = target.column("vectors")
        if self.distance != "cosine" and not await ordered_by_index(
            connection, self._statement(target, vectors, embedded, depth + 1)
        ):
            why = f"No index is ordered by {self.distance}, so the query was compared with every vector."
            return await self._compared(connection, vectors, embedded, depth, why)
        # The vector is bound as what the index compares.
        by_index = vectors.indexed if self.distance == "cosine" and target.index != "bit" else None
        kind = (vectors.value if by_index is None else by_index).type
        parameter: BindParameter[Any] = bindparam("asked", type_=kind)
        statement = target.made.once(
            ("nearest", self.distance, self.oversample, depth),
            lambda: self._statement(target, vectors, parameter, depth + 1),
        )
        found = recalled((await connection.execute(statement, {"asked": embedded})).all()).candidates
        tied = len(found) > depth and found[depth].score == found[depth - 1].score
        if (tied or len(found) < depth) and await _are_few(connection, vectors):
            why = "Units tie at the cut" if tied else "The index brought up too few"
            every = await self._compared(connection, vectors, embedded, depth)
            notes = (f"{why}: compared with every vector.",) if tied or len(every) > len(found) else ()
            return Candidates(every.candidates, (*notes, *every.notes))
        notes = ("Units tie at the cut; the index may not have met the first of them by id.",) if tied else ()
        return _with_shortfall(Candidates(found[:depth], notes), depth, "the index brought up no more")

    def _statement(
        self, target: SearchTarget, vectors: SearchColumn, embedded: Vectors | BindParameter[Any], depth: int
    ) -> Select[Any]:
        if self.distance == "cosine" and target.index == "bit" and vectors.indexed is not None:
            return self._by_signs(target, vectors, embedded, depth)
        as_indexed = self.distance == "cosine" and vectors.indexed is not None
        # By the operator itself: an expression over it would lose the index.
        distance = self._distance(vectors.indexed if as_indexed else vectors.value, embedded)
        if target.sorts_on:
            return self._nearest(vectors, distance, depth)
        # Where sorting by id as well would lose the index: sorted when the nearest are there.
        nearest = select(vectors.id.label("id"), distance.label("distance")).where(vectors.where).order_by(distance)
        met = nearest.limit(depth).subquery("met")
        found = select(met.c.id, self._score(met.c.distance).label("score"), met.c.distance)
        return found.order_by(met.c.distance, met.c.id).limit(depth)

    def _nearest(self, vectors: SearchColumn, distance: Any, depth: int) -> Select[Any]:
        return (
            select(vectors.id.label("id"), self._score(distance).label("score"), distance.label("distance"))
            .where(vectors.where)
            .order_by(distance, vectors.id)
            .limit(depth)
        )

    def _by_signs(
        self, target: SearchTarget, vectors: SearchColumn, embedded: Vectors | BindParameter[Any], depth: int
    ) -> Select[Any]:
        """The nearest by the signs of their numbers, ordered by the numbers themselves."""
        indexed: Any = vectors.indexed
        signs = sql_cast(func.binary_quantize(sql_cast(embedded, vectors.value.type)), BIT(indexed.type.length))
        differing: tuple[Any, ...] = (type_coerce(indexed.op(HAMMING)(signs), Float),)
        if "citus" in target.extensions and target.sorts_on:
            differing += (vectors.id,)  # else, of units that tie, a cluster takes those whose node answers first
        alike = (
            select(vectors.id.label("id"), vectors.value.label("value"))
            .where(vectors.where)
            .order_by(*differing)
            .limit(self._pool(depth))
            .cte("alike")
            .prefix_with("MATERIALIZED")
        )
        distance = self._distance(alike.c.value, embedded)
        found = select(alike.c.id, self._score(distance).label("score"), distance.label("distance"))
        return found.order_by(distance, alike.c.id).limit(depth)

    def _pool(self, depth: int) -> int:
        """How many are compared by full vector, with an index of bits."""
        return max(SMALLEST_EF_SEARCH, depth * self.oversample)

    def _distance(self, value: Any, embedded: Vectors | BindParameter[Any]) -> Any:
        return type_coerce(value.op(OPERATORS[self.distance])(embedded), Float)

    def _score(self, distance: Any) -> Any:
        """Higher is better: cosine similarity, inner product (pgvector negates it), or the negated distance."""
        return 1 - distance if self.distance == "cosine" else -distance

    def _settings(self, target: SearchTarget, depth: int) -> dict[str, object]:
        """An HNSW scan finds ef_search rows at a time, and goes on where ties, the depth or a filter want more."""
        wanted = self._pool(depth) if target.index == "bit" else depth * (8 if target.filter is not None else 2)
        ef_search = self.ef_search or min(LARGEST_EF_SEARCH, max(SMALLEST_EF_SEARCH, wanted))
        return {"hnsw__ef_search": ef_search, "hnsw__iterative_scan": "strict_order"}


def _or_every(by_index: Select[Any], every: Select[Any], depth: int) -> Select[Any]:
    """As `_by_index` does, in one statement: all there is, where the index brings up too little or cuts ties short."""
    met = by_index.cte("by_index").prefix_with("MATERIALIZED")
    scores = select(met.c.score).order_by(met.c.distance, met.c.id).limit(1)
    last, beyond = scores.offset(depth - 1).scalar_subquery(), scores.offset(depth).scalar_subquery()
    short = select(func.count()).select_from(met).scalar_subquery() < depth
    again = func.coalesce(or_(short, last == beyond), false(), type_=Boolean)
    decided = select(again.label("again")).cte("asked").prefix_with("MATERIALIZED")
    anew = select(decided.c.again).scalar_subquery()
    compared = every.limit(case((anew, depth), else_=0)).cte("compared").prefix_with("MATERIALIZED")
    found = (
        select(met.c.id, met.c.score, met.c.distance).where(not_(anew)).union_all(select(compared)).subquery("found")
    )
    return select(found).order_by(found.c.distance, found.c.id).limit(depth)


async def _are_few(connection: AsyncConnection, vectors: SearchColumn) -> bool:
    """Whether so few rows are left that comparing them all is quick, and right."""
    some = select(literal(1).label("one")).select_from(vectors.relation).where(vectors.where).limit(FEW + 1).subquery()
    return int(await connection.scalar(select(func.count()).select_from(some)) or 0) <= FEW


def _with_shortfall(found: Candidates, depth: int, why: str) -> Candidates:
    if len(found) >= depth:
        return found
    return Candidates(found.candidates, (*found.notes, f"{len(found)} of the {depth} asked for came back: {why}."))
