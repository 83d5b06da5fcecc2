"""The cache of embeddings, told by model. `core.store.chunk_and_embed` owns it."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import func, select

from core.store.engine import Store
from core.store.schema import CachedEmbedding


@dataclass(frozen=True, slots=True)
class Cached:
    """How many texts a model's embeddings are kept of."""

    model: str
    texts: int
    bytes: int


async def cached(store: Store) -> list[Cached]:
    size = func.sum(func.length(CachedEmbedding.vector))
    asked = select(CachedEmbedding.model, func.count(), size).group_by(CachedEmbedding.model)
    async with store.begin(read_only=True) as connection:
        rows = await connection.execute(asked.order_by(CachedEmbedding.model))
        return [Cached(model, texts, int(size)) for model, texts, size in rows]
