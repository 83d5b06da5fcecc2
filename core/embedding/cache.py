"""Embedding by content: a text that a model has embedded before, in whatever collection, is not embedded again."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter

import numpy as np
from sqlalchemy import LargeBinary, any_, delete, literal, select
from sqlalchemy.dialects.postgresql import ARRAY, insert

from core.embedding.base import Embedder, Vectors
from core.store.engine import Store
from core.store.schema import CachedEmbedding
from core.tasks import bounded

TEXTS_A_STEP = 256  # what a kill can cost, of each line: a step is kept as soon as it is made


def digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


class EmbeddingCache:
    """An embedder in front of the table of vectors made so far. `computed` counts what it had to embed."""

    def __init__(self, store: Store, embedder: Embedder, progress: Callable[[int], None] = lambda _: None) -> None:
        self.store, self.embedder, self.progress = store, embedder, progress
        self.computed = 0
        self._under_way: dict[bytes, asyncio.Future[dict[bytes, Vectors]]] = {}

    @property
    def lines(self) -> int:
        """How many steps are under way at once: a model here takes all cores for one, a cluster wants several."""
        return int(getattr(self.embedder, "lines", 1))

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """A vector a text, in order; equal texts get the same one."""
        wanted = {digest(text): text for text in texts}
        theirs = {key: self._under_way[key] for key in wanted if key in self._under_way}
        known = await self._ours({key: text for key, text in wanted.items() if key not in theirs})
        for key, made in theirs.items():
            known[key] = (await made)[key]
            self.progress(1)
        if not texts:
            return np.empty((0, self.embedder.dimension), dtype=np.float32)
        return np.stack([known[digest(text)] for text in texts])

    async def missing(self, texts: Sequence[str]) -> int:
        """How many of the texts would have to be embedded."""
        wanted = list({digest(text) for text in texts})
        known = 0
        for at in range(0, len(wanted), TEXTS_A_STEP):
            known += len(await self._known(wanted[at : at + TEXTS_A_STEP]))
        return len(wanted) - known

    async def _ours(self, wanted: Mapping[bytes, str]) -> dict[bytes, Vectors]:
        """By digest. Whoever asks for one of them meanwhile waits for it, so that it is not made twice."""
        made = asyncio.get_running_loop().create_future()
        self._under_way |= dict.fromkeys(wanted, made)
        try:
            known = await self._looked_up_or_made(wanted)
        except Exception as error:
            made.set_exception(error)
            made.exception()  # looked at, so that nobody logs it as forgotten where nobody waited
            raise
        except asyncio.CancelledError:
            made.cancel()
            raise
        finally:
            for key in wanted:
                del self._under_way[key]
        made.set_result(known)
        return known

    async def _looked_up_or_made(self, wanted: Mapping[bytes, str]) -> dict[bytes, Vectors]:
        known = await self._known(list(wanted))
        self.progress(len(known))
        missing = [key for key in wanted if key not in known]
        # The same steps, whoever makes them: what a text's vector is hangs in its last digits on those beside it.
        steps = [missing[at : at + TEXTS_A_STEP] for at in range(0, len(missing), TEXTS_A_STEP)]

        async def make(step: Sequence[bytes]) -> None:
            made = await self.embedder.embed([wanted[key] for key in step])
            await self._keep(step, made)
            known.update(zip(step, made, strict=True))
            self.computed += len(step)
            self.progress(len(step))

        await bounded(lambda: self.lines, steps, make)
        return known

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
