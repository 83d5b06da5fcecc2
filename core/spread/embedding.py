"""An embedder that lets the workers of a Dask cluster embed texts, in the batches that it would make here.

The model's id names backend, precision and the state of a folder, and a worker loads exactly that, or refuses. Texts
are sent and vectors come back: a worker needs neither a database nor a key. On processors of one kind, vectors of
documents are equal to the last bit, however many threads compute them; those of queries, whose batches are small,
within a millionth. On another kind they differ in the last digits, with a cosine above `TOLERANCE`, as in bfloat16 do
those of a text embedded alone and in a batch.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from functools import cache
from typing import Protocol

from core.embedding.base import Embedder, Purpose, Vectors
from core.errors import EmbeddingError
from core.spread import Cluster, address
from core.spread.cluster import returns_errors

TOLERANCE = 0.999  # the least cosine of two vectors of one text by one id, wherever they were made


def can_be_spread(embedder: Embedder) -> bool:
    """Whether it computes on this machine, and another machine needs only its id to do the same."""
    return bool(getattr(embedder, "spreads", False))


class HasEmbedder(Protocol):
    """What embeds by some model, such as the cache."""

    embedder: Embedder


@asynccontextmanager
async def embedding_over(caches: Iterable[HasEmbedder]) -> AsyncIterator[None]:
    """For the time of the context, the configured cluster, if any, embeds for these caches."""
    moved = [(each, each.embedder) for each in caches if can_be_spread(each.embedder)]
    where = address()
    if not moved or where is None:
        yield
        return
    async with Cluster.opened(where) as cluster:
        try:
            for each, here in moved:
                each.embedder = SpreadEmbedder(here, cluster)
            yield
        finally:
            for each, here in moved:
                each.embedder = here


class SpreadEmbedder:
    """An embedder whose texts the cluster embeds. `lines` is how many batches it takes at once."""

    def __init__(self, here: Embedder, cluster: Cluster) -> None:
        self.here, self.cluster = here, cluster

    @property
    def model(self) -> str:
        return self.here.model

    @property
    def dimension(self) -> int:
        return self.here.dimension

    @property
    def lines(self) -> int:
        return self.cluster.lines

    async def embed(self, texts: Sequence[str], purpose: Purpose = "document") -> Vectors:
        vectors: Vectors = await self.cluster.ask(embed_on_worker, self.model, list(texts), purpose)
        if vectors.shape != (len(texts), self.dimension):
            raise EmbeddingError(
                f"A worker gave vectors of {vectors.shape} for {len(texts)} texts by {self.model!r}, which has "
                f"{self.dimension} dimensions. It has another model by that name: put the same one there."
            )
        return vectors

    def tokenize(self, text: str) -> Sequence[tuple[int, int]]:
        return self.here.tokenize(text)


@returns_errors
def embed_on_worker(model: str, texts: list[str], purpose: Purpose) -> Vectors:
    """Runs on a worker: the model is loaded once a process, and computes with the worker's threads."""
    limit_threads()
    from core import bridge
    from core.embedding import embedder

    vectors: Vectors = bridge.run(embedder(model).embed(texts, purpose))
    return vectors


@cache
def limit_threads() -> None:
    """Use as many threads as the worker was started with: several workers of one machine divide its cores."""
    from distributed import get_worker

    from core.embedding.sentence_transformers_backend import runtime

    threads = get_worker().state.nthreads
    os.environ["RAYON_NUM_THREADS"] = str(threads)  # of the tokenizer
    runtime().set_num_threads(threads)
