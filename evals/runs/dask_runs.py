"""Batches of queries answered by the workers of a Dask cluster: for a leg, or for a variant.

What is sent is private to one version: a worker with other code is refused before any work.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import platform
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from core import bridge, spread
from core.context import RequestContext
from core.embedding import Vectors, embedder, is_served
from core.errors import ClusterFailed, ConnectionFailed
from core.legs.base import checked_text
from core.spread import Cluster
from core.spread.cluster import returns_errors
from core.store import collections
from core.store.engine import Store
from core.store.resolve_target import search_target
from core.tasks import bounded, run_cancellable
from core.types import Query
from core.variant import Variant
from evals.runs.checkpoints import moved_on
from evals.runs.code_digest import ranking_code
from evals.runs.plan import CONNECTIONS, LegTask
from evals.runs.provenance import models_mark
from evals.runs.queries import LegQuerier, ModelQuery, QueryVectors, leg_target, reason_of, search_queries
from evals.runs.types import QueryResults
from evals.types import QuerySplit

LEG_SLICE = 64  # queries: seconds of a worker's time at most, of the slowest leg
SEARCH_SLICE = 8  # queries: a search may take much longer
_opened: dict[str, Store] = {}
_opening = asyncio.Lock()
KeepBatch = Callable[[QueryResults, int], Awaitable[None]]  # what came of so many queries


@dataclass(frozen=True, slots=True)
class BatchOrigin:
    """Which state of which collection is searched, by what code and models, and where its server is.

    `socket` is the folder of the embedded server's, `conninfo` leads there. Both are empty for another server.
    """

    collection: str
    version: int
    created_at: datetime
    code: str
    models: str
    deadline: float | None
    socket: str = ""
    conninfo: str = ""

    @classmethod
    def of(cls, context: RequestContext) -> BatchOrigin:
        row, server = context.view.row, context.store.server
        reached = (str(server.socket_folder), server.conninfo()) if server else ("", "")
        return cls(row.name, row.version, row.created_at, ranking_code(), models_mark(), context.deadline, *reached)


@asynccontextmanager
async def cluster_for(context: RequestContext, *, work: bool) -> AsyncIterator[Cluster | None]:
    """The cluster that `RANKBOOK_DASK` names, where its workers may do the work: they have the owner's rights."""
    if not work or context.store.role:
        yield None
        return
    async with spread.open_cluster(context.resources.environment) as cluster:
        yield cluster


async def context_on_worker(origin: BatchOrigin) -> RequestContext:
    """On a worker: what it searches with. Stores stay open, one for each server, as long as the worker lives."""
    if origin.code != await asyncio.to_thread(ranking_code):
        raise ClusterFailed(f"{_here()} has another version of Rankbook. Install the one there that is here.")
    store = await _store(origin)
    view = await collections.find(store, origin.collection)
    if view is None or view.row.created_at != origin.created_at:
        raise ClusterFailed(
            f"{_here()} has another database: {store.where} has no such collection {origin.collection!r}. Start it "
            "with the RANKBOOK_DSN that is set here."
        )
    if view.row.version != origin.version:
        raise moved_on(origin.collection)
    return RequestContext(store, view, deadline=origin.deadline)


async def _store(origin: BatchOrigin) -> Store:
    dsn = origin.conninfo or os.environ.get("RANKBOOK_DSN", "")
    if not dsn:
        raise ClusterFailed(
            f"{_here()} does not know the database. Start it with RANKBOOK_DSN in its environment; it is never sent, "
            "because it may hold a password."
        )
    if origin.socket and not await asyncio.to_thread(Path(origin.socket).is_dir):
        raise ClusterFailed(
            f"{_here()} cannot reach the embedded server, whose socket is in {origin.socket} of this machine. Start "
            "workers here, or keep collections on a PostgreSQL that RANKBOOK_DSN names, for the workers too."
        )
    async with _opening:
        if dsn not in _opened:
            try:  # without a lease on an embedded server: the one who sent the work holds it, and workers live longer
                _opened[dsn] = await Store.open(dsn)
            except ConnectionFailed as error:
                raise ClusterFailed(f"{_here()} cannot reach the database. {error}") from error
            atexit.register(_close)
    return _opened[dsn]


