"""Labelled collections: a source in, a searchable collection with checked labels out."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from shlex import quote
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from sqlalchemy.exc import DBAPIError

from core.chunking import chunker_from, spec_of
from core.embedding import DEFAULT_MODEL, Embedder, embedder, stored_as
from core.errors import DimensionUnknown, InputError, RankbookError, SpecError, StoreError
from core.store import collections, fields, names
from core.store.collections import View
from core.store.engine import Store
from core.store.ingest import Ingest, Report
from core.store.names import ITEMS
from core.store.progress import Listener, nobody
from core.types import Flaw, Place
from evals import checks, labelling, query_sets
from evals.labels import CheckedLabels
from evals.sources import FolderSource, Source, readers
from evals.sources.walk import printable

DEFAULT_CHUNKS = {"default": {"kind": "headings"}}
FLAWS_SHOWN = 1000  # of a preview


class Plan(BaseModel):
    """What to make of a source's items. Given again for a collection that is there, it adds what is new."""

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


def plan_for(source: Source, **given: Any) -> Plan:
    """What was given, over what the source itself asks for, over the defaults."""
    try:
        plan = Plan(**{**source.wishes(), **given})
    except ValidationError as error:
        raise SpecError.from_pydantic("The plan", error) from error
    # A wish is no request: a collection that was made otherwise need not refuse it.
    return Plan.model_construct(_fields_set=set(given), **dict(plan))


def plan_of(view: View) -> Plan:
    """What the sets that are there say of the plan that they were made by."""
    items = view.chunk_set(ITEMS)
    return Plan(
        language=view.row.language,
        chunks={each.name: each.chunker for each in view.chunk_sets if each.key},
        models=tuple(dict.fromkeys(stored_as(each.model) for each in view.embedding_sets)),
        embed_items=any(each.chunk_set == items.key for each in view.embedding_sets),
        index=next((each.index for each in view.embedding_sets), "vector"),
    )


@dataclass(slots=True)
class Added:
    """What came of it: the ingest's report, the labels' sizes, and every flaw found."""

    name: str
    report: Report
    queries: int = 0
    labels: int = 0
    splits: dict[str, int] = field(default_factory=dict)
    flaws: list[Flaw] = field(default_factory=list)


async def add(
    store: Store,
    name: str,
    source: Source,
    plan: Plan | None = None,
    *,
    embedders: Mapping[str, Embedder] | None = None,
    listener: Listener = nobody,
) -> Added:
    """Bring a source's items, queries and labels into a collection, new or there already."""
    plan = plan or plan_for(source)
    parts = await _parts(store, plan, dict(embedders or {}))
    view = await collections.find(store, name)
    source = source if view is None else source.as_loaded(view.row.origin)
    some = await asyncio.to_thread(_begins, source)
    if view is not None:
        _refuse_otherwise(view, plan, parts)
        return await _load(store, view, source, plan, parts, listener)
    if not some:
        raise InputError(f"The source holds no documents, so {name!r} was not made. Check the path and its options.")
    view = await collections.create(
        store, name, language=plan.language, card=source.card(), origin=source.spec(), fields=plan.fields
    )
    try:
        return await _load(store, view, source, plan, parts, listener)
    except Exception:
        await _drop_if_empty(store, view.name)
        raise


@dataclass(frozen=True, slots=True)
class _Parts:
    """What a plan names, made: whatever cannot be made is told before anything is stored."""

    chunkers: dict[str, dict[str, Any]]
    models: list[Embedder]
    dimensions: list[int]
    known: dict[str, Embedder]

    def embedded(self, plan: Plan) -> tuple[str, ...]:
        """The chunk sets that get vectors."""
        return (*([ITEMS] if plan.embed_items or not self.chunkers else []), *self.chunkers)


async def _parts(store: Store, plan: Plan, known: dict[str, Embedder]) -> _Parts:
    chunkers = {
        names.checked(name, what="The chunk set's name"): spec_of(chunker_from(chunker))
        for name, chunker in plan.chunks.items()
    }
    if plan.models:
        store.capabilities.need("vector")
    models = [known.get(model) or embedder(model) for model in plan.models]
    return _Parts(chunkers, models, [await _dimension(model) for model in models], known)


