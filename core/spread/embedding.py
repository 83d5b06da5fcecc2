"""An embedder whose texts the workers of a cluster embed; all else that it knows, it knows from the one here.

The model's id names backend, precision and the state of a folder, and a worker loads exactly that, or refuses. What is
sent are texts, what comes back are vectors: a worker needs neither a database nor a key. A batch has the texts that it
would have here, so on processors of one kind documents have vectors that are equal to the last bit, however many
threads work at them; those of queries, whose batches are small, within a millionth. On another kind they are other in
the last digits: at a cosine above `TOLERANCE`, as in bfloat16 those are of a text that was embedded alone and in a
batch.
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
    """Whether it computes on this machine, and its id is all that another needs to do the same."""
    return bool(getattr(embedder, "spreads", False))


class HasEmbedder(Protocol):
    """What embeds by some model, such as the cache."""

    embedder: Embedder


@asynccontextmanager
async def embedding_over(caches: Iterable[HasEmbedder]) -> AsyncIterator[None]:
    """The cluster that is meant, if any, embeds for them for as long as this lasts."""
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
    """`lines` is how many batches it wants at once."""

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
        vectors: Vectors = await self.cluster.ask(embedded, self.model, list(texts), purpose)
        if vectors.shape != (len(texts), self.dimension):
            raise EmbeddingError(
                f"A worker gave vectors of {vectors.shape} for {len(texts)} texts by {self.model!r}, which has "
                f"{self.dimension} dimensions. It has another model by that name: put the same one there."
            )
        return vectors

    def tokenize(self, text: str) -> Sequence[tuple[int, int]]:
        return self.here.tokenize(text)


@returns_errors
def embedded(model: str, texts: list[str], purpose: Purpose) -> Vectors:
    """On a worker: the model is loaded once in its process, and computes with the threads that the worker has."""
    take_own_share()
    from core import bridge
    from core.embedding import embedder

    vectors: Vectors = bridge.run(embedder(model).embed(texts, purpose))
    return vectors


@cache
def take_own_share() -> None:
    """As many threads as the worker was started with, once: several workers of one machine divide its cores."""
    from distributed import get_worker

    from core.embedding.sentence_transformers_backend import runtime

    threads = get_worker().state.nthreads
    os.environ["RAYON_NUM_THREADS"] = str(threads)  # of the tokenizer
    runtime().set_num_threads(threads)
