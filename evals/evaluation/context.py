"""A collection with one of its query sets, opened for evaluation; and the options of an evaluation."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace

from core.context import RequestContext, Resources
from core.errors import InputError, UnknownName
from core.store import collections
from core.store.collections import CollectionView
from core.store.engine import Store
from core.variant import Variant
from evals.evaluation.board import DEFAULT_RULES, METRICS
from evals.labels import query_sets
from evals.measures import Metric
from evals.metrics.scoring import relevant_queries
from evals.runs.provenance import content_of
from evals.runs.runner import RunOptions
from evals.runs.types import RunSubject
from evals.statistics.verdicts import Rules
from evals.types import ALL, DEFAULT_QUERY_SET, LabelledQueries, QuerySplit

DEPTH = 100  # of a deep run at least


@dataclass(frozen=True, slots=True)
class EvalContext:
    """A collection with one of its query sets, ready to be asked."""

    context: RequestContext
    labelled: LabelledQueries
    query_set: str = DEFAULT_QUERY_SET

    @property
    def store(self) -> Store:
        return self.context.store

    @property
    def view(self) -> CollectionView:
        return self.context.view

    def until(self, token: asyncio.Event) -> EvalContext:
        """The same, stopped by that token."""
        return replace(self, context=replace(self.context, cancellation=token))

    def split(self, name: str) -> QuerySplit:
        """The queries of that split; refused where none can be scored."""
        split = self.any_split(name)
        if not relevant_queries(split.grades) and not split.spans:
            raise InputError(
                f"No query of {self.view.name!r}, split {name!r}, has a relevant document or an answer span, so "
                "nothing can be scored. Judge what runs find (`rankbook judge`), or compare runs without labels "
                "(`rankbook compare A B --overlap`)."
            )
        return split

    def any_split(self, name: str) -> QuerySplit:
        """The same, labelled or not."""
        split = QuerySplit.of(self.labelled, name)
        if not split.queries:
            raise InputError(
                f"The query set {self.query_set!r} of {self.view.name!r} has no query. Add some with "
                f"`rankbook queries add {self.view.name}`, or make some with `rankbook queries generate`."
            )
        return split

    async def subject(self, split: QuerySplit) -> RunSubject:
        """What a run over it now would be over."""
        content = await content_of(self.store, self.view)
        return RunSubject(self.view.name, self.view.row.version, self.query_set, split.digest, split.name, content)


async def open_eval(
    store: Store,
    collection: str,
    query_set: str = DEFAULT_QUERY_SET,
    *,
    resources: Resources | None = None,
    cancellation: asyncio.Event | None = None,
) -> EvalContext:
    """The collection and its queries, or a sentence that says how to come by them."""
    view = await _view(store, collection)
    labelled = await query_sets.load(store, view.name, name=query_set)
    return EvalContext(RequestContext(store, view, resources or Resources(), cancellation), labelled, query_set)


async def _view(store: Store, name: str) -> CollectionView:
    found = await collections.find(store, name)
    if found is None:
        known = [row.name for row in await collections.listed(store)]
        raise UnknownName("collection", name, known, way_out=await asyncio.to_thread(_way_out, name))
    return found


def _way_out(name: str) -> str:
    from evals.sources import bundled_names, catalog

    if name in bundled_names() or name in {entry.name for entry in catalog()}:
        return f"Load it with `rankbook data add {name}`."
    return "Add one with `rankbook data add`."


@dataclass(frozen=True, slots=True)
class EvalOptions:
    """How variants are run and scored: as they ship, or asked as deep as the deepest metric looks.

    `also` are metrics that are scored and that the table does not show; `cells` the ids of variants of a suite's grid.
    `rename` is the runner's.
    """

    metrics: tuple[str, ...] = METRICS
    baseline: str | None = None
    as_shipped: bool = True
    again: bool = False
    time_live: int = 0
    rules: Rules = DEFAULT_RULES
    also: tuple[str, ...] = ()
    cells: frozenset[str] = frozenset()
    rename: bool = True

    @property
    def depth(self) -> int:
        """How deep a deep run is: to the deepest cut-off, and never less than is usual, as a metric's value must not
        hang on what else was asked for. So a kept run serves whatever metrics are wanted next.
        """
        return max(DEPTH, *(Metric.parse(each).cutoff or 0 for each in (*self.metrics, *self.also)))

    @property
    def options(self) -> RunOptions:
        return RunOptions(0 if self.as_shipped else self.depth, self.again, self.time_live, rename=self.rename)

    @property
    def deep(self) -> EvalOptions:
        """The same for deep runs, which nobody ships, times or has named."""
        return replace(self, as_shipped=False, time_live=0, rename=False)

    def beyond(self, variant: Variant) -> bool:
        """Whether a metric counts more than the variant ships, so that it takes a deep run of its own."""
        return self.as_shipped and any(
            (Metric.parse(each).cutoff or 0) > variant.top_k for each in (*self.metrics, *self.also)
        )


def default_split(labelled: LabelledQueries) -> str:
    """The split to take where none is named: test, or what there is."""
    splits = list(labelled.splits)
    return "test" if "test" in splits else splits[0] if len(splits) == 1 else ALL


def tuning_split(labelled: LabelledQueries) -> str:
    """Where weights are looked for: train, where there is any of it; a fold needs two queries at least."""
    return "train" if labelled.splits.get("train", 0) > 1 else default_split(labelled)
