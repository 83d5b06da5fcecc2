"""Leg runs: each leg asked every query of a split once, several queries side by side, and kept as it goes.

Owns the asking, what becomes of a query that fails, and the memory of what was found. A query's reason is recorded and
the others go on; a lost server, a cancelled token or a collection that moves on ends all, with what was done kept.
Where the asking is done by the workers of a cluster, that is `evals.running.spread_legs`'s matter; the memory is here.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Protocol

from sqlalchemy.exc import DBAPIError

from core import recall
from core.embedding import Vectors
from core.errors import Cancelled, ConnectionFailed, RankbookError, ServerError
from core.legs import PreparedQuery
from core.recall import LegRun
from core.retriever import RequestContext, guarded
from core.store import mishaps
from core.store.levels import Level, level
from core.store.progress import Listener, Step, nobody
from core.tasks import side_by_side
from evals.rankings import Ranked, pooled
from evals.running.batches import Batches
from evals.running.plan import LegTask, kind_of
from evals.running.query_vectors import QueryVectors
from evals.splits import Split

A_BATCH = 32  # queries: what a kill can cost, of one leg
LARGEST_BATCH = 512  # what batches of quick queries grow to
QUICK = 0.5  # seconds for a batch
CONNECTIONS = 4  # queries at once: a statement takes a process of the server, and these are ordinary machines
ENDING = (Cancelled, ConnectionFailed, ServerError)


def reason_of(error: Exception) -> str:
    """Why a query failed. Raises the error itself where it is no matter of this query."""
    if isinstance(error, DBAPIError) and not mishaps.is_lost(error):
        return f"The server refused it: {mishaps.reason(error)}"
    if isinstance(error, RankbookError) and not isinstance(error, ENDING):
        return str(error)
    raise error


@dataclass(slots=True)
class LegFound:
    """What a leg found so far, by query. `missing` says why it cannot be asked; others may be fused without it."""

    rankings: dict[str, Ranked] = field(default_factory=dict)
    milliseconds: dict[str, float] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)

    def lacks(self, query: str) -> bool:
        return not any(query in each for each in (self.rankings, self.failures, self.missing))


class ReadyOrMade(Protocol):
    """Vectors of queries, and what each took, by model and query."""

    @property
    def milliseconds(self) -> Mapping[tuple[str, str], float]: ...

    def has(self, model: str | None, query: str) -> bool: ...

    async def of(self, model: str, query: str) -> Vectors: ...


class LegsElsewhere(Protocol):
    """Others who ask. They hand over what is answered slice by slice, in any order."""

    async def ask(
        self,
        task: LegTask,
        queries: Sequence[str],
        vectors: ReadyOrMade,
        take: Callable[[LegFound, int], Awaitable[None]],
    ) -> None: ...


class LegRuns:
    """All that the legs of one plan find, asked for when somebody wants it and not before."""

    def __init__(
        self,
        context: RequestContext,
        split: Split,
        batches: Batches,
        *,
        connections: int = CONNECTIONS,
        listener: Listener = nobody,
        elsewhere: LegsElsewhere | None = None,
    ) -> None:
        self.context, self.split, self.batches = context, split, batches
        self.listener, self.elsewhere = listener, elsewhere
        self._vectors = QueryVectors(context, split)
        self.asking = Asking(context, split, self._vectors, connections)
        self._found: dict[tuple[str, int], LegFound] = {}

    async def found(self, task: LegTask, queries: Iterable[str]) -> LegFound:
        """What the leg finds for these queries at least, at the task's depth or deeper."""
        found = await self.kept(task)
        wanted = list(queries)
        lacking = [query for query in wanted if found.lacks(query)]
        title = resumed(task.title, len(wanted), len(lacking))
        if lacking and self.elsewhere is not None:
            await self._ask_elsewhere(self.elsewhere, task, found, lacking, title)
        else:
            await self._ask_here(task, found, lacking, title)
        if lacking:
            self.listener(Step(title, len(lacking), len(lacking), "queries"))
        return found

    async def kept(self, task: LegTask) -> LegFound:
        """What the leg found so far, for whomever. Asks nothing."""
        key = (task.digest, task.depth)
        if key not in self._found:
            kept = await self.batches.load(task.digest, task.depth, deeper=task.leg.deepens)
            self._found[key] = LegFound(kept.rankings, kept.milliseconds)
        return self._found[key]

    async def _ask_here(self, task: LegTask, found: LegFound, lacking: Sequence[str], title: str) -> None:
        done, size, where = 0, A_BATCH, self.level(task)
        while done < len(lacking):
            self.listener(Step(title, done, len(lacking), "queries"))
            begun = time.perf_counter()
            await self._ask_batch(task, where, found, lacking[done : done + size])
            done, size = done + size, following(size, time.perf_counter() - begun)

    async def _ask_elsewhere(
        self, there: LegsElsewhere, task: LegTask, found: LegFound, lacking: Sequence[str], title: str
    ) -> None:
        done = 0

        async def take(answered: LegFound, queries: int) -> None:
            nonlocal done
            await self._take(task, found, answered)
            done += queries
            self.listener(Step(title, done, len(lacking), "queries"))

        self.listener(Step(title, done, len(lacking), "queries"))
        await there.ask(task, lacking, self._vectors, take)

    def level(self, task: LegTask) -> Level:
        context = self.context
        return level(context.store, context.view, task.chunks, task.model).narrowed(task.filter)

    async def _ask_batch(self, task: LegTask, at: Level, found: LegFound, queries: Sequence[str]) -> None:
        """What was answered is kept, also where somebody stopped the rest."""
        answered = LegFound()
        try:
            await self.asking.ask(task, at, queries, answered)
        except BaseException:
            with suppress(Exception):  # the server may be what was lost; that is what is told
                await self._save(task, answered)
            raise
        await self._take(task, found, answered)

    async def _take(self, task: LegTask, found: LegFound, answered: LegFound) -> None:
        answered.rankings = pooled(answered.rankings)
        await self._save(task, answered)
        for name in ("rankings", "milliseconds", "failures", "missing"):
            getattr(found, name).update(getattr(answered, name))

    async def _save(self, task: LegTask, answered: LegFound) -> None:
        await self.batches.save(task.digest, task.depth, answered.rankings, answered.milliseconds)


