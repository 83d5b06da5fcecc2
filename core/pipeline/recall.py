"""The legs of a variant, run side by side, each on a connection of its own; and the texts of what they retrieve."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import Any, Self

from sqlalchemy.ext.asyncio import AsyncConnection

from core.embedding import Embedder, Vectors
from core.errors import MissingCapability
from core.expansion import ExpandedQuery
from core.fusion import FusedHit, LegRanking
from core.legs import Candidates, Leg, PreparedQuery
from core.store.engine import Store
from core.store.schema import passage_of
from core.store.search_target import SearchTarget
from core.tasks import side_by_side
from core.types import Hit


@dataclass(frozen=True, slots=True)
class LegResult:
    """What one leg retrieved. `unavailable` is why it could not be asked; the others go on without it."""

    name: str
    leg: Leg
    found: Candidates
    milliseconds: float
    depth: int
    unavailable: MissingCapability | None = None

    @property
    def exhausted(self) -> bool:
        """Whether asking for more would bring nothing."""
        return len(self.found) < self.depth

    def ranking(self, weight: float) -> LegRanking:
        return LegRanking(self.name, weight, self.found.candidates, self.leg.bounds)


def prepare_query(embedder: Callable[[str], Embedder], expanded: ExpandedQuery) -> PreparedQuery:
    """The words for the legs, and the vector of the meaning, made when the first leg wants it."""

    async def embed(model: str, _: str) -> Vectors:
        vectors: Vectors = await embedder(model).embed([expanded.meaning], "query")
        first: Vectors = vectors[0]
        return first

    return PreparedQuery(expanded.words, embed, original=expanded.original)


async def recall_legs(
    store: Store, target: SearchTarget, query: PreparedQuery, legs: Mapping[str, Leg], depths: Mapping[str, int]
) -> list[LegResult]:
    """Every leg at its depth, side by side. All of them unavailable is an error, with the first one's reason."""

    async def recall(name: str, leg: Leg) -> LegResult:
        async with LegConnection(store, target) as connection:
            return await connection.recall(query, name, leg, depths[name])

    results: list[LegResult] = await side_by_side(*(recall(name, leg) for name, leg in legs.items()))
    if all(each.unavailable for each in results) and results[0].unavailable:
        raise results[0].unavailable
    return results


class LegConnection:
    """A connection on which legs search one target, query after query: one transaction, so one state of it all.

    It is taken when the first leg wants it, and anew after one that failed. Its queries must not overlap.
    """

    def __init__(self, store: Store, target: SearchTarget) -> None:
        self.store, self.target = store, target
        self._transaction = AsyncExitStack()
        self._connection: AsyncConnection | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: Any) -> None:
        self._connection = None
        await self._transaction.__aexit__(*error)

    async def release(self) -> None:
        """Give the connection back until it is wanted again: a server may not bear a transaction that does nothing."""
        await self.__aexit__(None, None, None)

    async def recall(
        self, query: PreparedQuery, name: str, leg: Leg, depth: int, excluded: frozenset[str] = frozenset()
    ) -> LegResult:
        """What the leg retrieves, as though the excluded items were not there."""
        start, target = time.perf_counter(), self.target.without(excluded)
        found, unavailable = Candidates(), None
        try:
            await leg.prepare(target, query)  # whatever takes long and needs no connection, such as embedding
            try:
                if self._connection is None:
                    transaction = self.store.begin(self.target.namespace, read_only=True)
                    self._connection = await self._transaction.enter_async_context(transaction)
                found = await leg.recall(self._connection, target, query, depth)
                late = await lagging(self._connection, target, leg)
                found = replace(found, notes=(*found.notes, *late)) if late else found
            except BaseException:
                await self.__aexit__(*sys.exc_info())  # a transaction with a statement that failed takes no other
                raise
        except MissingCapability as error:
            unavailable = error
        return LegResult(name, leg, found, (time.perf_counter() - start) * 1000, depth, unavailable)


async def lagging(connection: AsyncConnection, target: SearchTarget, *legs: Leg) -> tuple[str, ...]:
    """Notes on what these legs read: that it may be behind an attached table."""
    return await target.lag(connection) if target.lag and any(leg.reads_words for leg in legs) else ()


async def fetch_hits(store: Store, target: SearchTarget, fused: Sequence[FusedHit]) -> list[Hit]:
    """Hits with their texts, in the order given. A unit that vanished meanwhile is left out."""
    async with store.begin(target.namespace, read_only=True) as connection:
        rows = await connection.execute(target.described([each.id for each in fused]))
        by_id = {row.id: row for row in rows}
    return [
        Hit(
            id=each.id,
            item_id=row.item_id,
            score=each.relative,
            raw_score=each.score,
            rank=rank,
            title=row.title,
            legs=each.legs,
            parent_id=row.parent_id,
            **passage_of(row),
        )
        for rank, (each, row) in enumerate(((each, by_id[each.id]) for each in fused if each.id in by_id), start=1)
    ]
