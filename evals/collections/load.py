"""A source in, a searchable collection with checked labels out; and its later growth by models and chunk sets.

Owns the steps of a load. Each step is in a module of its own; that of labels in `load_labels`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from sqlalchemy.exc import DBAPIError

from core.chunking import chunker_from, spec_of
from core.context import Resources
from core.embedding import DEFAULT_MODEL, Embedder, embedder, stored_as
from core.errors import DimensionUnknown, InputError, RankbookError, SpecError, StoreError
from core.progress import Listener, nobody
from core.store import collections, grants, names, trash
from core.store.collections import CollectionView
from core.store.engine import Store
from core.store.ingest import Ingest, IngestReport
from core.store.names import ITEMS, trash_mark
from core.store.trash_entries import TrashEntry
from core.types import Flaw, Place
from evals.collections.load_labels import LoadReport, load_source_labels
from evals.labels import query_sets
from evals.sources import BundledSource, FolderSource, Source, bundled_names, guess, readers
from evals.sources.files import printable

DEFAULT_CHUNKS = {"default": {"kind": "headings"}}
FLAWS_SHOWN = 1000  # of a preview


class LoadPlan(BaseModel):
    """How a source's items are stored and embedded. Applied to an existing collection, it adds what is new."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    language: str = Field("english", description="The text-search configuration: english, german, simple ...")
    chunks: dict[str, dict[str, Any]] = Field(
        default_factory=lambda: dict(DEFAULT_CHUNKS), description="Chunk sets by name: a chunker and its options."
    )
    models: tuple[str, ...] = Field((DEFAULT_MODEL,), description="Embedding models; none for no vectors.")
    embed_items: bool = Field(True, description="Whether whole items get vectors too.")
    index: str = Field("vector", pattern="^(vector|halfvec|bit)$", description="What the HNSW index holds.")
    fields: tuple[str, ...] = Field((), description="Metadata fields to index, because filters use them.")
    prune: bool = Field(False, description="Whether to remove stored items that the source no longer has.")
    check: bool = Field(
        True, description="Whether to look for near-duplicates and for queries that stand in the corpus."
    )


def plan_for(source: Source, **options: Any) -> LoadPlan:
    """The plan from the options given, else from what the source asks for, else from the defaults."""
    try:
        plan = LoadPlan(**{**source.wishes(), **options})
    except ValidationError as error:
        raise SpecError.from_pydantic("The plan", error) from error
    # An existing collection that was made in another way refuses options, but not what its source asks for.
    return LoadPlan.model_construct(_fields_set=set(options), **dict(plan))


def plan_of(view: CollectionView) -> LoadPlan:
    """The plan by which the sets of a collection were made."""
    items = view.chunk_set(ITEMS)
    return LoadPlan(
        language=view.row.language,
        chunks={each.name: each.chunker for each in view.chunk_sets if each.key},
        models=tuple(dict.fromkeys(stored_as(each.model) for each in view.embedding_sets)),
        embed_items=any(each.chunk_set == items.key for each in view.embedding_sets),
        index=next((each.index for each in view.embedding_sets), "vector"),
    )


async def load_collection(
    store: Store,
    name: str,
    source: Source,
    plan: LoadPlan | None = None,
    *,
    embedders: Mapping[str, Embedder] | None = None,
    listener: Listener = nobody,
    author: str = "",
) -> LoadReport:
    """Bring a source's items, queries and labels into a collection, new or there already.

    Queries and labels that are there stay where the source has none, or would leave fewer of them.
    """
    plan = plan or plan_for(source)
    parts = await _parts(store, plan, dict(embedders or {}))
    view = await collections.find(store, name)
    source = source if view is None else source.as_loaded(view.row.origin)
    has_documents = await asyncio.to_thread(_open_all, source)
    if view is not None:
        _require_same(view, plan, parts)
        return await _load(store, view, source, plan, parts, listener, author)
    if not has_documents:
        raise InputError(f"The source holds no documents, so {name!r} was not made. Check the path and its options.")
    view = await collections.create(
        store, name, language=plan.language, card=source.card(), origin=source.spec(), fields=plan.fields
    )
    try:
        return await _load(store, view, source, plan, parts, listener, author)
    except (Exception, asyncio.CancelledError):
        await asyncio.shield(drop_if_empty(store, view.name))
        raise


