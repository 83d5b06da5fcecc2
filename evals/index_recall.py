"""What the vector index of a collection misses, by the collection's own queries.

Owns the choice of queries; the index is asked, and held against exact search, by the leg itself.
"""

from __future__ import annotations

from collections.abc import Sequence

from core.errors import InputError
from core.expansion import Expanded
from core.legs.vector import VectorLeg
from core.recall import prepared
from core.retriever import RequestContext
from core.store.levels import Level
from evals import query_sets


async def texts_of(context: RequestContext, most: int) -> list[str]:
    """The first queries of the collection, in the order of ids; refused where there are none."""
    name = context.view.name
    asked = [each.text for each in (await query_sets.load(context.store, name)).queries if each.text.strip()]
    if not asked:
        raise InputError(f"{name!r} has no queries to measure by. Add some: rankbook queries add {name} FILE")
    return asked[:most]


async def shares_of(context: RequestContext, where: Level, texts: Sequence[str], depth: int) -> list[float]:
    """Query by query, by the leg as it is searched with: at its defaults, and with what it does for want."""
    found, leg = [], VectorLeg()
    for text in texts:
        query = prepared(context.embedder, Expanded.unchanged(text))
        await leg.prepare(where, query)
        async with context.store.begin(where.namespace, read_only=True) as connection:
            found.append(await leg.measured_recall(connection, where, query, depth))
    return found
