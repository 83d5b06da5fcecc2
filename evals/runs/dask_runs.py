"""Slices of leg runs and of searches carried out by the workers of a Dask cluster.

What is sent is private to one version: a worker with other code is refused before any work.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import platform
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from core import bridge, spread
from core.context import RequestContext
from core.embedding import Vectors, embedder, is_served
from core.errors import ClusterFailed, ConnectionFailed, EmbeddingError
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
from evals.runs.leg_runs import CONNECTIONS, LegQuerier, LegQueryResults, ReadyOrMade, reason_of
from evals.runs.plan import LegTask
from evals.runs.provenance import models_mark
from evals.runs.query_runs import A_BATCH, searched_side_by_side
from evals.runs.rankings import decode_rankings, encode_rankings
from evals.runs.types import QueryResults
from evals.types import QuerySplit

_opened: dict[str, Store] = {}
_opening = asyncio.Lock()


@dataclass(frozen=True, slots=True)
class WorkerGround:
    """Which collection is asked, and by what. `socket` is the folder of the embedded server's, `conninfo` leads there.

    Both are empty for another server.
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
    def of(cls, context: RequestContext) -> WorkerGround:
        row, server = context.view.row, context.store.server
        reached = (str(server.socket_folder), server.conninfo()) if server else ("", "")
        return cls(row.name, row.version, row.created_at, ranking_code(), models_mark(), context.deadline, *reached)


@asynccontextmanager
async def cluster_for(context: RequestContext, *, work: bool) -> AsyncIterator[Cluster | None]:
    """The one that `RANKBOOK_DASK` names, where there is work that its workers may do: they have the owner's rights."""
    if not work or context.store.role:
        yield None
        return
    async with spread.open_cluster(context.resources.environment) as cluster:
        yield cluster


async def context_on_worker(ground: WorkerGround) -> RequestContext:
    """On a worker: what it asks with. Stores stay open, one for each server, as long as the worker lives."""
    if ground.code != await asyncio.to_thread(ranking_code):
        raise ClusterFailed(f"{_here()} has another version of Rankbook. Install the one there that is here.")
    store = await _store(ground)
    view = await collections.find(store, ground.collection)
    if view is None or view.row.created_at != ground.created_at:
        raise ClusterFailed(
            f"{_here()} has another database: {store.where} has no such collection {ground.collection!r}. Start it "
            "with the RANKBOOK_DSN that is set here."
        )
    if view.row.version != ground.version:
        raise moved_on(ground.collection)
    return RequestContext(store, view, deadline=ground.deadline)


def refuse_other_models(ground: WorkerGround) -> None:
    """A run says what its models ran on."""
    if ground.models != models_mark():
        raise ClusterFailed(f"{_here()} runs models on {models_mark()}; here it is {ground.models}. Install the same.")


async def _store(ground: WorkerGround) -> Store:
    dsn = ground.conninfo or os.environ.get("RANKBOOK_DSN", "")
    if not dsn:
        raise ClusterFailed(
            f"{_here()} does not know the database. Start it with RANKBOOK_DSN in its environment; it is never sent, "
            "because it may hold a password."
        )
    if ground.socket and not await asyncio.to_thread(Path(ground.socket).is_dir):
        raise ClusterFailed(
            f"{_here()} cannot reach the embedded server, whose socket is in {ground.socket} of this machine. Start "
            "workers here, or keep collections on a PostgreSQL that RANKBOOK_DSN names, for the workers too."
        )
    async with _opening:
        if dsn not in _opened:
            _opened[dsn] = await _reached(dsn)
            atexit.register(_close)
    return _opened[dsn]


async def _reached(dsn: str) -> Store:
    """Without a lease on the embedded server: whoever asked for the work holds one, and workers outlive it."""
    try:
        return await Store.open(dsn)
    except ConnectionFailed as error:
        raise ClusterFailed(f"{_here()} cannot reach the database. {error}") from error


def _here() -> str:
    return f"A Dask worker on {platform.node()}"


def _close() -> None:
    while _opened:
        bridge.run(_opened.popitem()[1].close())


A_SLICE = 64  # queries: seconds of a worker's time at most, of the slowest leg


