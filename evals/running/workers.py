"""What a worker of a cluster needs to ask a collection: the same code, the same database, the same state of it.

Owns that a worker is refused which has something else, in a sentence. The embedded server is reached by its socket, so
by workers on its own machine only. Of a server that `RANKBOOK_DSN` names nothing is sent, as a connection string may
hold a password and a scheduler shows what it is sent: each worker has it in its own environment.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import platform
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from core import bridge, spread
from core.errors import ClusterFailed, ConnectionFailed
from core.retriever import RequestContext
from core.spread import Cluster
from core.store import collections
from core.store.engine import Store
from evals.running.batches import moved_on
from evals.running.environment import models_mark, ranking_code

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
    async with spread.opened(context.resources.environment) as cluster:
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
