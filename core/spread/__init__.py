"""Work spread over a Dask cluster: `RANKBOOK_DASK` names its scheduler, and without it everything runs here.

Texts that a model of this machine embeds are spread (`core.spread.embedding`), and slices of leg runs and searches
(`evals.runs.dask_runs`). Endpoints are called from here: they wait for a network and not for a processor, and so no
key ever leaves this process.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from core.spread.cluster import PATIENCE, Cluster, Patience

__all__ = ["ADDRESS", "PATIENCE", "Cluster", "Patience", "address", "open_cluster"]

ADDRESS = "RANKBOOK_DASK"


def address(environment: Mapping[str, str] | None = None) -> str | None:
    """The scheduler's address; None where work stays on this machine."""
    chosen = (os.environ if environment is None else environment).get(ADDRESS, "").strip()
    return chosen or None


@asynccontextmanager
async def open_cluster(
    environment: Mapping[str, str] | None = None, patience: Patience = PATIENCE
) -> AsyncIterator[Cluster | None]:
    """The configured cluster, connected for the time of the context; None where none is configured."""
    where = address(environment)
    if where is None:
        yield None
        return
    async with Cluster.opened(where, patience) as cluster:
        yield cluster