@dataclass(frozen=True, slots=True)
class _PlanParts:
    """The chunkers and models of a plan, made before anything is stored, so that errors in them come first."""

    chunkers: dict[str, dict[str, Any]]
    models: list[Embedder]
    dimensions: list[int]
    known: dict[str, Embedder]
    embedded: tuple[str, ...]  # the chunk sets that get vectors


async def _parts(store: Store, plan: LoadPlan, known: dict[str, Embedder]) -> _PlanParts:
    chunkers = {
        names.checked(name, what="The chunk set's name"): spec_of(chunker_from(chunker))
        for name, chunker in plan.chunks.items()
    }
    if plan.models:
        store.capabilities.need("vector")
    models = [known.get(model) or embedder(model) for model in plan.models]
    embedded = (*([ITEMS] if plan.embed_items or not chunkers else []), *chunkers)
    return _PlanParts(chunkers, models, [await _dimension(model) for model in models], known, embedded)


def _open_all(source: Source) -> bool:
    """Read the first row of each part, so that a wrong column or path fails early; whether there are documents."""
    first = []
    for rows in (source.items, source.queries, source.labels, source.spans, source.exclusions):
        # Notes on the source as a whole are no rows.
        usable = (row for row in rows() if not isinstance(row, Flaw) or row.outcome != "noted")
        first.append(next(usable, None))
    return first[0] is not None


async def _load(
    store: Store,
    view: CollectionView,
    source: Source,
    plan: LoadPlan,
    parts: _PlanParts,
    listener: Listener,
    author: str,
) -> LoadReport:
    view = await collections.add_fields(store, view, plan.fields)
    for name, chunker in parts.chunkers.items():
        view = await collections.add_chunk_set(store, view, name, chunker)
    for model, dimension in zip(parts.models, parts.dimensions, strict=True):
        for name in parts.embedded:
            chunk_set = view.chunk_set(name)
            view = await collections.add_embedding_set(store, view, chunk_set, model.model, dimension, index=plan.index)
    models = embedders_of(view, parts.known | {each.model: each for each in parts.models})
    tokenizer = parts.models[0] if parts.models else embedder()
    ingested = await Ingest(store, view, models, tokenizer, listener).run(
        source.items(), prune=plan.prune, total=source.size()
    )
    if not view.row.version and not ingested.added:
        wrong = [flaw for flaw in ingested.flaws if flaw.outcome == "quarantined"]
        first = f" The first, {wrong[0].place}: {wrong[0].message}" if wrong else ""
        raise InputError(
            f"None of the source's documents could be read, so nothing was loaded into {view.name!r}.{first}"
        )
    if isinstance(source, FolderSource) and source.reader < readers.NEWEST:
        message = (
            f"{view.name!r} keeps the reader that it was loaded by. A newer one takes the main part of HTML pages and "
            f"reads more kinds of files: `rankbook data reload {quote(view.name)} --reader` says what that changes."
        )
        ingested.note([Flaw(Place(printable(source.path)), message, "noted")])
    report = LoadReport(view.name, ingested, flaws=list(ingested.flaws))
    await load_source_labels(store, view, source, report, listener, check=plan.check, author=author)
    async with store.begin() as connection:
        await collections.mark_loaded(connection, view.name)
    return report


def _require_same(view: CollectionView, plan: LoadPlan, parts: _PlanParts) -> None:
    """Refuse explicit options that an existing collection was made without."""
    way_out = (
        f"Leave the option out, take another name, or drop {view.name!r} with `rankbook data drop` and add it again; "
        "texts that are cached are not embedded anew."
    )
    if "language" in plan.model_fields_set and plan.language != view.row.language:
        raise StoreError(
            f"{view.name!r} was loaded with the text-search configuration {view.row.language!r}, and "
            f"{plan.language!r} was asked for. {way_out}"
        )
    chunk_sets = {each.key for each in view.chunk_sets if each.name in parts.embedded}
    for each in view.embedding_sets if "index" in plan.model_fields_set else ():
        if each.chunk_set in chunk_sets and each.model in [m.model for m in parts.models] and each.index != plan.index:
            raise StoreError(
                f"The vectors of {each.model!r} in {view.name!r} are indexed as {each.index!r}, and {plan.index!r} was "
                f"asked for. {way_out}"
            )