@dataclass(frozen=True, slots=True)
class Slice:
    """Some queries for a leg: their texts, and where the leg wants them their vectors, or why they have none."""

    ground: WorkerGround
    task: LegTask
    texts: dict[str, str]
    excluded: dict[str, frozenset[str]] = field(default_factory=dict)
    connections: int = CONNECTIONS
    vectors: dict[str, Vectors] = field(default_factory=dict)
    vectorless: dict[str, str] = field(default_factory=dict)
    milliseconds: dict[tuple[str, str], float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SpreadLegs:
    """Asks for one plan."""

    cluster: Cluster
    context: RequestContext
    split: QuerySplit
    connections: int = CONNECTIONS

    async def ask(
        self,
        task: LegTask,
        queries: Sequence[str],
        vectors: ReadyOrMade,
        take: Callable[[LegQueryResults, int], Awaitable[None]],
    ) -> None:
        """`take` is handed what each slice brings, as it comes. A token that is set stops the rest."""

        async def one(some: Sequence[str]) -> None:
            slice_ = await self._slice(task, some, vectors)
            # Without the deadline, which holds for each query by itself, on the worker.
            answer = await run_cancellable(self.cluster.ask(slice_answered, slice_), self.context.cancellation)
            await take(_unpack_legs(answer), len(some))

        slices = [queries[at : at + A_SLICE] for at in range(0, len(queries), A_SLICE)]
        await bounded(lambda: self.cluster.lines, slices, one)

    async def _slice(self, task: LegTask, queries: Sequence[str], vectors: ReadyOrMade) -> Slice:
        texts = {query: self.split.queries[query].text for query in queries}
        excluded = {query: self.split.excluded[query] for query in queries if query in self.split.excluded}
        made = Slice(self._ground, task, texts, excluded, self.connections)
        model = search_target(self.context.store, self.context.view, task.chunks, task.model).model
        if not task.leg.uses_model or model is None:
            return made
        for query, text in made.texts.items():
            try:
                checked_text(text)
                made.vectors[query] = await vectors.of(model, query)
                made.milliseconds[model, query] = vectors.milliseconds.get((model, query), 0.0)
            except Exception as error:
                made.vectorless[query] = reason_of(error)
        return made

    @property
    def _ground(self) -> WorkerGround:
        return WorkerGround.of(self.context)


class Ready:
    """Vectors that were made before; one that could not be made is refused where it is asked for."""

    def __init__(self, asked: Slice) -> None:
        self._asked = asked

    @property
    def milliseconds(self) -> Mapping[tuple[str, str], float]:
        return self._asked.milliseconds

    def has(self, _model: str | None, query: str) -> bool:
        return query in self._asked.vectors

    async def of(self, _model: str, query: str) -> Vectors:
        if query not in self._asked.vectors:
            raise EmbeddingError(self._asked.vectorless.get(query, "The query has no vector."))
        return self._asked.vectors[query]


@returns_errors
def slice_answered(asked: Slice) -> bytes:
    """On a worker."""
    return bridge.run(_answered(asked))


async def _answered(asked: Slice) -> bytes:
    context, task, answered = await context_on_worker(asked.ground), asked.task, LegQueryResults()
    split = QuerySplit("", {query: Query(query, text) for query, text in asked.texts.items()}, excluded=asked.excluded)
    at = search_target(context.store, context.view, task.chunks, task.model).filtered(task.filter)
    await LegQuerier(context, split, Ready(asked), asked.connections).ask(task, at, list(asked.texts), answered)
    return encode_rankings(
        answered.rankings,
        milliseconds=answered.milliseconds,
        failures=answered.failures,
        missing=answered.missing,
    )


def _unpack_legs(answer: bytes) -> LegQueryResults:
    read = decode_rankings(answer)
    return LegQueryResults(read.rankings, read.more["milliseconds"], read.more["failures"], read.more["missing"])


@dataclass(frozen=True, slots=True)
class Searches:
    """Some queries for a variant."""

    ground: WorkerGround
    variant: Variant
    texts: dict[str, str]
    excluded: dict[str, frozenset[str]]
    connections: int = CONNECTIONS


@dataclass(frozen=True, slots=True)
class SpreadQueries:
    """Searches for one suite."""

    cluster: Cluster
    context: RequestContext
    split: QuerySplit
    connections: int = CONNECTIONS

    def takes(self, variant: Variant) -> bool:
        """Whether workers can search with it as it is searched with here."""
        resources = self.context.resources
        if resources.embedder is not embedder or resources.transport is not None:
            return False  # stand-ins of this process
        at = search_target(self.context.store, self.context.view, variant.chunks, variant.model)
        expands = variant.expand is not None and (variant.expand.calls_endpoint or variant.expand.reads_files)
        reranks = variant.rerank is not None and variant.rerank.calls_endpoint
        return not (expands or reranks or is_served(at.model))

    async def search(
        self, variant: Variant, queries: Sequence[str], take: Callable[[QueryResults, int], Awaitable[None]]
    ) -> None:
        """`take` is handed what each slice brings, as it comes. A token that is set stops the rest."""
        ground = WorkerGround.of(self.context)

        async def one(some: Sequence[str]) -> None:
            texts = {query: self.split.queries[query].text for query in some}
            excluded = {query: self.split.excluded[query] for query in some if query in self.split.excluded}
            asked = Searches(ground, variant, texts, excluded, self.connections)
            # Without the deadline, which holds for each query by itself, on the worker.
            answer = await run_cancellable(self.cluster.ask(slice_searched, asked), self.context.cancellation)
            await take(_unpack_searches(answer), len(some))

        slices = [queries[at : at + A_BATCH] for at in range(0, len(queries), A_BATCH)]
        await bounded(lambda: self.cluster.lines, slices, one)


@returns_errors
def slice_searched(asked: Searches) -> bytes:
    """On a worker."""
    return bridge.run(_searched(asked))


async def _searched(asked: Searches) -> bytes:
    refuse_other_models(asked.ground)
    context, found = await context_on_worker(asked.ground), QueryResults()
    split = QuerySplit("", {query: Query(query, text) for query, text in asked.texts.items()}, excluded=asked.excluded)
    await searched_side_by_side(context, split, asked.variant, list(asked.texts), asked.connections, found)
    return encode_rankings(
        found.rankings,
        failures=found.failures,
        milliseconds=found.milliseconds,
        stages=found.stages,
        notes=found.notes,
        remarks=found.remarks,
        without=found.without,
    )


def _unpack_searches(answer: bytes) -> QueryResults:
    read = decode_rankings(answer)
    return QueryResults(read.rankings, **{**read.more, "notes": tuple(read.more["notes"])})
