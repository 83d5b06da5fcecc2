"""All queries of a split, by a leg or by whole searches: kept as they are answered, here or by a cluster's workers.

Stopped at any moment, it goes on from the last batch. How one query is put to a leg is `evals.runs.queries`'s matter.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import suppress

from core.context import RequestContext
from core.progress import Listener, Step, nobody
from core.variant import Variant
from evals.runs.checkpoints import Batches
from evals.runs.dask_runs import DaskWorkers
from evals.runs.plan import CONNECTIONS, LegTask
from evals.runs.queries import LegQuerier, QueryVectors, search_queries
from evals.runs.rankings import share_units
from evals.runs.types import QueryResults
from evals.types import QuerySplit

LEG_BATCH = 32  # queries: what a kill can cost, of one leg
LARGEST_BATCH = 512  # what batches of quick queries grow to, so that keeping them costs little
QUICK = 0.5  # seconds for a batch
SEARCH_BATCH = 8  # queries: a reranker may be slow, or dear, and a kill should not cost much of it


class QueryRunner:
    """The legs and the searches of one plan, each run when its results are needed and not before."""

    def __init__(
        self,
        context: RequestContext,
        split: QuerySplit,
        batches: Batches,
        *,
        connections: int = CONNECTIONS,
        progress: Listener = nobody,
        workers: DaskWorkers | None = None,
    ) -> None:
        self.context, self.split, self.batches = context, split, batches
        self.connections, self.progress, self.workers = connections, progress, workers
        self._vectors = QueryVectors(context, split)
        self._querier = LegQuerier(context, split, self._vectors, connections)
        self._legs: dict[tuple[str, int], QueryResults] = {}

    async def run_leg(self, task: LegTask, queries: Iterable[str]) -> QueryResults:
        """What the leg finds for these queries at least, at the task's depth or deeper."""
        results = await self.kept(task)
        await self._complete(task, (task.digest, task.depth), results, list(queries), task.title)
        return results

    async def kept(self, task: LegTask) -> QueryResults:
        """What the leg found so far, for whichever variant. Asks nothing."""
        key = (task.digest, task.depth)
        if key not in self._legs:
            self._legs[key] = await self.batches.load(*key, deeper=task.leg.deepens)
        return self._legs[key]

    async def run_search(self, variant: Variant, identity: str, before: QueryResults | None = None) -> QueryResults:
        """What was kept under this identity or is known from before, and the rest as it is found now."""
        results = before or QueryResults()
        results.add(await self.batches.load(identity, 0))
        await self._complete(variant, (identity, 0), results, list(self.split.queries), f"searching {variant.name}")
        return results

    async def _complete(
        self, work: LegTask | Variant, key: tuple[str, int], results: QueryResults, queries: list[str], title: str
    ) -> None:
        """Add what is lacking for these queries, batch by batch, each kept before the next one is begun."""
        lacking, done = [query for query in queries if results.lacks(query)], 0
        if not lacking:
            return
        if len(lacking) < len(queries):
            title = f"{title}, {len(queries) - len(lacking):,} of {len(queries):,} kept"

        async def keep(found: QueryResults, count: int) -> None:
            nonlocal done
            found.rankings = share_units(found.rankings)
            await self.batches.save(*key, found)
            results.add(found)
            done += count
            self.progress(Step(title, done, len(lacking), "queries"))

        self.progress(Step(title, 0, len(lacking), "queries"))
        if self.workers is not None and self.workers.can_run(work):
            await self.workers.run(work, lacking, self._vectors, keep)
            return
        size = LEG_BATCH if isinstance(work, LegTask) else SEARCH_BATCH
        while done < len(lacking):
            some, begun, found = lacking[done : done + size], time.perf_counter(), QueryResults()
            try:
                if isinstance(work, LegTask):
                    await self._querier.ask(work, some, found)
                else:
                    await search_queries(self.context, self.split, work, some, self.connections, found)
            except BaseException:
                with suppress(Exception):  # the server may be what was lost: that error is raised
                    await self.batches.save(*key, found)
                raise
            await keep(found, len(some))
            if isinstance(work, LegTask):
                size = next_batch(size, time.perf_counter() - begun)


def next_batch(size: int, seconds: float) -> int:
    """How many queries come next, where so many took so long."""
    return min(2 * size, LARGEST_BATCH) if seconds < QUICK else size
