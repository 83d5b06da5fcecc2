"""A source in, a searchable collection with checked labels out.

Owns which steps a load takes and what it reports; each step is its module's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath
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
from core.types import Flaw, Place, Query, Row
from evals.labels import corpus_checks, label_files, query_sets, revisions
from evals.labels.label_checks import refuse_unusual
from evals.labels.revisions import Cause, FewerLabels, LabelChange
from evals.sources import BundledSource, FolderSource, Source, bundled_names, guess, readers
from evals.sources.files import printable
from evals.types import DEFAULT_QUERY_SET, Exclusion, Label, LabelledQueries, Span

DEFAULT_CHUNKS = {"default": {"kind": "headings"}}
FLAWS_SHOWN = 1000  # of a preview


class LoadPlan(BaseModel):
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


def plan_for(source: Source, **given: Any) -> LoadPlan:
    """What was given, over what the source itself asks for, over the defaults."""
    try:
        plan = LoadPlan(**{**source.wishes(), **given})
    except ValidationError as error:
        raise SpecError.from_pydantic("The plan", error) from error
    # A wish is no request: a collection that was made otherwise need not refuse it.
    return LoadPlan.model_construct(_fields_set=set(given), **dict(plan))


def plan_of(view: CollectionView) -> LoadPlan:
    """What the sets that are there say of the plan that they were made by."""
    items = view.chunk_set(ITEMS)
    return LoadPlan(
        language=view.row.language,
        chunks={each.name: each.chunker for each in view.chunk_sets if each.key},
        models=tuple(dict.fromkeys(stored_as(each.model) for each in view.embedding_sets)),
        embed_items=any(each.chunk_set == items.key for each in view.embedding_sets),
        index=next((each.index for each in view.embedding_sets), "vector"),
    )


@dataclass(slots=True)
class LoadReport:
    """What came of it: the ingest's report, the labels' sizes, and every flaw found."""

    name: str
    report: IngestReport
    queries: int = 0
    labels: int = 0
    splits: dict[str, int] = field(default_factory=dict)
    flaws: list[Flaw] = field(default_factory=list)
    change: LabelChange | None = None  # of the query set, against what it held before
    stay_reason: str = ""  # why what it held stayed, where the source brought something else


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
    some = await asyncio.to_thread(_begins, source)
    if view is not None:
        _refuse_otherwise(view, plan, parts)
        return await _load(store, view, source, plan, parts, listener, author)
    if not some:
        raise InputError(f"The source holds no documents, so {name!r} was not made. Check the path and its options.")
    view = await collections.create(
        store, name, language=plan.language, card=source.card(), origin=source.spec(), fields=plan.fields
    )
    try:
        return await _load(store, view, source, plan, parts, listener, author)
    except Exception:
        await drop_if_empty(store, view.name)
        raise


@dataclass(frozen=True, slots=True)
class _Parts:
    """What a plan names, made: whatever cannot be made is told before anything is stored."""

    chunkers: dict[str, dict[str, Any]]
    models: list[Embedder]
    dimensions: list[int]
    known: dict[str, Embedder]

    def embedded(self, plan: LoadPlan) -> tuple[str, ...]:
        """The chunk sets that get vectors."""
        return (*([ITEMS] if plan.embed_items or not self.chunkers else []), *self.chunkers)


async def _parts(store: Store, plan: LoadPlan, known: dict[str, Embedder]) -> _Parts:
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


async def _load(
    store: Store, view: CollectionView, source: Source, plan: LoadPlan, parts: _Parts, listener: Listener, author: str
) -> LoadReport:
    view = await _prepared(store, view, plan, parts)
    models = embedders_of(view, parts.known | {each.model: each for each in parts.models})
    tokenizer = parts.models[0] if parts.models else embedder()
    ingest = Ingest(store, view, models, tokenizer, listener)
    report = await ingest.run(source.items(), prune=plan.prune, total=source.size())
    if not view.row.version and not report.added:
        raise _unreadable(view.name, report)
    report.note(_old_reader(view, source))
    added = LoadReport(view.name, report, flaws=list(report.flaws))
    await _label(store, view, source, added, listener, check=plan.check, author=author)
    async with store.begin() as connection:
        await collections.mark_loaded(connection, view.name)
    return added


def _unreadable(name: str, report: IngestReport) -> InputError:
    """Of a first load that found documents, and none that can be used."""
    wrong = [flaw for flaw in report.flaws if flaw.outcome == "quarantined"]
    first = f" The first, {wrong[0].place}: {wrong[0].message}" if wrong else ""
    return InputError(f"None of the source's documents could be read, so nothing was loaded into {name!r}.{first}")


def _old_reader(view: CollectionView, source: Source) -> Iterator[Flaw]:
    """That a newer reader would read the folder otherwise, which is for somebody to decide."""
    if isinstance(source, FolderSource) and source.reader < readers.NEWEST:
        message = (
            f"{view.name!r} keeps the reader that it was loaded by. A newer one takes the main part of HTML pages and "
            f"reads more kinds of files: `rankbook data reload {quote(view.name)} --reader` says what that changes."
        )
        yield Flaw(Place(printable(source.path)), message, "noted")


async def _prepared(store: Store, view: CollectionView, plan: LoadPlan, parts: _Parts) -> CollectionView:
    """The collection with the fields and sets that the plan asks for."""
    view = await collections.add_fields(store, view, plan.fields)
    for chunks, chunker in parts.chunkers.items():
        view = await collections.add_chunk_set(store, view, chunks, chunker)
    for model, dimension in zip(parts.models, parts.dimensions, strict=True):
        for chunks in parts.embedded(plan):
            chunk_set = view.chunk_set(chunks)
            view = await collections.add_embedding_set(store, view, chunk_set, model.model, dimension, index=plan.index)
    return view


def _refuse_otherwise(view: CollectionView, plan: LoadPlan, parts: _Parts) -> None:
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


async def drop_if_empty(store: Store, name: str) -> None:
    """For good, a collection whose first load ended before anything stood in it. What went wrong is what is told."""
    with suppress(RankbookError, DBAPIError):
        view = await collections.find(store, name)
        if view is not None and view.row.version == 0:
            async with store.begin(fresh=True) as connection:
                await collections.drop_within(connection, view)
                await query_sets.forget_within(connection, view.name)


async def _dimension(model: Embedder) -> int:
    """Some endpoints tell it only by embedding something."""
    try:
        return model.dimension
    except DimensionUnknown:
        await model.embed(["dimension"])
        return model.dimension


def embedders_of(view: CollectionView, known: Mapping[str, Embedder]) -> dict[str, Embedder]:
    """The models by which a collection is embedded, the known ones as they are."""
    ids = [each.model for each in view.embedding_sets]
    return {model: known.get(model) or embedder(stored_as(model)) for model in ids}


async def _label(
    store: Store,
    view: CollectionView,
    source: Source,
    added: LoadReport,
    listener: Listener,
    *,
    check: bool,
    author: str,
) -> None:
    """The source's queries and labels for those that are there, unless somebody's would be lost by that."""
    labels = await label_files.held_against(store, view, source)
    brought, there = labels.labelled_queries(), await query_sets.load(store, view.name)
    stays = await _reason_to_stay(store, view, there, brought)
    version = (await collections.get(store, view.name)).row.version if check else None
    found: dict[str, Sequence[Flaw]] = {"documents": added.report.flaws}
    if version is not None:
        place = Place(f"the query set {DEFAULT_QUERY_SET!r}")
        queries = labels.queries if stays is None else [Row(each, place) for each in there.queries]
        digest = (brought if stays is None else there).digest()
        found |= await _looked_through(store, view, queries, digest, version, listener)
    async with query_sets.changing(store, view.name, DEFAULT_QUERY_SET):
        now = await query_sets.load(store, view.name)
        if now != there:  # whoever changed it while this one read must not lose that
            stays, version = await _reason_to_stay(store, view, now, brought), None
        if stays is None:
            found["labels"] = labels.flaws  # of labels that stay, what was found when they came in is kept
        for flaws in (labels.flaws, found.get("leaks", ()), found.get("repeats", ())):
            added.flaws += flaws
        added.stay_reason = stays or ""
        labelled, cause = brought if stays is None else now, Cause(author, f"loaded from {_origin(source)}", "load")
        _count(added, now, labelled)
        await query_sets.keep(store, view.name, labelled, found, checked_version=version, cause=cause)


async def _reason_to_stay(
    store: Store, view: CollectionView, there: LabelledQueries, brought: LabelledQueries
) -> str | None:
    """None where what the source brings may come in; else what there is stays, and why, where it is worth saying.

    It stays where the source has no queries, where somebody changed it since it was loaded, and where less would be
    left. What is about documents that have gone from the collection is no loss.
    """
    kept = await query_sets.checked(store, view.name)
    if not there.queries or (kept is not None and kept.digest == brought.digest()):
        return None
    rows: tuple[Label | Span | Exclusion, ...] = (*there.labels, *there.spans, *there.exclusions)
    named = sorted({row.item_id for row in rows})
    present = await label_files.stored_items(store, view, named)
    if not brought.queries:
        if not (gone := [item for item in named if item not in present]):
            return ""
        count = sum(row.item_id not in present for row in rows)
        return (
            f"{count:,} labels of the query set {DEFAULT_QUERY_SET!r} are about documents that are not in the "
            f"collection any more, such as {gone[0]!r:.80}."
        )
    change = LabelChange.between(there, brought)
    if edit := await revisions.last_edit(store, view.name, name=DEFAULT_QUERY_SET):
        why = f"was changed since it was loaded, last by {edit.author} at {edit.made_at:%Y-%m-%d %H:%M}"
    elif LabelChange.between(_about(there, present), brought).loses:
        why = "would hold less with what the source brings"
    else:
        return None
    way_out = f"rankbook data label {view.name} FROM{' --even-so' if change.loses else ''}"
    stays = f"The query set {DEFAULT_QUERY_SET!r} {why}, so what is there stays: {change.sentence}."
    return f"{stays} To replace it: {way_out}"


def _about(labelled: LabelledQueries, items: Collection[str]) -> LabelledQueries:
    """Without labels, spans and exclusions of other items."""
    parts = {
        part: tuple(row for row in getattr(labelled, part) if row.item_id in items)
        for part in ("labels", "spans", "exclusions")
    }
    return replace(labelled, **parts)


def _origin(source: Source) -> str:
    """What the source reads, in a word or two."""
    spec = source.spec()
    named = next((str(value) for name, value in spec.items() if name != "kind" and isinstance(value, str)), "")
    return PurePath(named).name or str(spec.get("kind", "a source"))


def _count(added: LoadReport, there: LabelledQueries, labelled: LabelledQueries) -> None:
    added.queries, added.labels, added.splits = len(labelled.queries), len(labelled.labels), labelled.splits
    added.change = LabelChange.between(there, labelled)


async def _looked_through(
    store: Store, view: CollectionView, queries: Sequence[Row[Query]], digest: bytes, version: int, listener: Listener
) -> dict[str, Sequence[Flaw]]:
    """The checks that read every text, each where what it compares has changed since it was made."""
    last = await query_sets.checked(store, view.name)
    found: dict[str, Sequence[Flaw]] = {}
    if last is None or (last.digest, last.version) != (digest, version):
        found["leaks"] = await corpus_checks.queries_in_corpus(store, view, queries)
    if last is None or last.version != version:
        found["repeats"] = await corpus_checks.near_duplicates(store, view, listener)
    return found


def unannounced(_: LabelChange) -> None:
    """Nobody is told what a change comes to before it is made."""


async def label(
    store: Store,
    view: CollectionView,
    source: Source,
    *,
    query_set: str = DEFAULT_QUERY_SET,
    even_so: bool = False,
    all_grades: bool = False,
    announce: Callable[[LabelChange], None] = unannounced,
    author: str = "",
) -> LoadReport:
    """Queries and labels from files, for a collection that is there, an attached one for instance.

    Refused where the set would hold less than it does, or no label can be used, unless `even_so`; and where grades go
    beyond 0 to 3, unless `all_grades`. What it comes to is announced before anything is written.
    """
    names.checked(query_set, what="The query set's name")
    added = LoadReport(view.name, IngestReport())
    async with query_sets.changing(store, view.name, query_set):
        source = await label_files.about(store, view, source, query_set)
        if not await asyncio.to_thread(_judges, source):
            raise InputError(
                "There are no labels in it, and those that are there stay. See `rankbook queries add --help`."
            )
        labels = await label_files.held_against(store, view, source)
        there = await query_sets.load(store, view.name, name=query_set)
        labelled = labels.labelled_queries()
        _count(added, there, labelled)
        change, added.flaws = LabelChange.between(there, labelled), list(labels.flaws)
        if not even_so and (change.loses or not (labelled.labels or labelled.spans)):
            raise FewerLabels(query_set, change, labels.flaws)
        if not all_grades:
            refuse_unusual(labels.unusual)
        announce(change)
        cause = Cause(author, f"labels from {_label_origin(source)}")
        await query_sets.keep(store, view.name, labelled, {"labels": labels.flaws}, name=query_set, cause=cause)
    return added


def _label_origin(source: Source) -> str:
    if isinstance(source, label_files.LabelFiles):
        return ", ".join(path.name for path in source.judged.values())
    return _origin(source)


def _judges(source: Source) -> bool:
    return any(next(rows(), None) is not None for rows in (source.labels, source.spans))


async def embed(
    store: Store, view: CollectionView, model: str, chunks: tuple[str, ...], *, listener: Listener = nobody
) -> IngestReport:
    """One more model over chunk sets that are there."""
    used = embedder(model)
    dimension = await _dimension(used)
    for chunk_set in [view.chunk_set(name) for name in chunks]:
        view = await collections.add_embedding_set(store, view, chunk_set, used.model, dimension)
    return await Ingest(store, view, embedders_of(view, {used.model: used}), used, listener).complete()


async def chunk(
    store: Store, view: CollectionView, name: str, chunker: Mapping[str, Any], *, listener: Listener = nobody
) -> IngestReport:
    """One more chunk set, embedded with every model that the collection has."""
    models = embedders_of(view, {})
    dimensions = {model: await _dimension(each) for model, each in models.items()}
    view = await collections.add_chunk_set(store, view, name, spec_of(chunker_from(chunker)))
    for model, dimension in dimensions.items():
        view = await collections.add_embedding_set(store, view, view.chunk_set(name), model, dimension)
    tokenizer = next(iter(models.values()), None) or embedder()
    return await Ingest(store, view, models, tokenizer, listener).complete()


async def drop(store: Store, name: str, *, by: str = "") -> TrashEntry:
    """A collection with its labels into the trash: both or neither. Judgements and kept runs stay under its name."""
    view = await collections.get(store, name)
    size = await trash.size_of(store, view.namespace)
    async with store.begin(fresh=True) as connection:
        entry = await trash.put_collection(store, connection, view, size=size, by=by)
        await query_sets.move_within(connection, view.name, trash_mark(entry.id))
    if view.row.attached is not None and not store.role:  # after an editor the owner does it, at the next click
        await grants.revoke_unneeded(store)
    return entry


async def brought_in(
    store: Store,
    name: str,
    source: Source | Path | str | None,
    given: Mapping[str, Any],
    resources: Resources | None,
    listener: Listener,
) -> tuple[str, ...]:
    """What the source has and the collection lacks; without a source, a bundled collection that is not there whole.

    Gives what there is to say about the source, as `rankbook data add` says it: on the source as a whole in full, of
    its rows how many and the first.
    """
    if source is None and not await _lacks_bundled(store, name):
        if given:
            options = ", ".join(given)
            raise SpecError(f"{name!r} is there, and {options} say how one is made. Name the source too, or drop it.")
        return ()
    found = source if isinstance(source, Source) else await asyncio.to_thread(guess, source or name)
    plan = plan_for(found, **given)
    embedders = {model: resources.embedder(model) for model in plan.models} if resources else {}
    added = await load_collection(store, name, found, plan, embedders=embedders, listener=listener)
    return (*filter(None, (added.stay_reason,)), *_of_source(added.flaws))


def _of_source(flaws: Sequence[Flaw]) -> Iterable[str]:
    whole = [flaw for flaw in flaws if flaw.outcome == "noted" and not flaw.subject]
    yield from dict.fromkeys(flaw.message for flaw in whole)
    for outcome, said in (("quarantined", "left out"), ("cleaned", "repaired")):
        if rows := [flaw for flaw in flaws if flaw.outcome == outcome]:
            yield f"{len(rows):,} rows or files were {said}; the first, {rows[0].place}: {rows[0].message}"


async def _lacks_bundled(store: Store, name: str) -> bool:
    view = await collections.find(store, name)
    if view is None:
        return name in bundled_names()
    return view.interrupted and view.row.origin == BundledSource(name=name).spec()