async def drop_if_empty(store: Store, name: str) -> None:
    """Delete a collection whose first load ended before anything was stored. Errors are ignored: the load's matters."""
    with suppress(RankbookError, DBAPIError):
        view = await collections.find(store, name)
        if view is not None and view.row.version == 0:
            async with store.begin(fresh=True) as connection:
                await collections.drop_within(connection, view)
                await query_sets.forget_within(connection, view.name)


async def _dimension(model: Embedder) -> int:
    """The model's dimension; some endpoints give it only with an embedding."""
    try:
        return model.dimension
    except DimensionUnknown:
        await model.embed(["dimension"])
        return model.dimension


def embedders_of(view: CollectionView, known: Mapping[str, Embedder]) -> dict[str, Embedder]:
    """The models of a collection, the known ones as they are."""
    ids = [each.model for each in view.embedding_sets]
    return {model: known.get(model) or embedder(stored_as(model)) for model in ids}


async def add_model(
    store: Store, view: CollectionView, model: str, chunks: tuple[str, ...], *, listener: Listener = nobody
) -> IngestReport:
    """Embed existing chunk sets with one more model."""
    used = embedder(model)
    dimension = await _dimension(used)
    for chunk_set in [view.chunk_set(name) for name in chunks]:
        view = await collections.add_embedding_set(store, view, chunk_set, used.model, dimension)
    return await Ingest(store, view, embedders_of(view, {used.model: used}), used, listener).complete()


async def add_chunk_set(
    store: Store, view: CollectionView, name: str, chunker: Mapping[str, Any], *, listener: Listener = nobody
) -> IngestReport:
    """Add a chunk set, embedded with every model of the collection."""
    models = embedders_of(view, {})
    dimensions = {model: await _dimension(each) for model, each in models.items()}
    view = await collections.add_chunk_set(store, view, name, spec_of(chunker_from(chunker)))
    for model, dimension in dimensions.items():
        view = await collections.add_embedding_set(store, view, view.chunk_set(name), model, dimension)
    tokenizer = next(iter(models.values()), None) or embedder()
    return await Ingest(store, view, models, tokenizer, listener).complete()


async def drop(store: Store, name: str, *, by: str = "") -> TrashEntry:
    """Move a collection with its labels into the trash. Judgements and stored runs stay under its name."""
    view = await collections.get(store, name)
    size = await trash.size_of(store, view.namespace)
    async with store.begin(fresh=True) as connection:
        entry = await trash.move_collection(store, connection, view, size=size, by=by)
        await query_sets.move_within(connection, view.name, trash_mark(entry.id))
    if view.row.attached is not None and not store.role:  # for an editor, the owner does it later
        await grants.revoke_unneeded(store)
    return entry


async def bring_in(
    store: Store,
    name: str,
    source: Source | Path | str | None,
    options: Mapping[str, Any],
    resources: Resources | None,
    listener: Listener,
) -> tuple[str, ...]:
    """Load what a source has and the collection lacks; without a source, a bundled collection that is not complete.

    Returns the notes on the source as `rankbook data add` prints them: all on the source as a whole, and of its rows
    how many were left out or repaired and the first of them.
    """
    if source is None:
        view = await collections.find(store, name)
        if view is None:
            missing = name in bundled_names()
        else:
            missing = view.interrupted and view.row.origin == BundledSource(name=name).spec()
        if not missing and options:
            listed = ", ".join(options)
            raise SpecError(f"{name!r} is there, and {listed} say how one is made. Name the source too, or drop it.")
        if not missing:
            return ()
    chosen = source if isinstance(source, Source) else await asyncio.to_thread(guess, source or name)
    plan = plan_for(chosen, **options)
    embedders = {model: resources.embedder(model) for model in plan.models} if resources else {}
    report = await load_collection(store, name, chosen, plan, embedders=embedders, listener=listener)
    whole = [flaw.message for flaw in report.flaws if flaw.outcome == "noted" and not flaw.subject]
    notes = [report.stay_reason, *dict.fromkeys(whole)]
    for outcome, verb in (("quarantined", "left out"), ("cleaned", "repaired")):
        if rows := [flaw for flaw in report.flaws if flaw.outcome == outcome]:
            notes.append(f"{len(rows):,} rows or files were {verb}; the first, {rows[0].place}: {rows[0].message}")
    return tuple(filter(None, notes))
