"""For `rankbook doctor`: whether the Dask cluster that is named answers, and with how many workers."""

from __future__ import annotations

from core import spread
from core.errors import ClusterFailed
from core.spread.cluster import PATIENCE, Patience
from core.store.doctor import Finding


async def examine(patience: Patience = PATIENCE) -> list[Finding]:
    """Nothing where none is named: work stays on this machine then."""
    address = spread.address()
    if address is None:
        return []
    try:
        async with spread.opened(patience=patience) as cluster:
            workers = cluster.workers if cluster else 0
    except ClusterFailed as error:
        return [Finding("Dask", f"{address} does not answer", ok=False, way_out=str(error))]
    return [Finding("Dask", f"{address}, {workers} worker{'' if workers == 1 else 's'}")]
