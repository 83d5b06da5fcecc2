"""Embedding cranfield over one Dask worker and over two, a thread each; and a suite's scores over them and here."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import replace

from core import bridge
from core.context import RequestContext, Resources
from core.embedding import embedder
from core.spread import ADDRESS
from core.spread.embedding import embedding_over
from core.store import collections
from core.store.chunk_and_embed import EmbeddingCache, forget
from core.store.engine import Store
from core.variant import Variant
from evals.collections import load
from evals.evaluation.context import EvalContext
from evals.evaluation.evaluate import run_variants, score_runs
from evals.labels import query_sets
from evals.runs.plan import EvalOptions
from evals.schema import schema_chain
from evals.sources import guess
from evals.types import QuerySplit
from tests.bench.figures import SHARED, Figure, at_least, texts
from tests.bench.suite import variants
from tests.dask_clusters import Machine, machine

ROUNDS = 2
METRICS = ("ndcg@10", "recall@10")


def measure() -> list[Figure]:
    with machine(1) as one, machine(2) as two:
        return bridge.run(_measure(one, two))


async def _measure(one: Machine, two: Machine) -> list[Figure]:
    corpus = list(texts("cranfield"))
    async with await Store.open(chains=[schema_chain]) as store:
        for each in (one, two):
            await _seconds(store, each, corpus[:512])  # loads the models
        # Interleaved, so that a machine that is busy for a while is so for both.
        before = [each.busiest() for each in (one, two)]
        times = [(await _seconds(store, one, corpus), await _seconds(store, two, corpus)) for _ in range(ROUNDS)]
        alone, both = min(first for first, _ in times), min(second for _, second in times)
        busy = [each.busiest() - then for each, then in zip((one, two), before, strict=True)]
        equal = await _scores(store, two) == await _scores(store, None)
    return [
        Figure("cranfield: texts a second over one worker of one thread", f"{len(corpus) / alone:.0f}"),
        Figure("cranfield: texts a second over two of them", f"{len(corpus) / both:.0f}"),
        at_least("two workers against one", alone / both, 1.5),
        Figure("the same by the busiest worker's processor time", f"{busy[0] / busy[1]:.2f}"),
        Figure("a suite's scores over two workers and here", "equal" if equal else "NOT EQUAL", "equal", equal),
    ]


async def _seconds(store: Store, machine: Machine, corpus: Sequence[str]) -> float:
    """As an ingest embeds, vectors kept; nothing is there from before."""
    model = embedder()
    await forget(store, model.model)
    cache = EmbeddingCache(store, model)
    os.environ[ADDRESS] = machine.address
    try:
        begun = time.perf_counter()
        async with embedding_over([cache]):
            await cache.embed(corpus)
        return time.perf_counter() - begun
    finally:
        del os.environ[ADDRESS]


async def _scores(store: Store, machine: Machine | None) -> list[tuple[str, str, float]]:
    """Every variant by every metric, asked anew."""
    if await collections.find(store, "cranfield") is None:
        await load.load_collection(
            store, "cranfield", guess(SHARED / "cranfield"), load.LoadPlan(chunks={}, check=False)
        )
    labelled = await query_sets.load(store, "cranfield")
    environment = {ADDRESS: machine.address} if machine else {}
    context = RequestContext(store, await collections.get(store, "cranfield"), Resources(environment=environment))
    ground, split, wanted = (
        EvalContext(context, labelled),
        QuerySplit.of(labelled, "all"),
        EvalOptions(METRICS, again=True),
    )
    runs = await run_variants(ground, _some(), split, wanted)
    board = await score_runs(ground, split, runs, replace(wanted, baseline=None), None)
    return [(metric, name, cell.mean) for metric in METRICS for name, cell in board.cells(metric).items()]


def _some() -> list[Variant]:
    return variants()[::6]