def _here() -> str:
    return f"A Dask worker on {platform.node()}"


def _close() -> None:
    while _opened:
        bridge.run(_opened.popitem()[1].close())


@dataclass(frozen=True, slots=True)
class WorkerBatch:
    """Some queries for a leg or a variant: their texts, and what each may not return.

    A leg that searches by vectors gets these too, or why a query has none (`refused`).
    """

    origin: BatchOrigin
    work: LegTask | Variant
    texts: dict[str, str]
    excluded: dict[str, frozenset[str]]
    connections: int = CONNECTIONS
    vectors: dict[ModelQuery, Vectors] = field(default_factory=dict)
    refused: dict[ModelQuery, str] = field(default_factory=dict)
    milliseconds: dict[ModelQuery, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DaskWorkers:
    """The workers of a cluster, for the queries of one split."""

    cluster: Cluster
    context: RequestContext
    split: QuerySplit
    connections: int = CONNECTIONS

    def can_run(self, work: LegTask | Variant) -> bool:
        """Whether workers find what would be found here: not where a variant calls endpoints or reads local files."""
        if isinstance(work, LegTask):
            return True
        resources = self.context.resources
        if resources.embedder is not embedder or resources.transport is not None:
            return False  # stand-ins of this process
        target = search_target(self.context.store, self.context.view, work.chunks, work.model)
        expands = work.expand is not None and (work.expand.calls_endpoint or work.expand.reads_files)
        reranks = work.rerank is not None and work.rerank.calls_endpoint
        return not (expands or reranks or is_served(target.model))

    async def run(
        self, work: LegTask | Variant, queries: Sequence[str], vectors: QueryVectors, keep: KeepBatch
    ) -> None:
        """`keep` is handed what each slice brings, as it comes. A token that is set stops the rest."""

        async def one(some: Sequence[str]) -> None:
            batch = await self._batch(work, some, vectors)
            # Without the deadline, which holds for each query by itself, on the worker.
            answer = await run_cancellable(self.cluster.ask(answer_batch, batch), self.context.cancellation)
            await keep(QueryResults.from_bytes(answer), len(some))

        size = LEG_SLICE if isinstance(work, LegTask) else SEARCH_SLICE
        slices = [queries[at : at + size] for at in range(0, len(queries), size)]
        await bounded(lambda: self.cluster.lines, slices, one)

    async def _batch(self, work: LegTask | Variant, queries: Sequence[str], vectors: QueryVectors) -> WorkerBatch:
        texts = {query: self.split.queries[query].text for query in queries}
        excluded = {query: self.split.excluded[query] for query in queries if query in self.split.excluded}
        batch = WorkerBatch(BatchOrigin.of(self.context), work, texts, excluded, self.connections)
        if not isinstance(work, LegTask) or not work.leg.uses_model:
            return batch
        model = leg_target(self.context, work).model
        if model is None:  # the leg says so itself
            return batch
        for query, text in texts.items():
            try:
                checked_text(text)
                batch.vectors[model, query] = await vectors.of(model, query)
                batch.milliseconds[model, query] = vectors.milliseconds.get((model, query), 0.0)
            except Exception as error:
                batch.refused[model, query] = reason_of(error)
        return batch


@returns_errors
def answer_batch(batch: WorkerBatch) -> bytes:
    """On a worker."""
    return bridge.run(_answer(batch))


async def _answer(batch: WorkerBatch) -> bytes:
    if isinstance(batch.work, Variant) and batch.origin.models != models_mark():  # a run says what its models ran on
        here, there = models_mark(), batch.origin.models
        raise ClusterFailed(f"{_here()} runs models on {here}; here it is {there}. Install the same.")
    context, queries, results = await context_on_worker(batch.origin), list(batch.texts), QueryResults()
    split = QuerySplit("", {query: Query(query, text) for query, text in batch.texts.items()}, excluded=batch.excluded)
    if isinstance(batch.work, Variant):
        await search_queries(context, split, batch.work, queries, batch.connections, results)
    else:
        vectors = QueryVectors(context, split, batch.vectors, batch.refused, batch.milliseconds)
        await LegQuerier(context, split, vectors, batch.connections).ask(batch.work, queries, results)
    return results.to_bytes()
