"""Searches over a cluster: slices of a variant's queries, each searched by a worker as they would be here.

Owns which variants go: those that ask nobody outside. What waits for an endpoint gains nothing by it, and keys, and
what may be spent on a language model, are this process's. A stage that runs a model, a cross-encoder say, gains most;
its scores are equal on processors of one kind, and else differ in their last digits.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from core import bridge
from core.embedding import embedder, is_served
from core.expansion import expansions
from core.rerank import rerankers
from core.retriever import RequestContext, guarded
from core.spread import Cluster
from core.spread.answers import answering
from core.store.levels import level
from core.tasks import bounded
from core.types import Query
from core.variant import Variant
from evals.running.findings import Found
from evals.running.leg_runs import CONNECTIONS
from evals.running.packed import packed, unpacked
from evals.running.query_runs import A_BATCH, searched_side_by_side
from evals.running.workers import WorkerGround, context_on_worker, refuse_other_models
from evals.splits import Split

OUTSIDE = ("api", "llm")  # rerankers and expansions that ask an endpoint
FILES = ("synonyms",)  # and those that read files of this machine


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
    split: Split
    connections: int = CONNECTIONS

    def takes(self, variant: Variant) -> bool:
        """Whether workers can search with it as it is searched with here."""
        resources = self.context.resources
        if resources.embedder is not embedder or resources.transport is not None:
            return False  # stand-ins of this process
        at = level(self.context.store, self.context.view, variant.chunks, variant.model)
        expands = variant.expand is not None and expansions.name_of(type(variant.expand)) in OUTSIDE + FILES
        reranks = variant.rerank is not None and rerankers.name_of(type(variant.rerank)) in OUTSIDE
        return not (expands or reranks or is_served(at.model))

    async def search(
        self, variant: Variant, queries: Sequence[str], take: Callable[[Found, int], Awaitable[None]]
    ) -> None:
        """`take` is handed what each slice brings, as it comes. A token that is set stops the rest."""
        unhurried = replace(self.context, deadline=None)  # it holds for a query by itself, and goes along
        ground = WorkerGround.of(self.context)

        async def one(some: Sequence[str]) -> None:
            texts = {query: self.split.queries[query].text for query in some}
            excluded = {query: self.split.excluded[query] for query in some if query in self.split.excluded}
            asked = Searches(ground, variant, texts, excluded, self.connections)
            answer = await guarded(unhurried, self.cluster.ask(slice_searched, asked))
            await take(_unpacked(answer), len(some))

        slices = [queries[at : at + A_BATCH] for at in range(0, len(queries), A_BATCH)]
        await bounded(lambda: self.cluster.lines, slices, one)


@answering
def slice_searched(asked: Searches) -> bytes:
    """On a worker."""
    return bridge.run(_searched(asked))


async def _searched(asked: Searches) -> bytes:
    refuse_other_models(asked.ground)
    context, found = await context_on_worker(asked.ground), Found()
    split = Split("", {query: Query(query, text) for query, text in asked.texts.items()}, excluded=asked.excluded)
    await searched_side_by_side(context, split, asked.variant, list(asked.texts), asked.connections, found)
    return packed(
        found.rankings,
        failures=found.failures,
        milliseconds=found.milliseconds,
        stages=found.stages,
        notes=found.notes,
        remarks=found.remarks,
        without=found.without,
    )


def _unpacked(answer: bytes) -> Found:
    read = unpacked(answer)
    return Found(read.rankings, **{**read.more, "notes": tuple(read.more["notes"])})
