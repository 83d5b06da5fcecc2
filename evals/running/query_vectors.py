"""Vectors of a split's queries, made in blocks of fixed composition: a fraction of the time of one by one.

A query has the vector that it has alone, in a search: models on this machine embed queries without padding. What an
endpoint gives is the same each time, at least: a block has the same queries, whoever asks first.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from contextlib import suppress

from core.embedding import Vectors
from core.errors import InputError, RankbookError
from core.legs.base import checked_text
from core.retriever import RequestContext
from evals.splits import Split

BLOCK = 256
Block = tuple[str, ...]  # ids of queries


class QueryVectors:
    """Each block is embedded by whoever asks for one of its queries first; the others wait."""

    def __init__(self, context: RequestContext, split: Split) -> None:
        self.context, self.split = context, split
        self.milliseconds: dict[tuple[str, str], float] = {}  # by model and query: its share of the block's time
        ids = list(split.queries)
        self._block_of = {query: tuple(ids[at // BLOCK * BLOCK :][:BLOCK]) for at, query in enumerate(ids)}
        self._made: dict[tuple[str, str], Vectors] = {}
        self._failed: set[tuple[str, Block]] = set()
        self._locks: dict[tuple[str, Block], asyncio.Lock] = defaultdict(asyncio.Lock)

    async def of(self, model: str, query: str) -> Vectors:
        """The query's vector. Where its block fails, it is tried alone, so that one bad query costs no other."""
        block = (model, self._block_of[query])
        async with self._locks[block]:
            if (model, query) not in self._made and block not in self._failed:
                try:
                    await self._embed(*block)
                except RankbookError:
                    self._failed.add(block)
            if (model, query) not in self._made:
                await self._embed(model, (query,))
        return self._made[model, query]

    def has(self, model: str | None, query: str) -> bool:
        """Whether the vector is there already."""
        return (model, query) in self._made

    async def _embed(self, model: str, queries: Block) -> None:
        texts: dict[str, str] = {}
        for query in queries:
            with suppress(InputError):  # it fails where it is asked
                texts[query] = checked_text(self.split.queries[query].text)
        begun = time.perf_counter()
        vectors = await self.context.embedder(model).embed(list(texts.values()), "query")
        spent = (time.perf_counter() - begun) * 1000
        for query, vector in zip(texts, vectors, strict=True):
            self._made[model, query] = vector
            self.milliseconds[model, query] = spent / len(texts)
