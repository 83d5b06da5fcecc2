"""From a query to a ranking. One leg at a time so far; several run side by side."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row

from core.legs import Candidate, Leg, PreparedQuery, legs
from core.store.collections import View
from core.store.engine import Store
from core.store.levels import Level, level
from core.tasks import side_by_side
from core.types import Hit


@dataclass(frozen=True, slots=True)
class Ranking:
    """What a leg brought up, best first, and how long it took, the query's embedding included."""

    leg: str
    hits: tuple[Hit, ...]
    milliseconds: float
    notes: tuple[str, ...] = ()


async def search(
    store: Store, view: View, text: str, leg: Leg, *, chunks: str, model: str | None = None, top_k: int = 10
) -> Ranking:
    """The best units for a query by one leg."""
    return await _search(store, level(store, view, chunks, model), PreparedQuery(text), leg, top_k)


async def search_each(
    store: Store,
    view: View,
    text: str,
    several: Sequence[Leg],
    *,
    chunks: str,
    model: str | None = None,
    top_k: int = 10,
) -> list[Ranking]:
    """The same query by several legs at once; it is embedded once."""
    query, where = PreparedQuery(text), level(store, view, chunks, model)
    return await side_by_side(*(_search(store, where, query, leg, top_k) for leg in several))


async def _search(store: Store, where: Level, query: PreparedQuery, leg: Leg, top_k: int) -> Ranking:
    begun = time.perf_counter()
    async with store.begin(where.namespace, read_only=True) as connection:
        found = await leg.recall(connection, where, query, leg.depth or top_k)
        described = {row.id: row for row in await connection.execute(where.described([each.id for each in found]))}
    # A unit can vanish between the two statements: somebody else's table moves while it is read.
    there = [each for each in found if each.id in described][:top_k]
    hits = tuple(_hit(each, rank, described[each.id]) for rank, each in enumerate(there, start=1))
    return Ranking(legs.name_of(type(leg)), hits, (time.perf_counter() - begun) * 1000, found.notes)


def _hit(candidate: Candidate, rank: int, row: Row[Any]) -> Hit:
    return Hit(
        id=candidate.id,
        item_id=row.item_id,
        score=candidate.score,
        rank=rank,
        title=row.title,
        text=row.text,
        metadata=row.metadata,
        heading_path=tuple(row.heading_path),
        page_first=row.page_first,
        page_last=row.page_last,
    )