def _begins(source: Source) -> bool:
    """Open all that the source reads, up to the first row of each: a wrong column or path is told here."""
    parts = (source.items, source.queries, source.labels, source.spans, source.exclusions)
    first: list[object] = [next(_more_than_noted(rows()), None) for rows in parts]
    return first[0] is not None


def _more_than_noted(rows: Iterator[Any]) -> Iterator[Any]:
    """Without remarks on the source as a whole, which do not make it hold anything."""
    return (row for row in rows if not isinstance(row, Flaw) or row.outcome != "noted")


async def _load(store: Store, view: View, source: Source, plan: Plan, parts: _Parts, listener: Listener) -> Added:
    view = await _prepared(store, view, plan, parts)
    models = embedders_of(view, parts.known | {each.model: each for each in parts.models})
    tokenizer = parts.models[0] if parts.models else embedder()
    ingest = Ingest(store, view, models, tokenizer, listener)
    report = await ingest.run(source.items(), prune=plan.prune, total=source.size())
    report.note(_old_reader(view, source))
    added = Added(view.name, report, flaws=list(report.flaws))
    await _label(store, view, source, added, listener, check=plan.check, documents=report.flaws)
    async with store.begin() as connection:
        await collections.mark_loaded(connection, view.name)
    return added


def _old_reader(view: View, source: Source) -> Iterator[Flaw]:
    """That a newer reader would read the folder otherwise, which is for somebody to decide."""
    if isinstance(source, FolderSource) and source.reader < readers.NEWEST:
        message = (
            f"{view.name!r} keeps the reader that it was loaded by. A newer one takes the main part of HTML pages and "
            f"reads more kinds of files: `rankbook data reload {quote(view.name)} --reader` says what that changes."
        )
        yield Flaw(Place(printable(source.path)), message, "noted")


async def _prepared(store: Store, view: View, plan: Plan, parts: _Parts) -> View:
    """The collection with the fields and sets that the plan asks for."""
    view = await fields.add(store, view, plan.fields)
    for chunks, chunker in parts.chunkers.items():
        view = await collections.add_chunk_set(store, view, chunks, chunker)
    for model, dimension in zip(parts.models, parts.dimensions, strict=True):
        for chunks in parts.embedded(plan):
            chunk_set = view.chunk_set(chunks)
            view = await collections.add_embedding_set(store, view, chunk_set, model.model, dimension, index=plan.index)
    return view


def _refuse_otherwise(view: View, plan: Plan, parts: _Parts) -> None:
    """What was asked for in so many words and cannot be given to a collection that was made otherwise."""
    way_out = (
        f"Leave the option out, take another name, or drop {view.name!r} with `rankbook data drop` and add it again; "
        "texts that are cached are not embedded anew."
    )
    if "language" in plan.model_fields_set and plan.language != view.row.language:
        raise StoreError(
            f"{view.name!r} was loaded with the text-search configuration {view.row.language!r}, and "
            f"{plan.language!r} was asked for. {way_out}"
        )
    asked = {each.key for each in view.chunk_sets if each.name in parts.embedded(plan)}
    for each in view.embedding_sets if "index" in plan.model_fields_set else ():
        if each.chunk_set in asked and each.model in [m.model for m in parts.models] and each.index != plan.index:
            raise StoreError(
                f"The vectors of {each.model!r} in {view.name!r} are indexed as {each.index!r}, and {plan.index!r} was "
                f"asked for. {way_out}"
            )


async def _drop_if_empty(store: Store, name: str) -> None:
    """A collection whose first load failed before anything stood in it. What failed is what is told."""
    with suppress(RankbookError, DBAPIError):
        view = await collections.find(store, name)
        if view is not None and view.row.version == 0:
            await drop(store, name)


async def _dimension(model: Embedder) -> int:
    """Some endpoints tell it only by embedding something."""
    try:
        return model.dimension
    except DimensionUnknown:
        await model.embed(["dimension"])
        return model.dimension