class Asking:
    """A leg asked queries, several at once, each line of them on a connection of its own. Keeps nothing."""

    def __init__(self, context: RequestContext, split: Split, vectors: ReadyOrMade, connections: int) -> None:
        self.context, self.split, self.connections = context, split, connections
        self._vectors = vectors
        self._prepared: dict[str, PreparedQuery] = {}

    async def ask(self, task: LegTask, at: Level, queries: Sequence[str], answered: LegFound) -> None:
        """What is answered stands in `answered`, also where somebody stopped the rest."""
        waiting, lines = iter(queries), min(self.connections, len(queries))
        await side_by_side(*(self._ask_in_turn(task, at, waiting, answered) for _ in range(lines)))

    async def _ask_in_turn(self, task: LegTask, at: Level, waiting: Iterator[str], answered: LegFound) -> None:
        """One connection's share of a batch: it takes the next query when it is done with one."""
        async with recall.Line(self.context.store, at) as line:
            for query in waiting:
                if task.leg.uses_model and not self._vectors.has(at.model, query):
                    await line.rest()  # a model may take its time
                await self._ask(task, line, query, answered)

    async def _ask(self, task: LegTask, line: recall.Line, query: str, answered: LegFound) -> None:
        try:
            run = await guarded(self.context, self._recalled(task, line, query))
        except Exception as error:
            answered.failures[query] = reason_of(error)
            self._prepared.pop(query, None)  # an embedding that was broken off is no use to the next leg
        else:
            if run.problem is not None:
                answered.missing[query] = str(run.problem)
                return
            found = run.found.candidates
            answered.rankings[query] = Ranked([sys.intern(x.id) for x in found], [x.score for x in found])
            answered.milliseconds[query] = run.milliseconds

    async def _recalled(self, task: LegTask, line: recall.Line, query: str) -> LegRun:
        """As a search asks it. The time includes the embedding, whichever leg it was made for."""
        ready = self._vectors.milliseconds.get((line.level.model or "", query), 0.0) if task.leg.uses_model else 0.0
        shut = self.split.excluded.get(query, frozenset())
        run = await line.ask(self._query(query), kind_of(task.leg), task.leg, task.depth, shut)
        return replace(run, milliseconds=run.milliseconds + ready)

    def _query(self, query: str) -> PreparedQuery:
        """One a query: legs share its vectors."""
        if query not in self._prepared:

            async def embed(model: str, _: str) -> Vectors:
                return await self._vectors.of(model, query)

            self._prepared[query] = PreparedQuery(self.split.queries[query].text, embed)
        return self._prepared[query]


def following(size: int, seconds: float) -> int:
    """How many queries come next, where so many took so long: more of quick ones, so that keeping them costs little."""
    return min(2 * size, LARGEST_BATCH) if seconds < QUICK else size


def resumed(title: str, wanted: int, lacking: int) -> str:
    """What a step is called that goes on with what was stopped."""
    return title if lacking == wanted else f"{title}, {wanted - lacking:,} of {wanted:,} kept"
