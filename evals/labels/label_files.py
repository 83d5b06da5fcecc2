"""Files of labels and queries for documents that are stored already, and their check against the stored items.

It stores nothing: `evals.collections.load` does. Files that hold documents too are sources like any other.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field

from core.errors import InputError
from core.store import sanitize
from core.store.collections import CollectionView
from core.store.engine import Store
from core.store.passages import read_items
from core.store.resolve_target import documents
from core.types import Flaw, Item, Place, Query, Row
from evals.labels import query_sets
from evals.labels.label_checks import CheckedLabels, check_labels
from evals.sources import Source, guess
from evals.sources.files import open_file, require_file
from evals.sources.rows import read_qrels
from evals.sources.table_files import TABLE_SUFFIXES, opened_table
from evals.sources.tabular import TabularSource
from evals.sources.trec import TrecSource
from evals.types import DEFAULT_QUERY_SET, Label

IDS_A_STATEMENT = 2000
CORPUS = ("corpus.jsonl", "corpus.jsonl.gz", "documents")  # of a folder that holds documents too
SPLITS = ("train", "dev", "test", "valid", "validation")
ENDINGS = (*TABLE_SUFFIXES, ".qrels", ".qrel", ".trec", ".topics", ".xml", ".qrels.gz")
# Patterns of file names. A name that fits both is one of labels.
QUERY_NAME = re.compile(r"quer|question|topic", re.IGNORECASE)
LABEL_NAME = re.compile(r"qrel|label|judg|relevan", re.IGNORECASE)


class LabelFiles(Source):
    """Judgements, with or without queries, in files without documents."""

    kind: ClassVar[str] = "label files"
    labels_paths: dict[str, Path] = Field(description="A file of judgements for each split: qrels, or a table.")
    queries_path: Path | None = Field(default=None, description="Queries: a table, or TREC topics.")
    known_queries: tuple[Query, ...] = Field(default=(), description="Stored queries, if there is no file of queries.")

    def items(self) -> Iterator[Row[Item] | Flaw]:
        return iter(())

    def queries(self) -> Iterator[Row[Query] | Flaw]:
        if (path := self.queries_path) is None:
            known = enumerate(self.known_queries, start=1)
            return (Row(query, Place("the collection's queries", at)) for at, query in known)
        require_file(path, "queries")
        if path.name.lower().endswith(TABLE_SUFFIXES):
            return TabularSource(path=path, queries_path=path).queries()
        return TrecSource(documents=path, topics=path).queries()

    def labels(self) -> Iterator[Row[Label] | Flaw]:
        for split, path in self.labels_paths.items():
            require_file(path, "judgements")
            if not _is_table(path):
                with open_file(path) as stream:
                    yield from read_qrels(stream, str(path), split)
                continue
            with opened_table(path) as table:
                has_split = "split" in table.columns
            for row in TabularSource(path=path, labels_path=path).labels():
                yield row if has_split or isinstance(row, Flaw) else Row(replace(row.value, split=split), row.place)


def _is_table(path: Path) -> bool:
    """Whether a file is a table. TSV may also be qrels, so it is a table only if its header names a grade."""
    name = path.name.lower()
    if not name.endswith((".tsv", ".tsv.gz")):
        return name.endswith(TABLE_SUFFIXES)
    with opened_table(path) as table:
        return {"grade", "score", "relevance", "rel", "label"} & {column.lower() for column in table.columns} != set()


# -- which files ---------------------------------------------------------------------------------------------------


def labels_at(origin: str, *, queries: Path | None = None) -> Source:
    """The labels at a path: qrels, a table, or a folder of such files; or those of a whole collection."""
    path, queries = Path(origin).expanduser(), queries.expanduser() if queries else None
    if path.is_dir() and not any((path / name).exists() for name in CORPUS):
        files = [*path.iterdir(), *((path / "qrels").iterdir() if (path / "qrels").is_dir() else ())]
        files = sorted(each for each in files if each.is_file() and each.name.lower().endswith(ENDINGS))
        return from_files(files, queries, at=path)
    if path.is_file() and not path.name.lower().endswith(".zip"):
        return from_files([path], queries, at=path)
    if queries is not None:
        raise InputError(f"{origin!r} brings its own queries. Leave the file of queries out.", path=queries)
    return guess(origin)


def from_files(files: Iterable[Path], queries: Path | None = None, *, at: Path) -> LabelFiles:
    """Files told apart by their names: one of queries, and one of judgements for each split."""
    query_files, label_files = ([queries] if queries else []), dict[str, Path]()
    for path in files:
        if path.name.startswith("."):
            continue
        if queries is None and is_query_file(path.name) and path.parent.name != "qrels":
            query_files.append(path)
        elif (first := label_files.setdefault(split_of(path), path)) is not path:
            raise InputError(f"{first.name!r} and {path.name!r} are both of the split {split_of(path)!r}.", path=at)
    if len(query_files) > 1:
        names = ", ".join(each.name for each in query_files)
        raise InputError(f"There are several files of queries: {names}.", path=at)
    if not label_files:
        raise InputError(
            "There are no labels here. A file of judgements is TREC's or BEIR's qrels, or a table with the columns "
            "query_id, item_id and grade. Queries without labels come in with `rankbook queries add`.",
            path=at,
        )
    return LabelFiles(labels_paths=label_files, queries_path=query_files[0] if query_files else None)


def is_query_file(name: str) -> bool:
    """Whether a file of that name counts as one of queries."""
    return bool(QUERY_NAME.search(name)) and not LABEL_NAME.search(name)


def split_of(path: Path) -> str:
    """The split of a file of judgements: its name, if it lies in a folder qrels or is a usual split's; else test."""
    stem = path.name.split(".")[0]
    return stem if path.parent.name == "qrels" or stem.lower() in SPLITS else "test"


