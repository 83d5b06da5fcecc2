"""Adding a collection from a form: what its source was taken for, a dry look into it, and the work itself.

The same functions do it that `rankbook data add` calls. Nothing is stored before the work begins.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, Final, TypeVar

from core.embedding import stored_as
from core.errors import RankbookError
from core.progress import Listener
from core.store import collections, names
from core.store.collections import CollectionView
from core.store.engine import Store
from core.store.ingest import IngestReport
from core.types import Flaw, Item, Query, Row
from evals.collections import load
from evals.collections.load import LoadPlan
from evals.collections.load_labels import LoadReport
from evals.sources import Source, bundled_names, catalog, source_from
from evals.sources.bundled import CatalogEntry
from evals.sources.guess import source_of
from evals.sources.ir_datasets_source import IrDatasetsSource
from evals.sources.table_files import opened_table
from evals.sources.tabular import TabularSource
from evals.types import Label
from workbench.behind.collections import uploads
from workbench.behind.collections.uploads import SourceSpec
from workbench.behind.summaries import summary

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
