"""One leg over all queries: vectors embedded in fixed blocks, rankings in batches, and legs that were missing."""

from __future__ import annotations

import asyncio
import sys
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

from sqlalchemy.exc import DBAPIError

from core.context import RequestContext
from core.embedding import Vectors
from core.errors import Cancelled, ConnectionFailed, InputError, MissingCapability, RankbookError, ServerError
from core.legs import Leg, PreparedQuery
from core.legs.base import checked_text
from core.pipeline import recall
from core.pipeline.recall import LegResult
from core.pipeline.retriever import RetrievalResult
from core.progress import Listener, Step, nobody
from core.store import db_errors
from core.store.resolve_target import search_target
from core.store.search_target import SearchTarget
from core.tasks import run_cancellable, side_by_side
from core.variant import Variant
from evals.runs.checkpoints import Batches
from evals.runs.plan import LegTask, asked_of, kind_of
from evals.runs.rankings import Ranking, share_units
from evals.types import QuerySplit

if TYPE_CHECKING:
    from evals.runs.types import Run

BLOCK = 256
Block = tuple[str, ...]  # ids of queries


class QueryVectors:
    """Each block is embedded by whoever asks for one of its queries first; the others wait."""

    def __init__(self, context: RequestContext, split: QuerySplit) -> None:
        self.context, self.split = context, split
        self.milliseconds: dict[tuple[str, str], float] = {}  # by model and query: its share of the block's time
        ids = list(split.queries)
        self._block_of = {query: tuple(ids[at // BLOCK * BLOCK :][:BLOCK]) for at, query in enumerate(ids)}
        self._made: dict[tuple[str, str], Vectors] = {}
        self._failed: set[tuple[str, Block]] = set()
        self._locks: dict[tuple[str, Block], asyncio.Lock] = defaultdict(asyncio.Lock)

    async def of(self, model: str, query: str) -> Vectors:
        """The query's vector. Where its block fails, it is tried alone, so that one bad query costs no other."""
        block = (model, self._block_of[query])
        async with self._locks[block]:
            if (model, query) not in self._made and block not in self._failed:
                try:
                    await self._embed(*block)
                except RankbookError:
                    self._failed.add(block)
            if (model, query) not in self._made:
                await self._embed(model, (query,))
        return self._made[model, query]

    def has(self, model: str | None, query: str) -> bool:
        """Whether the vector is there already."""
        return (model, query) in self._made

    async def _embed(self, model: str, queries: Block) -> None:
        texts: dict[str, str] = {}
        for query in queries:
            with suppress(InputError):  # it fails where it is asked
                texts[query] = checked_text(self.split.queries[query].text)
        begun = time.perf_counter()
        vectors = await self.context.embedder(model).embed(list(texts.values()), "query")
        spent = (time.perf_counter() - begun) * 1000
        for query, vector in zip(texts, vectors, strict=True):
            self._made[model, query] = vector
            self.milliseconds[model, query] = spent / len(texts)


A_BATCH = 32  # queries: what a kill can cost, of one leg
LARGEST_BATCH = 512  # what batches of quick queries grow to
QUICK = 0.5  # seconds for a batch
CONNECTIONS = 4  # queries at once: a statement takes a process of the server, and these are ordinary machines
ENDING = (Cancelled, ConnectionFailed, ServerError)


def reason_of(error: Exception) -> str:
    """Why a query failed. Raises the error itself where it is no matter of this query."""
    if isinstance(error, DBAPIError) and not db_errors.is_lost(error):
        return f"The server refused it: {db_errors.reason(error)}"
    if isinstance(error, RankbookError) and not isinstance(error, ENDING):
        return str(error)
    raise error


@dataclass(slots=True)
class LegQueryResults:
    """What a leg found so far, by query. `missing` says why it cannot be asked; others may be fused without it."""

    rankings: dict[str, Ranking] = field(default_factory=dict)
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
        take: Callable[[LegQueryResults, int], Awaitable[None]],
    ) -> None: ...


class LegRunner:
    """All that the legs of one plan find, asked for when somebody wants it and not before."""

    def __init__(
        self,
        context: RequestContext,
        split: QuerySplit,
        batches: Batches,
        *,
        connections: int = CONNECTIONS,
        listener: Listener = nobody,
        elsewhere: LegsElsewhere | None = None,
    ) -> None:
        self.context, self.split, self.batches = context, split, batches
        self.listener, self.elsewhere = listener, elsewhere
        self._vectors = QueryVectors(context, split)
        self.asking = LegQuerier(context, split, self._vectors, connections)
        self._found: dict[tuple[str, int], LegQueryResults] = {}

    async def found(self, task: LegTask, queries: Iterable[str]) -> LegQueryResults:
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

    async def kept(self, task: LegTask) -> LegQueryResults:
        """What the leg found so far, for whomever. Asks nothing."""
        key = (task.digest, task.depth)
        if key not in self._found:
            kept = await self.batches.load(task.digest, task.depth, deeper=task.leg.deepens)
            self._found[key] = LegQueryResults(kept.rankings, kept.milliseconds)
        return self._found[key]

    async def _ask_here(self, task: LegTask, found: LegQueryResults, lacking: Sequence[str], title: str) -> None:
        done, size, where = 0, A_BATCH, self.level(task)
        while done < len(lacking):
            self.listener(Step(title, done, len(lacking), "queries"))
            begun = time.perf_counter()
            await self._ask_batch(task, where, found, lacking[done : done + size])
            done, size = done + size, following(size, time.perf_counter() - begun)

    async def _ask_elsewhere(
        self, there: LegsElsewhere, task: LegTask, found: LegQueryResults, lacking: Sequence[str], title: str
    ) -> None:
        done = 0

        async def take(answered: LegQueryResults, queries: int) -> None:
            nonlocal done
            await self._take(task, found, answered)
            done += queries
            self.listener(Step(title, done, len(lacking), "queries"))

        self.listener(Step(title, done, len(lacking), "queries"))
        await there.ask(task, lacking, self._vectors, take)

    def level(self, task: LegTask) -> SearchTarget:
        context = self.context
        return search_target(context.store, context.view, task.chunks, task.model).filtered(task.filter)

    async def _ask_batch(self, task: LegTask, at: SearchTarget, found: LegQueryResults, queries: Sequence[str]) -> None:
        """What was answered is kept, also where somebody stopped the rest."""
        answered = LegQueryResults()
        try:
            await self.asking.ask(task, at, queries, answered)
        except BaseException:
            with suppress(Exception):  # the server may be what was lost; that is what is told
                await self._save(task, answered)
            raise
        await self._take(task, found, answered)

    async def _take(self, task: LegTask, found: LegQueryResults, answered: LegQueryResults) -> None:
        answered.rankings = share_units(answered.rankings)
        await self._save(task, answered)
        for name in ("rankings", "milliseconds", "failures", "missing"):
            getattr(found, name).update(getattr(answered, name))

    async def _save(self, task: LegTask, answered: LegQueryResults) -> None:
        await self.batches.save(task.digest, task.depth, answered.rankings, answered.milliseconds)


class LegQuerier:
    """A leg asked queries, several at once, each line of them on a connection of its own. Keeps nothing."""

    def __init__(self, context: RequestContext, split: QuerySplit, vectors: ReadyOrMade, connections: int) -> None:
        self.context, self.split, self.connections = context, split, connections
        self._vectors = vectors
        self._prepared: dict[str, PreparedQuery] = {}

    async def ask(self, task: LegTask, at: SearchTarget, queries: Sequence[str], answered: LegQueryResults) -> None:
        """What is answered stands in `answered`, also where somebody stopped the rest."""
        waiting, lines = iter(queries), min(self.connections, len(queries))
        await side_by_side(*(self._ask_in_turn(task, at, waiting, answered) for _ in range(lines)))

    async def _ask_in_turn(
        self, task: LegTask, at: SearchTarget, waiting: Iterator[str], answered: LegQueryResults
    ) -> None:
        """One connection's share of a batch: it takes the next query when it is done with one."""
        async with recall.LegConnection(self.context.store, at) as line:
            for query in waiting:
                if task.leg.uses_model and not self._vectors.has(at.model, query):
                    await line.release()  # a model may take its time
                await self._ask(task, line, query, answered)

    async def _ask(self, task: LegTask, line: recall.LegConnection, query: str, answered: LegQueryResults) -> None:
        try:
            run = await run_cancellable(
                self._recalled(task, line, query), self.context.cancellation, self.context.deadline
            )
        except Exception as error:
            answered.failures[query] = reason_of(error)
            self._prepared.pop(query, None)  # an embedding that was broken off is no use to the next leg
        else:
            if run.unavailable is not None:
                answered.missing[query] = str(run.unavailable)
                return
            found = run.found.candidates
            answered.rankings[query] = Ranking([sys.intern(x.id) for x in found], [x.score for x in found])
            answered.milliseconds[query] = run.milliseconds

    async def _recalled(self, task: LegTask, line: recall.LegConnection, query: str) -> LegResult:
        """As a search asks it. The time includes the embedding, whichever leg it was made for."""
        ready = self._vectors.milliseconds.get((line.target.model or "", query), 0.0) if task.leg.uses_model else 0.0
        shut = self.split.excluded.get(query, frozenset())
        run = await line.recall(self._query(query), kind_of(task.leg), task.leg, task.depth, shut)
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


Without = Mapping[str, Mapping[str, str]]  # by leg and query, why it could not be asked


def lacking(bundle: RetrievalResult) -> dict[str, str]:
    """The legs that a search went on without, and why."""
    return {stage.name.removeprefix("leg "): stage.unavailable for stage in bundle.trace.stages if stage.unavailable}


def reasons(without: Without) -> dict[str, str]:
    """Each leg with the first reason that it had, as a run keeps it."""
    return {leg: next(iter(told.values())) for leg, told in without.items() if told}


class MissingLegProbe:
    """Whether runs' missing legs are there again. Each leg is asked once, whoever had to do without it."""

    def __init__(self, context: RequestContext, query: str) -> None:
        self.context, self.query = context, query
        self._known: dict[str, bool] = {}

    async def any_of(self, run: Run) -> bool:
        """Whether a leg answers that this run had to do without."""
        if run.variant is None:
            return False
        legs = zip(run.variant.leg_names, run.variant.legs, strict=True)
        return any([await self._answers(run.variant, leg) for name, leg in legs if name in run.without])

    async def _answers(self, variant: Variant, leg: Leg) -> bool:
        key = repr((variant.chunks, variant.model, variant.filter, sorted(asked_of(leg).items(), key=str)))
        if key not in self._known:
            self._known[key] = await self._ask(variant, leg)
        return self._known[key]

    async def _ask(self, variant: Variant, leg: Leg) -> bool:
        context = self.context
        at = search_target(context.store, context.view, variant.chunks, variant.model).filtered(variant.filter)
        try:
            await recall.recall_legs(context.store, at, PreparedQuery(self.query, self._embed), {"it": leg}, {"it": 1})
        except MissingCapability:
            return False
        except Exception as error:
            reason_of(error)  # it is there, and fails: the run that is made now will say so
        return True

    async def _embed(self, model: str, text: str) -> Vectors:
        made: Vectors = await self.context.embedder(model).embed([text], "query")
        first: Vectors = made[0]
        return first
