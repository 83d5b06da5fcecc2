"""Collections listed and described, previewed and brought in, exported; and the cache of embeddings."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path, PurePath
from typing import Any, Final, TypeVar

from sqlalchemy import bindparam, func, select, text

from core.embedding import DEFAULT_MODEL, stored_as
from core.errors import RankbookError
from core.home import home
from core.progress import Listener, Step
from core.store import collections, names
from core.store.attached import Attachment
from core.store.collections import CollectionView
from core.store.engine import Store
from core.store.ingest import IngestReport
from core.store.schema import CachedEmbedding, Collection
from core.types import Flaw, Item, Query, Row
from evals.collections import export_beir, load
from evals.collections import overview as collections_overview
from evals.collections.load import LoadPlan
from evals.collections.load_labels import LoadReport
from evals.collections.overview import CollectionOverview
from evals.schema import QuerySet, StoredLabel
from evals.sources import Source, bundled_names, catalog, source_from
from evals.sources.bundled import CatalogEntry
from evals.sources.guess import source_of
from evals.sources.ir_datasets_source import IrDatasetsSource
from evals.sources.table_files import opened_table
from evals.sources.tabular import TabularSource
from evals.types import DEFAULT_QUERY_SET, Label
from workbench.services import uploads
from workbench.services.form_fields import summary
from workbench.services.uploads import SourceSpec

# Tables with their indexes and what PostgreSQL keeps beside them for long values.
_SIZES: Final = text("""
    SELECT nspname AS namespace, sum(pg_total_relation_size(pg_class.oid))::bigint AS bytes
    FROM pg_class
    JOIN pg_namespace ON pg_namespace.oid = relnamespace
    WHERE relkind IN ('r', 'm') AND nspname = ANY(:namespaces)
    GROUP BY nspname
""").bindparams(bindparam("namespaces"))
_UNITS: Final = ("bytes", "kB", "MB", "GB", "TB")
_STEP: Final = 1024.0
OUTCOMES: Final = {
    "quarantined": "left out",
    "cleaned": "repaired and kept",
    "noted": "kept, and noted",
}
LOOKS: Final = {
    "documents": "Reading the documents",
    "labels": "Holding queries and labels against the documents",
    "leaks": "Looking for queries that stand in a document word for word",
    "repeats": "Looking for documents that nearly repeat another",
}


@dataclass(frozen=True, slots=True)
class CollectionSummary:
    """A collection in the list. `chunks` counts those of all chunk sets that a search can find."""

    summary: CollectionOverview
    attached: bool
    version: int
    origin: Mapping[str, Any]
    chunks: int = 0
    chunk_sets: int = 0
    models: tuple[str, ...] = ()
    embedding_sets: int = 0
    labels: int = 0
    bytes: int = 0

    @property
    def name(self) -> str:
        return self.summary.name


async def overview(store: Store) -> list[CollectionSummary]:
    """Every collection, in the order of their names."""
    found, labels = await collections_overview.overviews_with_views(store), await _labels(store)
    sizes = await _sizes(store, [view.namespace for _, view in found])
    return [_shelved(summary, view, sizes, labels) for summary, view in found]


def _shelved(
    summary: CollectionOverview, view: CollectionView, sizes: Mapping[str, int], labels: Mapping[str, int]
) -> CollectionSummary:
    row = view.row
    own = [each for each in view.chunk_sets if each.key]
    return CollectionSummary(
        summary,
        row.attached is not None,
        row.version,
        dict(row.origin),
        sum(each.units for each in own),
        len(own),
        tuple(dict.fromkeys(each.model for each in view.embedding_sets)),
        len(view.embedding_sets),
        labels.get(row.name, 0),
        sizes.get(row.namespace, 0),
    )


def known_models(shelf: Iterable[CollectionSummary]) -> list[str]:
    """Models worth offering: the usual one, and those that some collection has."""
    return list(dict.fromkeys([DEFAULT_MODEL, *(model for row in shelf for model in row.models)]))


async def _sizes(store: Store, namespaces: Sequence[str]) -> dict[str, int]:
    async with store.begin(read_only=True) as connection:
        rows = await connection.execute(_SIZES, {"namespaces": list(namespaces)})
        return {row.namespace: row.bytes for row in rows}


async def _labels(store: Store) -> dict[str, int]:
    """How many labels each collection has, in all its query sets."""
    counted = (
        select(QuerySet.collection, func.count().label("labels"))
        .join(StoredLabel, StoredLabel.set_key == QuerySet.key)
        .group_by(QuerySet.collection)
    )
    async with store.begin(read_only=True) as connection:
        return {row.collection: row.labels for row in await connection.execute(counted)}


def told_bytes(count: float) -> str:
    """As people say sizes: three digits and a unit."""
    power = 0
    while count >= _STEP and power < len(_UNITS) - 1:
        count, power = count / _STEP, power + 1
    whole = power == 0 or count >= 100
    return f"{count:,.0f} {_UNITS[power]}" if whole else f"{count:,.1f} {_UNITS[power]}"


def many(count: int, one: str, more: str = "") -> str:
    """`1 label`, `1,200 queries`."""
    return f"{count:,} {one if count == 1 else more or f'{one}s'}"


def told_origin(row: Collection) -> str:
    """Where a collection's documents came from."""
    if row.attached is not None:
        return f"attached: {row.origin.get('attached', '')}"
    origin = dict(row.origin)
    kind = origin.pop("kind", "")
    named = next((str(value) for value in origin.values() if isinstance(value, str)), "")
    if named and uploads.holds(named):
        return f"uploaded: {PurePath(named).name}"
    return f"{kind}: {named or json.dumps(origin, ensure_ascii=False)}" if kind else "not known"


