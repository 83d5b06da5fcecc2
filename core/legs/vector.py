"""The vector leg: nearest neighbours of the query's embedding."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field
from sqlalchemy import func, select, type_coerce
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.types import Float

from core.errors import MissingCapability
from core.legs.base import Candidate, Leg, PreparedQuery, candidates, legs
from core.store.levels import Level

OPERATORS = {"cosine": "<=>", "l2": "<->", "ip": "<#>"}
SMALLEST_EF_SEARCH, LARGEST_EF_SEARCH = 100, 1000


@legs.register("vector")
class VectorLeg(Leg):
    """Units whose embedding is nearest to the query's. `exact` reads every vector instead of the HNSW index."""

    distance: Literal["cosine", "l2", "ip"] = Field("cosine", description="Which distance orders the neighbours.")
    exact: bool = Field(False, description="Compare with every vector: slower, and the reference for the index.")

    async def recall(
        self, connection: AsyncConnection, level: Level, query: PreparedQuery, depth: int
    ) -> list[Candidate]:
        vectors = level.column("vectors")
        if level.model is None:
            raise MissingCapability("Nothing says which model made these vectors, so the query cannot be embedded.")
        embedded = await query.vector(level.model)
        value = vectors.value if self.exact or vectors.indexed is None else vectors.indexed
        # Order by the operator itself: an expression over it would lose the index.
        distance = type_coerce(value.op(OPERATORS[self.distance])(embedded), Float)
        await self._tune(connection, depth)
        rows = await connection.execute(
            select(vectors.id.label("id"), self._score(distance).label("score"))
            .where(vectors.where)
            .order_by(distance, vectors.id)
            .limit(depth)
        )
        return candidates(rows)

    def _score(self, distance: Any) -> Any:
        """Higher is better: cosine similarity, inner product (pgvector negates it), or the negated distance."""
        return 1 - distance if self.distance == "cosine" else -distance

    async def _tune(self, connection: AsyncConnection, depth: int) -> None:
        """An HNSW scan finds ef_search rows at a time, and goes on where equal distances or the depth want more."""
        ef_search = min(LARGEST_EF_SEARCH, max(SMALLEST_EF_SEARCH, 2 * depth))
        settings = {
            "hnsw.ef_search": str(ef_search),
            "hnsw.iterative_scan": "strict_order",
            "enable_indexscan": "off" if self.exact else "on",
        }
        await connection.execute(select(*(func.set_config(name, value, True) for name, value in settings.items())))
