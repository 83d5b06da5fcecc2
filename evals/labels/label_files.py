"""Queries and labels for documents that are there: which files hold them, and how they meet the stored items.

Writes nothing: `evals.collections.load` keeps what comes of it. Files that hold documents too are sources like any
other.
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
from core.store.collections import CollectionView
from core.store.engine import Store
from core.store.passages import read_titles
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
# In the name of a file with queries, unless it says that it holds labels.
ASKING = re.compile(r"quer|question|topic", re.IGNORECASE)
JUDGED = re.compile(r"qrel|label|judg|relevan", re.IGNORECASE)


class LabelFiles(Source):
    """Judgements, and queries where they are brought along, in files without documents."""

    kind: ClassVar[str] = "label files"
    judged: dict[str, Path] = Field(description="A file of judgements for each split: qrels, or a table.")
    asked: Path | None = Field(default=None, description="Queries: a table, or TREC topics.")
    kept: tuple[Query, ...] = Field(default=(), description="Queries that are there already, if none are brought.")

    def items(self) -> Iterator[Row[Item] | Flaw]:
        return iter(())

    def queries(self) -> Iterator[Row[Query] | Flaw]:
        if self.asked is None:
            return (Row(query, Place("the collection's queries", at)) for at, query in enumerate(self.kept, start=1))
        require_file(self.asked, "queries")
        if self.asked.name.lower().endswith(TABLE_SUFFIXES):
            return TabularSource(path=self.asked, queries_path=self.asked).queries()
        return TrecSource(documents=self.asked, topics=self.asked).queries()

    def labels(self) -> Iterator[Row[Label] | Flaw]:
        for split, path in self.judged.items():
            require_file(path, "judgements")
            yield from _table(path, split) if _is_table(path) else _lines(path, split)


def _is_table(path: Path) -> bool:
    """Tabs part BEIR's and TREC's qrels too, which may do without a heading: one that names a grade makes a table."""
    name = path.name.lower()
    if not name.endswith((".tsv", ".tsv.gz")):
        return name.endswith(TABLE_SUFFIXES)
    with opened_table(path) as table:
        return {"grade", "score", "relevance", "rel", "label"} & {column.lower() for column in table.columns} != set()


def _table(path: Path, split: str) -> Iterator[Row[Label] | Flaw]:
    with opened_table(path) as table:
        says = "split" in table.columns
    for row in TabularSource(path=path, labels_path=path).labels():
        yield row if says or isinstance(row, Flaw) else Row(replace(row.value, split=split), row.place)


def _lines(path: Path, split: str) -> Iterator[Row[Label] | Flaw]:
    with open_file(path) as stream:
        yield from read_qrels(stream, str(path), split)


# -- which files ---------------------------------------------------------------------------------------------------


def labels_at(origin: str, *, queries: Path | None = None) -> Source:
    """Labels by a path: qrels, a table of them, a folder of such; or a whole collection, whose documents stay out."""
    path, queries = Path(origin).expanduser(), queries.expanduser() if queries else None
    if path.is_dir() and not any((path / name).exists() for name in CORPUS):
        return together(_within(path), queries, at=path)
    if path.is_file() and not path.name.lower().endswith(".zip"):
        return together([path], queries, at=path)
    if queries is not None:
        raise InputError(f"{origin!r} brings its own queries. Leave the file of queries out.", path=queries)
    return guess(origin)


def _within(folder: Path) -> list[Path]:
    """What may be labels or queries in it, or in the folder `qrels` that it has or is."""
    inside = [*folder.iterdir(), *((folder / "qrels").iterdir() if (folder / "qrels").is_dir() else ())]
    return sorted(each for each in inside if each.is_file() and each.name.lower().endswith(ENDINGS))


def together(files: Iterable[Path], queries: Path | None = None, *, at: Path) -> LabelFiles:
    """Files told apart by their names: one of queries, one of judgements for each split."""
    asked, judged = ([queries] if queries else []), dict[str, Path]()
    for path in files:
        if path.name.startswith("."):
            continue
        if queries is None and asks(path.name) and path.parent.name != "qrels":
            asked.append(path)
        elif (taken := judged.setdefault(split_of(path), path)) is not path:
            raise InputError(f"{taken.name!r} and {path.name!r} are both of the split {split_of(path)!r}.", path=at)
    if len(asked) > 1:
        raise InputError(f"There are several files of queries: {', '.join(each.name for each in asked)}.", path=at)
    if not judged:
        raise InputError(
            "There are no labels here. A file of judgements is TREC's or BEIR's qrels, or a table with the columns "
            "query_id, item_id and grade. Queries without labels come in with `rankbook queries add`.",
            path=at,
        )
    return LabelFiles(judged=judged, asked=asked[0] if asked else None)


def asks(name: str) -> bool:
    """Whether a file of that name is taken for queries."""
    return bool(ASKING.search(name)) and not JUDGED.search(name)


def split_of(path: Path) -> str:
    """What a file of judgements is about: its name in a folder called qrels, or where it is a usual one; else test."""
    stem = path.name.split(".")[0]
    return stem if path.parent.name == "qrels" or stem.lower() in SPLITS else "test"


async def about(store: Store, view: CollectionView, source: Source, query_set: str) -> Source:
    """The source; where it brings labels alone, about the queries of the set, or of the usual one."""
    if not isinstance(source, LabelFiles) or source.asked is not None:
        return source
    for name in (query_set, DEFAULT_QUERY_SET):
        if kept := (await query_sets.load(store, view.name, name=name)).queries:
            return source.model_copy(update={"kept": kept})
    raise InputError(
        f"These are labels without queries, and {view.name!r} has none that they could be about. Bring a file of "
        "queries along, with a column id and a column text."
    )


# -- how they meet the items ---------------------------------------------------------------------------------------


async def held_against(store: Store, view: CollectionView, source: Source) -> CheckedLabels:
    """The source's queries and labels, held against the items that are stored."""
    queries, labels, spans, exclusions = await asyncio.to_thread(_read, source)
    named = {row.value.item_id for row in (*labels, *spans, *exclusions) if not isinstance(row, Flaw)}
    spanned = {row.value.item_id for row in spans if not isinstance(row, Flaw)}
    present = set(await stored_items(store, view, sorted(named)))
    texts = await stored_items(store, view, sorted(spanned), with_text=True)
    return check_labels(queries, labels, spans, exclusions, has_item=present.__contains__, item_text=texts.get)


def _read(source: Source) -> tuple[list[Any], ...]:
    parts: tuple[Iterator[Row[Any] | Flaw], ...] = (
        source.queries(),
        source.labels(),
        source.spans(),
        source.exclusions(),
    )
    return tuple(list(query_sets.admitted(rows)) for rows in parts)


async def stored_items(
    store: Store, view: CollectionView, ids: Sequence[str], *, with_text: bool = False
) -> dict[str, str | None]:
    """Those of the ids that the collection holds, with their texts where these are asked for."""
    items = documents(store, view)
    found: dict[str, str | None] = {}
    for at in range(0, len(ids), IDS_A_STATEMENT):
        async with store.begin(items.namespace, read_only=True) as connection:
            rows = await connection.execute(items.described(ids[at : at + IDS_A_STATEMENT]))
            found |= {row.id: row.text if with_text else None for row in rows}
    return found


async def absent(store: Store, view: CollectionView, ids: Sequence[str]) -> list[str]:
    """Those of the ids that are no document of the collection, in their order. Reads no texts."""
    there = await read_titles(store, view, ids)
    return [each for each in ids if each not in there]
