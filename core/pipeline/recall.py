"""The legs of a variant, asked at once, each on a connection of its own; and what is known of what they found."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import Any, Self

from sqlalchemy import Row
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
    """What one leg brought up. `problem` is why it could not be asked; the others went on without it."""

    name: str
    leg: Leg
    found: Candidates
    milliseconds: float
    depth: int
    problem: MissingCapability | None = None

    @property
    def exhausted(self) -> bool:
        """Whether asking for more would bring nothing."""
        return len(self.found) < self.depth

    def ranking(self, weight: float) -> LegRanking:
        return LegRanking(self.name, weight, self.found.candidates, self.leg.bounds)


def prepare_query(embedder: Callable[[str], Embedder], expanded: ExpandedQuery) -> PreparedQuery:
    """What legs are asked with: the words, and the vector of the meaning, made when the first of them wants it."""

    async def embed(model: str, _: str) -> Vectors:
        vectors: Vectors = await embedder(model).embed([expanded.meaning], "query")
        first: Vectors = vectors[0]
        return first

    return PreparedQuery(expanded.words, embed, original=expanded.original)


async def recall_legs(
    store: Store, level: SearchTarget, query: PreparedQuery, legs: Mapping[str, Leg], depths: Mapping[str, int]
) -> list[LegResult]:
    """Every leg at its depth, side by side. All of them unavailable is an error, with the first one's reason."""
    runs: list[LegResult] = await side_by_side(
        *(_ask(store, level, query, name, leg, depths[name]) for name, leg in legs.items())
    )
    if all(run.problem for run in runs) and runs[0].problem:
        raise runs[0].problem
    return runs


async def _ask(store: Store, level: SearchTarget, query: PreparedQuery, name: str, leg: Leg, depth: int) -> LegResult:
    async with LegConnection(store, level) as line:
        return await line.ask(query, name, leg, depth)


class LegConnection:
    """A connection on which legs are asked of one level, query after query: one transaction, so one state of it all.

    It is taken when the first wants it, and anew after one that failed. Queries on a line must not overlap.
    """

    def __init__(self, store: Store, level: SearchTarget) -> None:
        self.store, self.level = store, level
        self._begun = AsyncExitStack()
        self._connection: AsyncConnection | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: Any) -> None:
        self._connection = None
        await self._begun.__aexit__(*error)

    async def release(self) -> None:
        """Give the connection back until it is wanted again: a server may not bear a transaction that does nothing."""
        await self.__aexit__(None, None, None)

    async def ask(
        self, query: PreparedQuery, name: str, leg: Leg, depth: int, excluded: frozenset[str] = frozenset()
    ) -> LegResult:
        """What the leg finds, as though the excluded items were not there."""
        begun, level = time.perf_counter(), self.level.without(excluded)
        found, problem = Candidates(), None
        try:
            await leg.prepare(level, query)  # whatever takes long and needs no connection, such as embedding
            found = await self._recalled(level, query, leg, depth)
        except MissingCapability as error:
            problem = error
        return LegResult(name, leg, found, (time.perf_counter() - begun) * 1000, depth, problem)

    async def _recalled(self, level: SearchTarget, query: PreparedQuery, leg: Leg, depth: int) -> Candidates:
        try:
            if self._connection is None:
                begun = self.store.begin(self.level.namespace, read_only=True)
                self._connection = await self._begun.enter_async_context(begun)
            found = await leg.recall(self._connection, level, query, depth)
            late = await lagging(self._connection, level, leg)
            return replace(found, notes=(*found.notes, *late)) if late else found
        except BaseException:
            await self.__aexit__(*sys.exc_info())  # what a statement broke off, nothing more can be asked in
            raise


async def lagging(connection: AsyncConnection, level: SearchTarget, *legs: Leg) -> tuple[str, ...]:
    """What these legs should say of what they read here: that it may be behind an attached table."""
    return await level.lag(connection) if level.lag and any(leg.reads_words for leg in legs) else ()


async def fetch_hits(store: Store, level: SearchTarget, fused: Sequence[FusedHit]) -> list[Hit]:
    """Hits with their texts, in the order given. A unit that vanished meanwhile is left out."""
    async with store.begin(level.namespace, read_only=True) as connection:
        rows = await connection.execute(level.described([each.id for each in fused]))
        by_id = {row.id: row for row in rows}
    there = [each for each in fused if each.id in by_id]
    return [hit_of(by_id[each.id], each, rank) for rank, each in enumerate(there, start=1)]


def hit_of(row: Row[Any], fused: FusedHit, rank: int) -> Hit:
    """A row of a level's details as a hit."""
    return Hit(
        id=row.id,
        item_id=row.item_id,
        score=fused.relative,
        raw_score=fused.score,
        rank=rank,
        title=row.title,
        legs=fused.legs,
        parent_id=row.parent_id,
        **passage_of(row),
    )