def told_mapping(view: CollectionView) -> dict[str, str]:
    """Which column of somebody's table is what, and which of its rows belong to the collection."""
    table = Attachment.of(view).table
    mapped = [(field, column) for field, column in table.columns() if field not in ("where", "parent")]
    mapped += [("document", table.parent_name)] if table.parent else []
    columns = ", ".join(f"{field}: {column}" for field, column in mapped)
    rows = ", ".join(f"{column}={value}" for column, value in table.where.items())
    return {"Columns": columns, "Model": table.model or "none", **({"Only rows with": rows} if rows else {})}


def told_chunker(spec: Mapping[str, Any]) -> str:
    """`headings, max_tokens 200`."""
    options = [f"{name} {value}" for name, value in spec.items() if name != "kind"]
    return ", ".join([str(spec.get("kind", "")), *options])


def told_flaws(flaws: Iterable[Mapping[str, Any]], looks: Iterable[str] = LOOKS) -> list[str]:
    """What each of these looks found, in a sentence each; also that it found nothing."""
    found: dict[str, dict[str, int]] = {look: {} for look in looks}
    for flaw in flaws:
        outcomes = found.setdefault(str(flaw.get("of", "documents")), {})
        outcome = str(flaw.get("outcome", ""))
        outcomes[outcome] = outcomes.get(outcome, 0) + 1
    return [_sentence(LOOKS.get(look, look), outcomes) for look, outcomes in found.items()]


def _sentence(look: str, outcomes: Mapping[str, int]) -> str:
    if not outcomes:
        return f"{look}: nothing to remark."
    counts = [f"{count:,} {OUTCOMES.get(outcome, outcome)}" for outcome, count in sorted(outcomes.items())]
    return f"{look}: {', '.join(counts)}."


T = TypeVar("T")
SAMPLE: Final = 50  # rows of each part that a dry look reads
LONGEST_VALUE: Final = 80  # characters; what is longer is a text, and no field to filter by


