"""A collection with one of its query sets, opened once for all that is done with it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

from core.context import RequestContext, Resources
from core.errors import InputError, UnknownName
from core.store import collections
from core.store.collections import CollectionView
from core.store.engine import Store
from core.variant import Variant
from evals.labels import query_sets
from evals.metrics.scoring import relevant_queries
from evals.runs.plan import EvalOptions, RunPlan
from evals.runs.provenance import content_of
from evals.runs.runner import plan_runs
from evals.runs.types import RunSubject
from evals.types import ALL, DEFAULT_QUERY_SET, LabelledQueries, QuerySplit

__all__ = ["EvalContext", "EvalOptions", "default_split", "open_eval", "tuning_split"]


@dataclass(frozen=True, slots=True)
class EvalContext:
    """A collection as it was when it was opened, with one of its query sets.

    Work that would keep results is refused where the collection has moved on since: open it anew.
    """

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

    async def plan(self, variants: Sequence[Variant], split: QuerySplit, options: EvalOptions) -> RunPlan:
        """What running these variants takes, to be shown and priced before it is executed."""
        return await plan_runs(self.context, variants, split, query_set=self.query_set, options=options)

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
    view = await collections.find(store, collection)
    if view is None:
        known = [row.name for row in await collections.listed(store)]
        raise UnknownName("collection", collection, known, way_out=await asyncio.to_thread(_way_out, collection))
    labelled = await query_sets.load(store, view.name, name=query_set)
    return EvalContext(RequestContext(store, view, resources or Resources(), cancellation), labelled, query_set)


def _way_out(name: str) -> str:
    from evals.sources import bundled_names, catalog

    if name in bundled_names() or name in {entry.name for entry in catalog()}:
        return f"Load it with `rankbook data add {name}`."
    return "Add one with `rankbook data add`."


def default_split(labelled: LabelledQueries) -> str:
    """The split to take where none is named: test, or what there is."""
    splits = list(labelled.splits)
    return "test" if "test" in splits else splits[0] if len(splits) == 1 else ALL


def tuning_split(labelled: LabelledQueries) -> str:
    """The split to tune on: train, where it has the two queries that a fold needs at least."""
    return "train" if labelled.splits.get("train", 0) > 1 else default_split(labelled)
