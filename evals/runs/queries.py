"""Queries put to one leg or to one variant, several at a time, and the queries' vectors. Keeps nothing in the store."""

from __future__ import annotations

import asyncio
import sys
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from sqlalchemy.exc import DBAPIError

from core.context import RequestContext
from core.embedding import Vectors
from core.errors import (
    Cancelled,
    ConnectionFailed,
    EmbeddingError,
    InputError,
    MissingCapability,
    RankbookError,
    ServerError,
)
from core.legs import Leg, PreparedQuery
from core.legs.base import checked_text
from core.pipeline.recall import LegConnection, recall_legs
from core.pipeline.retriever import RetrievalResult, search
from core.progress import Listener, Step
from core.store import db_errors
from core.store.resolve_target import search_target
from core.store.search_target import SearchTarget
from core.tasks import bounded, run_cancellable, side_by_side
from core.types import Hit
from core.variant import Variant
from evals.runs.plan import LegTask, kind_of, options_of
from evals.runs.rankings import Ranking
from evals.runs.types import QueryResults, Run
from evals.types import QuerySplit

BLOCK = 256  # queries that are embedded together
FATAL = (Cancelled, ConnectionFailed, ServerError)
PASSING_OVER = ("expand", "rerank", "late chunks")  # stages that pass results through where they cannot work
ModelQuery = tuple[str, str]  # a model, and a query's id


def reason_of(error: Exception) -> str:
    """Why a query failed. Raises the error itself where it is no matter of this query."""
    if isinstance(error, DBAPIError) and not db_errors.is_lost(error):
        return f"The server refused it: {db_errors.reason(error)}"
    if isinstance(error, RankbookError) and not isinstance(error, FATAL):
        return str(error)
    raise error