@dataclass(frozen=True, slots=True)
class SourcePreview:
    """What a source holds, by its first rows. `problem` is why they cannot be read; `columns` are those of a table.

    `download` is what the catalogue says of a public collection, which no look fetches.
    """

    source: Source
    documents: tuple[Item, ...] = ()
    queries: tuple[Query, ...] = ()
    labels: tuple[Label, ...] = ()
    flaws: tuple[Flaw, ...] = ()
    size: int | None = None
    columns: tuple[str, ...] = ()
    wishes: Mapping[str, Any] = field(default_factory=dict)  # how whoever made it wants it loaded
    fetched: bool = False
    download: CatalogEntry | None = None
    problem: RankbookError | None = None

    @property
    def taken_for(self) -> str:
        """What kind of source it is, in the words of that kind."""
        return summary(type(self.source)) or self.source.kind

    @property
    def notes(self) -> tuple[str, ...]:
        """What there is to say of the source as a whole: files that are not read, how a table is cut."""
        return tuple(dict.fromkeys(flaw.message for flaw in self.flaws if flaw.outcome == "noted" and not flaw.subject))

    @property
    def fields(self) -> tuple[str, ...]:
        """Metadata fields that a filter could use."""
        return tuple(
            dict.fromkeys(name for item in self.documents for name, value in item.metadata.items() if _short(value))
        )


def _short(value: Any) -> bool:
    return isinstance(value, (bool, int, float)) or (isinstance(value, str) and 0 < len(value) <= LONGEST_VALUE)


@dataclass(frozen=True, slots=True)
class ImportRequest:
    """A form, filled in."""

    name: str
    origin: SourceSpec
    plan: Mapping[str, Any]  # fields of `library.Plan`

    @property
    def source(self) -> Source:
        return source_of(self.origin.origin, self.origin.kind, list(self.origin.options))

    def checked(self) -> LoadPlan:
        """The plan, or a sentence that says what is wrong with name, source or plan."""
        names.schema_of(self.name)
        return load.plan_for(self.source, **self.plan)


def public() -> dict[str, CatalogEntry | None]:
    """What can be added by its name: what ships with Rankbook, then what is fetched."""
    return {**dict.fromkeys(bundled_names()), **{entry.name: entry for entry in catalog()}}


async def languages(store: Store) -> list[str]:
    """The text-search configurations that the server has."""
    async with store.begin(read_only=True) as connection:
        return await collections.languages(connection)


# -- the dry look ------------------------------------------------------------------------------------------------------


def looked_at(origin: SourceSpec) -> SourcePreview:
    """The first rows of a source. Reads files, and may take a moment."""
    source = source_of(origin.origin, origin.kind, list(origin.options))
    if isinstance(source, IrDatasetsSource):
        entry = next((each for each in catalog() if each.ir_datasets == source.id), None)
        return SourcePreview(source, size=entry.documents if entry else None, fetched=True, download=entry)
    look = SourcePreview(source, columns=_columns(source))
    try:
        return _filled(look)
    except RankbookError as error:
        return replace(look, problem=error)


def _columns(source: Source) -> tuple[str, ...]:
    if not isinstance(source, TabularSource):
        return ()
    with opened_table(source.path, source.quote, source.delimiter) as opened:
        return opened.columns


def _filled(look: SourcePreview) -> SourcePreview:
    flaws: list[Flaw] = []
    source = look.source
    documents = tuple(_first(source.items(), flaws))
    queries, labels = tuple(_first(source.queries(), flaws)), tuple(_first(source.labels(), flaws))
    return replace(
        look,
        documents=documents,
        queries=queries,
        labels=labels,
        flaws=tuple(flaws),
        size=source.size(),
        wishes=source.wishes(),
    )


def _first(rows: Iterator[Row[T] | Flaw], flaws: list[Flaw]) -> Iterator[T]:
    for row in islice(rows, SAMPLE):
        if isinstance(row, Flaw):
            flaws.append(row)
        else:
            yield row.value


# -- the work ----------------------------------------------------------------------------------------------------------