async def with_known_queries(store: Store, view: CollectionView, source: Source, query_set: str) -> Source:
    """The source; labels without queries get the queries of that query set, or of the default one."""
    if not isinstance(source, LabelFiles) or source.queries_path is not None:
        return source
    for name in (query_set, DEFAULT_QUERY_SET):
        if known := (await query_sets.load(store, view.name, name=name)).queries:
            return source.model_copy(update={"known_queries": known})
    raise InputError(
        f"These are labels without queries, and {view.name!r} has none that they could be about. Bring a file of "
        "queries along, with a column id and a column text."
    )


# -- the check against stored items --------------------------------------------------------------------------------


async def check_against_items(store: Store, view: CollectionView, source: Source) -> CheckedLabels:
    """The source's queries and labels, checked against the stored items."""

    def read(rows: Iterator[Row[Any] | Flaw]) -> list[Any]:
        return list(query_sets.sanitized(rows))

    parts = (source.queries(), source.labels(), source.spans(), source.exclusions())
    queries, labels, spans, exclusions = [await asyncio.to_thread(read, rows) for rows in parts]
    item_ids = {row.value.item_id for row in (*labels, *spans, *exclusions) if not isinstance(row, Flaw)}
    present = await stored_ids(store, view, item_ids)
    items = await read_items(store, view, {row.value.item_id for row in spans if not isinstance(row, Flaw)})
    texts = {item.id: item.text for item in items.values()}
    return check_labels(queries, labels, spans, exclusions, has_item=present.__contains__, item_text=texts.get)


async def stored_ids(store: Store, view: CollectionView, ids: Iterable[str]) -> set[str]:
    """Those of the ids that the collection holds. Reads no texts."""
    items, present = documents(store, view), set[str]()
    wanted = sorted({each for each in ids if sanitize.storable(each)})
    for at in range(0, len(wanted), IDS_A_STATEMENT):
        async with store.begin(items.namespace, read_only=True) as connection:
            described = items.described(wanted[at : at + IDS_A_STATEMENT]).subquery()
            present |= set(await connection.scalars(described.select().with_only_columns(described.c.id)))
    return present


async def missing_items(store: Store, view: CollectionView, ids: Sequence[str]) -> list[str]:
    """Those of the ids that are no item of the collection, in their order."""
    present = await stored_ids(store, view, ids)
    return [each for each in ids if each not in present]