def embedders_of(view: View, known: Mapping[str, Embedder]) -> dict[str, Embedder]:
    """The models by which a collection is embedded, the known ones as they are."""
    ids = [each.model for each in view.embedding_sets]
    return {model: known.get(model) or embedder(stored_as(model)) for model in ids}


async def _label(
    store: Store,
    view: View,
    source: Source,
    added: Added,
    listener: Listener,
    *,
    check: bool,
    documents: Sequence[Flaw] | None = None,
    query_set: str = query_sets.DEFAULT,
) -> None:
    """Keep queries and labels with the flaws known now, those of the documents where these were read too."""
    labels = await labelling.held_against(store, view, source)
    labelled = query_sets.Labelled.of(labels)
    if documents is not None and labelled == query_sets.Labelled():  # documents alone leave the labels there are
        labelled = await query_sets.load(store, view.name, name=query_set)
    added.queries, added.labels, added.splits = len(labelled.queries), len(labelled.labels), labelled.splits
    found: dict[str, Sequence[Flaw]] = {"labels": labels.flaws}
    version = (await collections.get(store, view.name)).row.version if check else None
    if version is not None:
        found |= await _looked_through(store, view, labels, labelled.digest(), version, listener)
    for flaws in found.values():
        added.flaws += flaws
    if documents is not None:
        found["documents"] = documents
    await query_sets.keep(store, view.name, labelled, found, checked_version=version, name=query_set)


async def _looked_through(
    store: Store, view: View, labels: CheckedLabels, digest: bytes, version: int, listener: Listener
) -> dict[str, Sequence[Flaw]]:
    """The checks that read every text, each where what it compares has changed since it was made."""
    last = await query_sets.checked(store, view.name)
    found: dict[str, Sequence[Flaw]] = {}
    if last is None or (last.digest, last.version) != (digest, version):
        found["leaks"] = await checks.queries_in_corpus(store, view, labels.queries)
    if last is None or last.version != version:
        found["repeats"] = await checks.near_duplicates(store, view, listener)
    return found


async def label(store: Store, view: View, source: Source, *, query_set: str = query_sets.DEFAULT) -> Added:
    """Queries and labels from files, for a collection that is there, an attached one for instance."""
    names.checked(query_set, what="The query set's name")
    added = Added(view.name, Report())
    async with query_sets.changing(store, view.name, query_set):
        source = await labelling.about(store, view, source, query_set)
        if not await asyncio.to_thread(_judges, source):
            raise InputError(
                "There are no labels in it, and those that are there stay. See `rankbook queries add --help`."
            )
        await _label(store, view, source, added, nobody, check=False, query_set=query_set)
    return added


def _judges(source: Source) -> bool:
    return any(next(rows(), None) is not None for rows in (source.labels, source.spans))


async def embed(
    store: Store, view: View, model: str, chunks: tuple[str, ...], *, listener: Listener = nobody
) -> Report:
    """One more model over chunk sets that are there."""
    used = embedder(model)
    dimension = await _dimension(used)
    for chunk_set in [view.chunk_set(name) for name in chunks]:
        view = await collections.add_embedding_set(store, view, chunk_set, used.model, dimension)
    return await Ingest(store, view, embedders_of(view, {used.model: used}), used, listener).complete()


async def chunk(
    store: Store, view: View, name: str, chunker: Mapping[str, Any], *, listener: Listener = nobody
) -> Report:
    """One more chunk set, embedded with every model that the collection has."""
    models = embedders_of(view, {})
    dimensions = {model: await _dimension(each) for model, each in models.items()}
    view = await collections.add_chunk_set(store, view, name, spec_of(chunker_from(chunker)))
    for model, dimension in dimensions.items():
        view = await collections.add_embedding_set(store, view, view.chunk_set(name), model, dimension)
    tokenizer = next(iter(models.values()), None) or embedder()
    return await Ingest(store, view, models, tokenizer, listener).complete()


async def drop(store: Store, name: str) -> None:
    """A collection with its labels: both or neither."""
    view = await collections.get(store, name)
    async with store.begin() as connection:
        await collections.drop_within(connection, view)
        await query_sets.forget_within(connection, view.name)
