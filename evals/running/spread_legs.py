"""Leg runs over a cluster: slices of a leg's queries, each asked by a worker, of the same database with the same SQL.

Queries are embedded here, in the blocks that they always have, and their vectors sent along: rankings are equal to the
last bit whatever processors the workers have, and workers need no model. What a slice brings is kept here, by whoever
wanted it; a worker that dies costs its slice, which another one is given.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from core import bridge
from core.embedding import Vectors
from core.errors import EmbeddingError
from core.legs.base import checked_text
from core.retriever import RequestContext, guarded
from core.spread import Cluster
from core.spread.answers import answering
from core.store.levels import level
from core.tasks import bounded
from core.types import Query
from evals.running.leg_runs import CONNECTIONS, Asking, LegFound, ReadyOrMade, reason_of
from evals.running.packed import packed, unpacked
from evals.running.plan import LegTask
from evals.running.workers import WorkerGround, context_on_worker
from evals.splits import Split

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
    split: Split
    connections: int = CONNECTIONS

    async def ask(
        self,
        task: LegTask,
        queries: Sequence[str],
        vectors: ReadyOrMade,
        take: Callable[[LegFound, int], Awaitable[None]],
    ) -> None:
        """`take` is handed what each slice brings, as it comes. A token that is set stops the rest."""
        unhurried = replace(self.context, deadline=None)  # it holds for a query by itself, and goes along

        async def one(some: Sequence[str]) -> None:
            slice_ = await self._slice(task, some, vectors)
            answer = await guarded(unhurried, self.cluster.ask(slice_answered, slice_))
            await take(_unpacked(answer), len(some))

        slices = [queries[at : at + A_SLICE] for at in range(0, len(queries), A_SLICE)]
        await bounded(lambda: self.cluster.lines, slices, one)

    async def _slice(self, task: LegTask, queries: Sequence[str], vectors: ReadyOrMade) -> Slice:
        texts = {query: self.split.queries[query].text for query in queries}
        excluded = {query: self.split.excluded[query] for query in queries if query in self.split.excluded}
        made = Slice(self._ground, task, texts, excluded, self.connections)
        model = level(self.context.store, self.context.view, task.chunks, task.model).model
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


@answering
def slice_answered(asked: Slice) -> bytes:
    """On a worker."""
    return bridge.run(_answered(asked))


async def _answered(asked: Slice) -> bytes:
    context, task, answered = await context_on_worker(asked.ground), asked.task, LegFound()
    split = Split("", {query: Query(query, text) for query, text in asked.texts.items()}, excluded=asked.excluded)
    at = level(context.store, context.view, task.chunks, task.model).narrowed(task.filter)
    await Asking(context, split, Ready(asked), asked.connections).ask(task, at, list(asked.texts), answered)
    return packed(
        answered.rankings,
        milliseconds=answered.milliseconds,
        failures=answered.failures,
        missing=answered.missing,
    )


def _unpacked(answer: bytes) -> LegFound:
    read = unpacked(answer)
    return LegFound(read.rankings, read.more["milliseconds"], read.more["failures"], read.more["missing"])
