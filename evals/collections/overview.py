"""Summaries of collections: contents, state, sets, labels, and the recall of a vector index."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import func, select

from core.context import RequestContext
from core.errors import ConnectionFailed, InputError, StoreError
from core.expansion import ExpandedQuery
from core.legs.vector import VectorLeg
from core.pipeline.recall import prepare_query
from core.store import attached, collections, locks, names
from core.store.collections import CollectionView
from core.store.engine import Store
from core.store.schema import ItemRow
from core.store.search_target import SearchTarget
from evals.labels import query_sets
from evals.sources import BundledSource
from evals.types import DEFAULT_QUERY_SET

INTERRUPTED = "loading was interrupted"


@dataclass(frozen=True, slots=True)
class CollectionOverview:
    """A collection in one line."""

    name: str
    items: int
    chunk_sets: str
    models: str
    queries: int
    changed: datetime
    state: str = "loaded"


async def overview(store: Store) -> list[CollectionOverview]:
    """Every collection, in the order of their names."""
    return [summarised for summarised, _ in await overviews_with_views(store)]


async def overviews_with_views(store: Store) -> list[tuple[CollectionOverview, CollectionView]]:
    """Every collection with its view. One that cannot be opened does not hide the others."""
    unreachable: list[str] = []
    overviews = []
    for row in await collections.listed(store):
        view = CollectionView(row)
        try:
            view = await collections.get(store, row.name)
            overviews.append((await summary(store, view, unreachable), view))
        except StoreError as error:
            overviews.append((CollectionOverview(row.name, 0, "", "", 0, row.changed_at, str(error)), view))
    return overviews


async def summary(store: Store, view: CollectionView, unreachable: list[str] | None = None) -> CollectionOverview:
    """A collection in one line. `unreachable` collects errors of lost nodes, so that one is waited for only once."""
    state = await _state(store, view)
    unreachable = [] if unreachable is None else unreachable
    chunk_sets = ", ".join(each.name for each in view.chunk_sets if each.key)
    models = ", ".join(dict.fromkeys(each.model for each in view.embedding_sets))
    if view.row.attached:
        attachment = attached.Attachment.of(view)
        chunk_sets, models = f"attached: {attachment.table.full_name}", attachment.table.model or ""
        try:
            items = await attached.count(store, attachment.table, attachment.facts)
        except StoreError as error:  # one lost table must not hide the other collections
            items, state = 0, str(error)
    else:
        items = view.chunk_set(names.ITEMS).units
        try:
            if not unreachable:
                async with store.begin(view.namespace, read_only=True) as connection:
                    items = int(await connection.scalar(select(func.count()).select_from(ItemRow)) or 0)
        except ConnectionFailed as error:  # a node of a cluster is down, and its coordinator is there
            unreachable.append(str(error))
        if unreachable:
            state = unreachable[0]
    return CollectionOverview(
        view.name,
        items,
        chunk_sets,
        models,
        await query_sets.count(store, view.name),
        view.row.changed_at,
        state,
    )


async def _state(store: Store, view: CollectionView) -> str:
    if not view.interrupted:
        return "loaded"
    return "being loaded" if await locks.is_being_loaded(store, view.name) else INTERRUPTED


async def needs_demo(store: Store, name: str) -> bool:
    """Whether the demo is to be loaded or completed; never into a collection of that name that is not the demo."""
    rows = {row.name: row for row in await collections.listed(store)}
    demo = rows.get(names.composed(name))
    if demo is None:
        return not any(row.loaded_at for row in rows.values())
    if demo.attached is not None or demo.origin not in ({}, BundledSource(name=name).spec()):
        return False
    return await _state(store, await collections.get(store, name)) == INTERRUPTED


async def describe(store: Store, name: str, *, query_set: str = DEFAULT_QUERY_SET) -> dict[str, Any]:
    """Everything about a collection, as plain data under headings. Queries and labels are those of one query set."""
    view = await collections.get(store, name)
    labelled = await query_sets.load(store, view.name, name=query_set)
    row = view.row
    facts = asdict(await summary(store, view)) | {
        "language": row.language,
        "version": row.version,
        "indexed fields": ", ".join(row.fields),
        "from": json.dumps(row.attached or row.origin),
    }
    models = {each.key: each.model for each in view.embedding_sets}
    return {
        view.name: facts,
        "Chunk sets": [
            {
                "name": each.name,
                "chunker": json.dumps(each.chunker),
                "texts": each.units,
                "words": each.length,
                "models": ", ".join(models[m.key] for m in view.embedding_sets if m.chunk_set == each.key),
            }
            for each in view.chunk_sets
        ],
        "Query sets": [asdict(each) for each in await query_sets.summaries(store, view.name)],
        "Queries by split": [{"split": split, "labelled queries": count} for split, count in labelled.splits.items()],
        "Queries by kind": [
            {"kind": kind or "(none)", "queries": count}
            for kind, count in sorted(Counter(query.kind for query in labelled.queries).items())
        ],
        "Labels by grade": [
            {"grade": grade, "labels": count}
            for grade, count in sorted(Counter(label.grade for label in labelled.labels).items())
        ],
        "Noted at import": await query_sets.flaws(store, view.name, name=query_set),
    }


async def query_texts(context: RequestContext, most: int) -> list[str]:
    """The first queries of the collection in the order of ids; an InputError if there are none."""
    name = context.view.name
    texts = [each.text for each in (await query_sets.load(context.store, name)).queries if each.text.strip()]
    if not texts:
        raise InputError(f"{name!r} has no queries to measure by. Add some: rankbook queries add {name} FILE")
    return texts[:most]


async def index_recall(context: RequestContext, where: SearchTarget, texts: Sequence[str], depth: int) -> list[float]:
    """The recall of each query, measured with the vector leg at its defaults."""
    recalls, leg = [], VectorLeg()
    for text in texts:
        query = prepare_query(context.embedder, ExpandedQuery.unchanged(text))
        await leg.prepare(where, query)
        async with context.store.begin(where.namespace, read_only=True) as connection:
            recalls.append(await leg.measured_recall(connection, where, query, depth))
    return recalls
