"""Variants that need a stage a query: searched one query at a time, several side by side, kept as they go.

Owns what of a search becomes part of a run. Timing for honest figures, one search after the other, is here too. Where
the workers of a cluster search, that is `evals.runs.dask_runs`'s matter.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from core.context import RequestContext
from core.pipeline.retriever import RetrievalResult, search
from core.progress import Listener, Step, nobody
from core.tasks import bounded
from core.types import Hit
from core.variant import Variant
from evals.runs.checkpoints import Batches
from evals.runs.leg_runs import CONNECTIONS, lacking, reason_of, resumed
from evals.runs.rankings import Ranking
from evals.runs.types import QueryResults
from evals.types import QuerySplit

PASSING_OVER = ("expand", "rerank", "late chunks")  # stages that pass results through where they cannot work
REMARKS = 5  # of a run that are told
A_BATCH = 8  # queries: a reranker may be slow, or dear, and a kill should not cost much of it


class SearchesElsewhere(Protocol):
    """Others who search. They hand over what is found slice by slice, in any order."""

    def takes(self, variant: Variant) -> bool: ...

    async def search(
        self, variant: Variant, queries: Sequence[str], take: Callable[[QueryResults, int], Awaitable[None]]
    ) -> None: ...


@dataclass(frozen=True, slots=True)
class QueryRuns:
    """Searches for one suite."""

    context: RequestContext
    split: QuerySplit
    batches: Batches
    connections: int = CONNECTIONS
    listener: Listener = nobody
    elsewhere: SearchesElsewhere | None = None

    async def searched(self, variant: Variant, identity: str, before: QueryResults | None = None) -> QueryResults:
        """What was kept under this identity or is known from before, and the rest as it is found now."""
        made = before or QueryResults()
        made.add(await self.batches.load(identity, 0))
        lacking = [query for query in self.split.queries if query not in made.rankings]
        title = resumed(f"searching {variant.name}", len(self.split.queries), len(lacking))
        if self.elsewhere is not None and self.elsewhere.takes(variant):
            await self._search_elsewhere(self.elsewhere, variant, identity, lacking, made, title)
            return made
        for at in range(0, len(lacking), A_BATCH):
            self.listener(Step(title, at, len(lacking), "queries"))
            await self._batch(variant, identity, lacking[at : at + A_BATCH], made)
        if lacking:
            self.listener(Step(title, len(lacking), len(lacking), "queries"))
        return made

    async def _search_elsewhere(
        self,
        there: SearchesElsewhere,
        variant: Variant,
        identity: str,
        lacking: Sequence[str],
        made: QueryResults,
        title: str,
    ) -> None:
        done = 0

        async def took(now: QueryResults, queries: int) -> None:
            nonlocal done
            await self._save(identity, now)
            made.add(now)
            done += queries
            self.listener(Step(title, done, len(lacking), "queries"))

        self.listener(Step(title, 0, len(lacking), "queries"))
        await there.search(variant, lacking, took)

    async def _batch(self, variant: Variant, identity: str, queries: Sequence[str], made: QueryResults) -> None:
        now = QueryResults()
        try:
            await searched_side_by_side(self.context, self.split, variant, queries, self.connections, now)
        except BaseException:
            with suppress(Exception):  # the server may be what was lost; that is what is told
                await self._save(identity, now)
            raise
        await self._save(identity, now)
        made.add(now)

    async def _save(self, identity: str, now: QueryResults) -> None:
        """Of queries that are whole: where one failed, or a leg was missing, it is asked again after a stop."""
        partial = now.failures.keys() | {query for told in now.without.values() for query in told}
        there = {query: ranked for query, ranked in now.rankings.items() if query not in partial}
        remarks = {each: [query for query in of if query not in partial] for each, of in now.remarks.items()}
        remarks = {each: of for each, of in remarks.items() if of}
        await self.batches.save(identity, 0, there, now.milliseconds, now.stages, remarks)

    async def timed(self, variant: Variant, count: int) -> QueryResults:
        """So many queries searched with the variant as it ships, one after the other, after one that nobody times."""
        found, chosen = QueryResults(), evenly(list(self.split.queries), count)
        for at, query in enumerate([*chosen[:1], *chosen]):
            self.listener(Step(f"timing {variant.name}", max(at - 1, 0), len(chosen), "queries"))
            with suppress_failure():
                note_times(found, query, await search(self.context, self.split.queries[query].text, variant))
        self.listener(Step(f"timing {variant.name}", len(chosen), len(chosen), "queries"))
        return found


async def searched_side_by_side(
    context: RequestContext, split: QuerySplit, variant: Variant, queries: Sequence[str], most: int, now: QueryResults
) -> None:
    """What comes of each query, so many at once, stands in `now`."""

    async def one(query: str) -> None:
        try:
            bundle = await _searched(context, split, query, variant)
        except Exception as error:
            now.failures[query], now.rankings[query] = reason_of(error), Ranking()
        else:
            remarks = {remark: [query] for remark in remarks_of(bundle)}
            without = {leg: {query: why} for leg, why in lacking(bundle).items()}
            now.add(QueryResults({query: ranked_of((*bundle.hits, *bundle.beyond))}, remarks=remarks, without=without))
            note_times(now, query, bundle)

    await bounded(most, queries, one)


async def _searched(context: RequestContext, split: QuerySplit, query: str, variant: Variant) -> RetrievalResult:
    excluded = split.excluded.get(query, frozenset())
    return await search(context, split.queries[query].text, variant, excluded=excluded)


class suppress_failure:  # noqa: N801 - it reads as `suppress` does
    """A query that fails has no time; its reason stands in the run already. What ends a suite ends it here too."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, _: object, error: BaseException | None, __: object) -> bool:
        if isinstance(error, Exception):
            reason_of(error)
            return True
        return False


def evenly(queries: Sequence[str], count: int) -> list[str]:
    """So many of the queries, spread over all: the same ones every time."""
    count = min(count, len(queries))
    return [queries[at * len(queries) // count] for at in range(count)]


def ranked_of(hits: Sequence[Hit]) -> Ranking:
    """A search's hits as a run keeps them."""
    ids, items = tuple(hit.id for hit in hits), tuple(hit.item_id for hit in hits)
    spans = tuple((hit.start, hit.end) for hit in hits if hit.start is not None and hit.end is not None)
    scores = tuple(hit.score for hit in hits)
    return Ranking(ids, scores, () if items == ids else items, spans if len(spans) == len(ids) else ())


def note_times(found: QueryResults, query: str, bundle: RetrievalResult) -> None:
    found.milliseconds[query] = bundle.trace.milliseconds
    for stage, spent in bundle.trace.timing_ms.items():
        found.stages.setdefault(stage, {})[query] = spent


def remarks_of(bundle: RetrievalResult) -> list[str]:
    """What a stage could not do and passed over: a leg that is not there, a reranker or a model that did not answer.

    The ranking is then another than the variant's name promises, so a run has to say it.
    """
    return list(
        dict.fromkeys(
            f"{stage.name}: {note}"
            for stage in bundle.trace.stages
            for note in stage.notes
            if stage.name in PASSING_OVER or stage.unavailable
        )
    )


def told(remarks: Mapping[str, Sequence[str]], queries: int) -> tuple[str, ...]:
    """Remarks as a run's notes, the most frequent first."""
    ordered = sorted(remarks.items(), key=lambda pair: (-len(set(pair[1])), pair[0]))
    said = tuple(f"{len(set(ids))} of {queries} queries: {remark}" for remark, ids in ordered[:REMARKS])
    more = len(ordered) - len(said)
    return (*said, f"... and {more} more remarks of single stages.") if more else said
