"""Embedding by content: a text that a model has embedded before, in whatever collection, is not embedded again."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from operator import itemgetter

import numpy as np
from sqlalchemy import LargeBinary, any_, delete, literal, select
from sqlalchemy.dialects.postgresql import ARRAY, insert

from core.embedding.base import Embedder, Vectors
from core.store.engine import Store
from core.store.schema import CachedEmbedding

TEXTS_A_STEP = 256  # what a kill can cost: a step is kept as soon as it is made


def digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


class EmbeddingCache:
    """An embedder in front of the table of vectors made so far. `computed` counts what it had to embed."""

    def __init__(self, store: Store, embedder: Embedder, progress: Callable[[int], None] = lambda _: None) -> None:
        self.store, self.embedder, self.progress = store, embedder, progress
        self.computed = 0

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """A vector a text, in order; equal texts get the same one."""
        wanted = {digest(text): text for text in texts}
        known = await self._known(list(wanted))
        self.progress(len(known))
        missing = [key for key in wanted if key not in known]
        for at in range(0, len(missing), TEXTS_A_STEP):
            step = missing[at : at + TEXTS_A_STEP]
            made = await self.embedder.embed([wanted[key] for key in step])
            await self._keep(step, made)
            known.update(zip(step, made, strict=True))
            self.computed += len(step)
            self.progress(len(step))
        if not texts:
            return np.empty((0, self.embedder.dimension), dtype=np.float32)
        return np.stack([known[digest(text)] for text in texts])

    async def _known(self, digests: list[bytes]) -> dict[bytes, Vectors]:
        query = select(CachedEmbedding.digest, CachedEmbedding.vector).where(
            CachedEmbedding.model == self.embedder.model,
            CachedEmbedding.digest == any_(literal(digests, ARRAY(LargeBinary))),
        )
        async with self.store.begin() as connection:
            rows = await connection.execute(query)
            return {bytes(key): np.frombuffer(vector, dtype="<f4") for key, vector in rows}

    async def _keep(self, digests: Sequence[bytes], vectors: Vectors) -> None:
        rows = [
            {"model": self.embedder.model, "digest": key, "vector": vector.astype("<f4").tobytes()}
            for key, vector in sorted(zip(digests, vectors, strict=True), key=itemgetter(0))  # else two could deadlock
        ]
        async with self.store.begin() as connection:
            await connection.execute(insert(CachedEmbedding).on_conflict_do_nothing(), rows)


async def forget(store: Store, model: str | None = None) -> int:
    """Empty the cache, of one model or of all; the collections keep their vectors."""
    statement = delete(CachedEmbedding)
    if model is not None:
        statement = statement.where(CachedEmbedding.model == model)
    async with store.begin() as connection:
        return (await connection.execute(statement)).rowcount