class QueryVectors:
    """The queries' vectors, embedded in fixed blocks, so that the same queries always give the same.

    Whoever needs a query first embeds its block; the others wait. A worker is handed the vectors, or why there are
    none (`refused`), and embeds nothing. `milliseconds` are each query's share of its block's time.
    """

    def __init__(
        self,
        context: RequestContext,
        split: QuerySplit,
        vectors: Mapping[ModelQuery, Vectors] | None = None,
        refused: Mapping[ModelQuery, str] | None = None,
        milliseconds: Mapping[ModelQuery, float] | None = None,
    ) -> None:
        self.context, self.split = context, split
        self.milliseconds = dict(milliseconds or {})
        self._vectors, self._refused = dict(vectors or {}), refused or {}
        ids = list(split.queries)
        self._block_of = {query: tuple(ids[at // BLOCK * BLOCK :][:BLOCK]) for at, query in enumerate(ids)}
        self._failed: set[tuple[str, tuple[str, ...]]] = set()
        self._locks: dict[tuple[str, tuple[str, ...]], asyncio.Lock] = defaultdict(asyncio.Lock)

    async def of(self, model: str, query: str) -> Vectors:
        """The query's vector. Where its block fails, it is tried alone, so that one bad query costs no other."""
        if (model, query) in self._refused:
            raise EmbeddingError(self._refused[model, query])
        block = (model, self._block_of[query])
        async with self._locks[block]:
            if not self.has(model, query) and block not in self._failed:
                try:
                    await self._embed(*block)
                except RankbookError:
                    self._failed.add(block)
            if not self.has(model, query):
                await self._embed(model, (query,))
        return self._vectors[model, query]

    def has(self, model: str | None, query: str) -> bool:
        """Whether the vector is there already."""
        return (model, query) in self._vectors

    async def _embed(self, model: str, queries: Sequence[str]) -> None:
        texts: dict[str, str] = {}
        for query in queries:
            with suppress(InputError):  # the query fails when it is searched
                texts[query] = checked_text(self.split.queries[query].text)
        begun = time.perf_counter()
        vectors = await self.context.embedder(model).embed(list(texts.values()), "query")
        spent = (time.perf_counter() - begun) * 1000
        for query, vector in zip(texts, vectors, strict=True):
            self._vectors[model, query] = vector
            self.milliseconds[model, query] = spent / len(texts)


# -- legs --------------------------------------------------------------------------------------------------------------


def leg_target(context: RequestContext, task: LegTask) -> SearchTarget:
    """What the task's leg searches."""
    return search_target(context.store, context.view, task.chunks, task.model).filtered(task.filter)


class LegQuerier:
    """Puts queries to legs, several at once over as many connections. All legs share the queries' vectors."""

    def __init__(self, context: RequestContext, split: QuerySplit, vectors: QueryVectors, connections: int) -> None:
        self.context, self.split, self.vectors, self.connections = context, split, vectors, connections
        self._prepared: dict[str, PreparedQuery] = {}

    async def ask(self, task: LegTask, queries: Sequence[str], results: QueryResults) -> None:
        """Adds to `results` query by query: they hold what was answered, also where the rest was stopped."""
        target, waiting = leg_target(self.context, task), iter(queries)

        async def ask_in_turn() -> None:
            async with LegConnection(self.context.store, target) as connection:
                for query in waiting:
                    if task.leg.uses_model and not self.vectors.has(target.model, query):
                        await connection.release()  # a model may take its time
                    await self._ask(task, connection, target.model, query, results)

        await side_by_side(*(ask_in_turn() for _ in range(min(self.connections, len(queries)))))

    async def _ask(
        self, task: LegTask, connection: LegConnection, model: str | None, query: str, results: QueryResults
    ) -> None:
        """As a search asks it. The time includes the embedding, whichever leg it was made for."""
        embedding = self.vectors.milliseconds.get((model or "", query), 0.0) if task.leg.uses_model else 0.0
        kind, excluded = kind_of(task.leg), self.split.excluded.get(query, frozenset())
        if query not in self._prepared:

            async def embed(model: str, _: str) -> Vectors:
                return await self.vectors.of(model, query)

            self._prepared[query] = PreparedQuery(self.split.queries[query].text, embed)
        try:
            recalling = connection.recall(self._prepared[query], kind, task.leg, task.depth, excluded)
            answer = await run_cancellable(recalling, self.context.cancellation, self.context.deadline)
        except Exception as error:
            results.failures[query] = reason_of(error)
            self._prepared.pop(query, None)  # an embedding that was broken off is no use to the next leg
            return
        if answer.unavailable is not None:
            results.unavailable.setdefault(kind, {})[query] = str(answer.unavailable)
            return
        candidates = answer.found.candidates
        results.rankings[query] = Ranking([sys.intern(x.id) for x in candidates], [x.score for x in candidates])
        results.milliseconds[query] = answer.milliseconds + embedding


class MissingLegProbe:
    """Whether legs that were missing in runs answer again. Each leg is tried once, whichever runs lack it."""

    def __init__(self, context: RequestContext, split: QuerySplit) -> None:
        self.context = context
        self.query = next((query.text for query in split.queries.values()), "")
        self._known: dict[str, bool] = {}

    async def any_is_back(self, run: Run) -> bool:
        """Whether a leg answers that was missing in this run."""
        variant = run.variant
        if variant is None:
            return False
        found = False
        for name, leg in zip(variant.leg_names, variant.legs, strict=True):
            if name not in run.without:
                continue
            key = repr((variant.chunks, variant.model, variant.filter, sorted(options_of(leg).items(), key=str)))
            if key not in self._known:
                self._known[key] = await self._answers(variant, leg)
            found |= self._known[key]
        return found

    async def _answers(self, variant: Variant, leg: Leg) -> bool:
        async def embed(model: str, text: str) -> Any:
            return (await self.context.embedder(model).embed([text], "query"))[0]

        store = self.context.store
        target = search_target(store, self.context.view, variant.chunks, variant.model).filtered(variant.filter)
        try:
            await recall_legs(store, target, PreparedQuery(self.query, embed), {"it": leg}, {"it": 1})
        except MissingCapability:
            return False
        except Exception as error:
            reason_of(error)  # it is there, and fails: the run that is made now will say so
        return True


# -- whole searches ----------------------------------------------------------------------------------------------------


async def search_queries(
    context: RequestContext,
    split: QuerySplit,
    variant: Variant,
    queries: Sequence[str],
    connections: int,
    results: QueryResults,
) -> None:
    """Adds to `results` query by query: they hold what was answered, also where the rest was stopped."""

    async def one(query: str) -> None:
        excluded = split.excluded.get(query, frozenset())
        try:
            found = await search(context, split.queries[query].text, variant, excluded=excluded)
        except Exception as error:
            results.failures[query], results.rankings[query] = reason_of(error), Ranking()
            return
        results.rankings[query] = ranking_of((*found.hits, *found.beyond))
        for remark in remarks_of(found):
            results.remarks.setdefault(remark, []).append(query)
        for leg, reason in missing_legs(found).items():
            results.unavailable.setdefault(leg, {})[query] = reason
        note_times(results, query, found)

    await bounded(connections, queries, one)


async def time_queries(
    context: RequestContext, split: QuerySplit, variant: Variant, count: int, progress: Listener
) -> QueryResults:
    """The times of so many queries, spread over all and the same ones every time, searched one after the other.

    One that is not timed goes before them. A query that fails has no time; the run says why already.
    """
    results, ids, title = QueryResults(), list(split.queries), f"timing {variant.name}"
    count = min(count, len(ids))
    chosen = [ids[at * len(ids) // count] for at in range(count)]
    for at, query in enumerate([*chosen[:1], *chosen]):
        progress(Step(title, max(at - 1, 0), count, "queries"))
        try:
            note_times(results, query, await search(context, split.queries[query].text, variant))
        except Exception as error:
            reason_of(error)  # raises what ends a suite
    progress(Step(title, count, count, "queries"))
    return results


def ranking_of(hits: Sequence[Hit]) -> Ranking:
    """A search's hits as a run keeps them."""
    ids, items = tuple(hit.id for hit in hits), tuple(hit.item_id for hit in hits)
    spans = tuple((hit.start, hit.end) for hit in hits if hit.start is not None and hit.end is not None)
    scores = tuple(hit.score for hit in hits)
    return Ranking(ids, scores, () if items == ids else items, spans if len(spans) == len(ids) else ())


def note_times(results: QueryResults, query: str, found: RetrievalResult) -> None:
    results.milliseconds[query] = found.trace.milliseconds
    for stage, spent in found.trace.timing_ms.items():
        results.stages.setdefault(stage, {})[query] = spent


def missing_legs(found: RetrievalResult) -> dict[str, str]:
    """The legs that a search went on without, and why."""
    return {stage.name.removeprefix("leg "): stage.unavailable for stage in found.trace.stages if stage.unavailable}


def remarks_of(found: RetrievalResult) -> list[str]:
    """What a stage could not do and passed over: a leg that is not there, a reranker or a model that did not answer.

    The ranking is then another than the variant's name promises, so a run has to say it.
    """
    return list(
        dict.fromkeys(
            f"{stage.name}: {note}"
            for stage in found.trace.stages
            for note in stage.notes
            if stage.name in PASSING_OVER or stage.unavailable
        )
    )
