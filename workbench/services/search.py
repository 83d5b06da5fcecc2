"""A query searched for by several legs side by side, and what labels say of its results."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter, defaultdict
from collections.abc import Coroutine, Mapping, Sequence
from concurrent import futures
from dataclasses import dataclass, field
from typing import Any, Final

from core import bridge
from core.context import RequestContext
from core.embedding import embedder, is_served, warm_up
from core.legs import legs
from core.legs.query_terms import keywords_of
from core.pipeline.retriever import search
from core.store.collections import CollectionView
from core.store.engine import Store
from core.store.names import ITEMS
from core.store.resolve_target import search_target
from core.types import Hit, Query
from core.variant import Rollup, Variant
from evals.types import LabelledQueries
from workbench.services.snippets import WORD

LONGEST_QUERY: Final = 1000  # characters of a query
SHOWN = 10


@dataclass(frozen=True, slots=True)
class LegHits:
    """The hits of one leg, an item once by its best chunk; or the error."""

    leg: str
    hits: tuple[Hit, ...] = ()
    milliseconds: float = 0.0
    problem: Exception | None = None


@dataclass(frozen=True, slots=True)
class LegResults:
    """The results of all legs. `keywords` are the query's words without stop words."""

    key: tuple[str, ...]
    columns: Mapping[str, LegHits] = field(default_factory=dict)
    keywords: tuple[str, ...] = ()

    def ranks(self, item_id: str) -> dict[str, int]:
        """The legs that found the item, each with its rank."""
        return {
            leg: rank
            for leg, column in self.columns.items()
            for rank, hit in enumerate(column.hits, start=1)
            if hit.item_id == item_id
        }

    @property
    def failed(self) -> bool:
        return any(column.problem is not None for column in self.columns.values())

    def shared(self) -> dict[int, int]:
        """How many items were found by one leg, by two, and so on."""
        items = {hit.item_id for column in self.columns.values() for hit in column.hits}
        counts: dict[int, int] = {}
        for item_id in items:
            counts[len(self.ranks(item_id))] = counts.get(len(self.ranks(item_id)), 0) + 1
        return counts


class LegSearch:
    """A search under way."""

    def __init__(self, store: Store, view: CollectionView, text: str, chunks: str, kinds: Sequence[str]) -> None:
        self.model = search_target(store, view, chunks).model
        self._keywords = _start(_words(store, view, text))
        self._columns = {kind: _start(_column(store, view, text, chunks, kind, self.model)) for kind in kinds}

    def wait(self, seconds: float) -> bool:
        """Whether all is there, after at most that long."""
        return not futures.wait([self._keywords, *self._columns.values()], seconds).not_done

    @property
    def loading_model(self) -> bool:
        return self.model is not None and not preload_model(self.model).done()

    def ready(self) -> dict[str, LegHits]:
        """The results that are there."""
        return {kind: task.result() for kind, task in self._columns.items() if task.done()}

    def found(self, key: tuple[str, ...]) -> LegResults:
        """What is there by now."""
        return LegResults(key, self.ready(), self._keywords.result() if self._keywords.done() else ())

    def cancel(self) -> None:
        for task in (self._keywords, *self._columns.values()):
            task.cancel()


def _start(work: Coroutine[Any, Any, Any]) -> futures.Future[Any]:
    return asyncio.run_coroutine_threadsafe(work, bridge.loop())


async def _column(store: Store, view: CollectionView, text: str, chunks: str, kind: str, model: str | None) -> LegHits:
    try:
        if kind == "vector" and model is not None:
            await asyncio.shield(
                asyncio.wrap_future(preload_model(model))
            )  # so that loading it is not counted as latency
        # Items by their best chunk.
        whole = chunks == ITEMS or (view.row.attached is not None and not view.in_parts)
        rollup = None if whole else Rollup()
        variant = Variant.of_leg(legs[kind](), chunks=chunks, top_k=SHOWN, rollup=rollup).model_copy(
            update={"overfetch": 3}
        )
        bundle = await search(RequestContext(store, view), text, variant)
        return LegHits(variant.name, bundle.hits, bundle.trace.milliseconds)
    except Exception as error:  # it is drawn in the leg's column
        return LegHits(kind, problem=error)


async def _words(store: Store, view: CollectionView, text: str) -> tuple[str, ...]:
    async with store.begin(read_only=True) as connection:
        words = await connection.scalar(keywords_of(view.row.language, text)) or ""
    return tuple(dict.fromkeys(WORD.findall(words)))


# -- the model, loaded while nobody waits yet ------------------------------------------------------------------------

_warming: dict[str, futures.Future[object]] = {}
_lock = threading.Lock()


def preload_model(model: str) -> futures.Future[object]:
    """Load a model in the background, once. Loading that failed is tried again."""
    with _lock:
        begun = _warming.get(model)
        if begun is None or (begun.done() and begun.exception() is not None):
            _warming[model] = begun = _start(_load(model))
        return begun


async def _load(model: str) -> None:
    if is_served(model):
        return  # it is loaded elsewhere, and asking costs somebody money
    await warm_up(embedder(model))


EXAMPLES = 6
LONGEST_EXAMPLE = 90


@dataclass(frozen=True, slots=True)
class QueryLabels:
    """The labels of a query. Without grades it is not labelled."""

    kind: str = ""
    grades: Mapping[str, int] = field(default_factory=dict)

    @property
    def relevant(self) -> frozenset[str]:
        return frozenset(item_id for item_id, grade in self.grades.items() if grade > 0)


def query_labels(labelled: LabelledQueries, text: str) -> QueryLabels:
    """The labels of the query with exactly this text, over all splits."""
    same = {query.id: query for query in labelled.queries if query.text.strip() == text}
    grades: dict[str, int] = {}
    for label in labelled.labels:
        if label.query_id in same:
            grades[label.item_id] = max(label.grade, grades.get(label.item_id, label.grade))
    return QueryLabels(next((query.kind for query in same.values()), ""), grades)


def example_queries(labelled: LabelledQueries, most: int = EXAMPLES) -> list[Query]:
    """A few labelled queries of different kinds: of each kind first those with the most relevant documents."""
    judgements = Counter(label.query_id for label in labelled.labels if label.grade > 0)
    kinds: dict[str, list[Query]] = defaultdict(list)
    for query in labelled.queries:
        if judgements[query.id] and query.text.strip():
            kinds[query.kind].append(query)
    for queries in kinds.values():
        queries.sort(key=lambda query: (len(query.text) > LONGEST_EXAMPLE, -judgements[query.id], query.id))
    return _in_turn(list(kinds.values()), most)


def _in_turn(kinds: Sequence[Sequence[Query]], most: int) -> list[Query]:
    """The first of each kind, then the second of each, and so on."""
    deepest = max(map(len, kinds), default=0)
    turns = (queries[at] for at in range(min(deepest, most)) for queries in kinds if at < len(queries))
    return [query for query, _ in zip(turns, range(most), strict=False)]