async def add(store: Store, wanted: ImportRequest, listener: Listener, author: str = "") -> LoadReport:
    """Load the collection as the command does."""
    source = await asyncio.to_thread(lambda: wanted.source)
    plan = wanted.checked()
    added = await load.load_collection(store, wanted.name, source, plan, listener=listener, author=author)
    await asyncio.to_thread(uploads.discard, Path(wanted.origin.origin))
    return added


async def resume(store: Store, name: str, listener: Listener) -> LoadReport | IngestReport:
    """Go on where work was interrupted: with the source where it was the load, without where a set lacks something."""
    view = await collections.get(store, name)
    if view.row.loaded_at is not None:
        return await _completed(store, view, listener)
    source = source_from(view.row.origin)
    added = await load.load_collection(store, name, source, load.plan_of(view), listener=listener)
    for path in _paths(view.row.origin):
        await asyncio.to_thread(uploads.discard, Path(path))
    return added


async def _completed(store: Store, view: CollectionView, listener: Listener) -> IngestReport:
    """Asking again for one of the sets that are there adds none, and completes all."""
    for each in view.embedding_sets:
        over = tuple(chunk_set.name for chunk_set in view.chunk_sets if chunk_set.key == each.chunk_set)
        return await load.add_model(store, view, stored_as(each.model), over, listener=listener)
    own = next(each for each in view.chunk_sets if each.key)  # without models, only a chunking can be behind
    return await load.add_chunk_set(store, view, own.name, own.chunker, listener=listener)


def sweep(rows: Iterable[Mapping[str, Any]]) -> None:
    """Away with old uploads, those excepted that an interrupted collection still needs: `rows` are their origins."""
    uploads.sweep([path for origin in rows for path in _paths(origin)])


def _paths(origin: Mapping[str, Any]) -> Sequence[str]:
    return [value for value in origin.values() if isinstance(value, str) and uploads.holds(value)]


@dataclass(frozen=True, slots=True)
class Cached:
    """How many texts a model's embeddings are kept of."""

    model: str
    texts: int
    bytes: int


async def cached(store: Store) -> list[Cached]:
    size = func.sum(func.length(CachedEmbedding.vector))
    asked = select(CachedEmbedding.model, func.count(), size).group_by(CachedEmbedding.model)
    async with store.begin(read_only=True) as connection:
        rows = await connection.execute(asked.order_by(CachedEmbedding.model))
        return [Cached(model, texts, int(size)) for model, texts, size in rows]


LARGEST_DOWNLOAD: Final = 512 * 2**20  # bytes; a download goes through memory


@dataclass(frozen=True, slots=True)
class Zipped:
    """The archive, and what is in it."""

    path: Path
    documents: int
    queries: int
    labels: int
    bytes: int


async def zipped(store: Store, view: CollectionView, listener: Listener, query_set: str = DEFAULT_QUERY_SET) -> Zipped:
    """The archive in a folder of its own; nothing is left of it where something went wrong."""
    folder = home() / "exports"
    await asyncio.to_thread(uploads.sweep_folder, folder)
    made = uploads.new_folder(folder)
    try:
        listener(Step("Writing documents, queries and labels", 0, None, "files"))
        name = file_name(view.name)
        exported = await export_beir.export_beir(store, view, made / name, query_set=query_set)
        listener(Step("Packing", 0, None, "files"))
        packed = Path(await asyncio.to_thread(shutil.make_archive, str(made / name), "zip", made, name))
        await asyncio.to_thread(shutil.rmtree, made / name)
        return Zipped(
            packed,
            exported.documents,
            exported.queries,
            exported.labels,
            (await asyncio.to_thread(packed.stat)).st_size,
        )
    except BaseException:
        shutil.rmtree(made, ignore_errors=True)
        raise


def file_name(collection: str) -> str:
    """A name for its archive that any system bears."""
    return re.sub(r"[^\w-]+", "-", collection).strip("-")[:60] or "collection"


def discard(archive: Zipped) -> None:
    shutil.rmtree(archive.path.parent, ignore_errors=True)
