"""Ingesting an unchanged collection again."""

from __future__ import annotations

import time

from core import bridge
from core.store import collections
from core.store.engine import Store
from evals.collections import load
from evals.schema import schema_chain
from evals.sources import guess
from tests.bench.figures import SHARED, Figure, at_least


def measure() -> list[Figure]:
    return bridge.run(_measure())


async def _measure() -> list[Figure]:
    async with await Store.open(chains=[schema_chain]) as store:
        if await collections.find(store, "cranfield"):
            await collections.drop(store, "cranfield")
        times = []
        for _ in range(4):
            begun = time.perf_counter()
            added = await load.load_collection(store, "cranfield", guess(SHARED / "cranfield"))
            times.append(time.perf_counter() - begun)
    first, again = times[0], min(times[1:])
    return [
        Figure("cranfield: first ingest, seconds", f"{first:.1f}"),
        Figure("cranfield: ingested again unchanged, seconds", f"{again:.2f}"),
        at_least("cranfield: first time against again", first / again, 50, "{:.0f}"),
        Figure("cranfield: texts embedded again", str(added.report.embedded), "0", added.report.embedded == 0),
    ]
