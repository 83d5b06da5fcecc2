"""A collection written as a BEIR folder: corpus.jsonl, queries.jsonl, qrels/<split>.tsv, spans.jsonl and exclusions.

`evals.sources.beir` reads the same back; the language, for which BEIR has no place, is in rankbook.json. Documents are
streamed, the folder appears only when it is complete, and values that these files cannot hold are refused.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import uuid
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import select

from core.errors import InputError
from core.store.collections import CollectionView
from core.store.engine import Store
from core.store.resolve_target import documents
from core.types import Query
from evals.labels import query_sets
from evals.sources.beir import WISHES
from evals.sources.rows import EXCLUSION_FILES, id_text
from evals.types import DEFAULT_QUERY_SET, LabelledQueries, Span

A_BATCH = 500  # documents in memory at a time
EXCLUDED = "exclusions"  # among `EXCLUSION_FILES`, so that the reader takes it for no split


@dataclass(frozen=True, slots=True)
class BeirExport:
    """The folder and its contents."""

    folder: Path
    documents: int
    queries: int
    labels: int
    splits: tuple[str, ...]


async def export_beir(
    store: Store, view: CollectionView, folder: Path, *, query_set: str = DEFAULT_QUERY_SET
) -> BeirExport:
    """The collection with that query set, written into a folder that is not there yet."""
    labelled = await query_sets.load(store, view.name, name=query_set)
    if query_set != DEFAULT_QUERY_SET and not labelled.queries:
        raise InputError(f"{view.name!r} has no query set {query_set!r}, or no query is in it. See: rankbook queries")
    files = _small_files(view, labelled)  # refuses values before the long part
    count = 0
    with _complete_folder(folder) as part:
        for name, lines in files.items():
            (part / name).parent.mkdir(exist_ok=True)
            await asyncio.to_thread((part / name).write_text, "".join(lines), encoding="utf-8", newline="\n")
        with (part / "corpus.jsonl").open("w", encoding="utf-8", newline="\n") as out:
            async with aclosing(_documents(store, view)) as batches:  # ends its transaction where a row is refused
                async for documents in batches:
                    await asyncio.to_thread(out.writelines, map(_json, documents))
                    count += len(documents)
    splits = tuple(sorted({label.split for label in labelled.labels}))
    return BeirExport(folder, count, len(labelled.queries), len(labelled.labels), splits)


@contextmanager
def _complete_folder(folder: Path) -> Iterator[Path]:
    """A temporary folder, which is renamed to `folder` at the end and removed after an error."""
    if folder.exists() or folder.is_symlink():
        raise InputError("It is there already. Name a folder that is not, or remove it first.", path=folder)
    if not folder.parent.is_dir():
        raise InputError(f"The folder {folder.parent} is not there. Make it first.", path=folder)
    part = folder.with_name(f".{folder.name}.{uuid.uuid4().hex[:8]}")
    try:
        part.mkdir()
        yield part
        part.rename(folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)


async def _documents(store: Store, view: CollectionView) -> AsyncGenerator[list[dict[str, Any]], None]:
    """Batches in the order of ids, from our tables or attached ones, all from one snapshot of the store."""
    items = documents(store, view)
    async with store.begin(items.namespace, read_only=True) as connection:
        details = items.details.subquery()
        ids = list(await connection.scalars(select(details.c.id).order_by(details.c.id)))
        for at in range(0, len(ids), A_BATCH):
            rows = await connection.execute(items.described(ids[at : at + A_BATCH]))
            yield [
                {"_id": _id(row.id), "title": row.title, "text": row.text, "metadata": dict(row.metadata or {})}
                for row in sorted(rows, key=lambda row: str(row.id))
            ]


def _small_files(view: CollectionView, labelled: LabelledQueries) -> dict[str, list[str]]:
    files = {"queries.jsonl": [_json(_query(query)) for query in labelled.queries]}
    for split in sorted({label.split for label in labelled.labels}):
        # A split is a file here, and its name must not lead elsewhere or be that of another kind of file.
        if not split or split.startswith(".") or any(sign in split for sign in "/\\\0\n\r") or split in EXCLUSION_FILES:
            raise InputError(f"The split {split!r:.80} cannot be the name of a file. Give its labels another split.")
        labels = [label for label in labelled.labels if label.split == split]
        rows = [(label.query_id, label.item_id, str(label.grade)) for label in labels]
        files[f"qrels/{split}.tsv"] = _table(("query-id", "corpus-id", "score"), rows)
    if labelled.exclusions:
        pairs = [(each.query_id, each.item_id) for each in labelled.exclusions]
        files[f"qrels/{EXCLUDED}.tsv"] = _table(("query-id", "corpus-id"), pairs)
    if labelled.spans:
        files["spans.jsonl"] = [_json(_span(span)) for span in labelled.spans]
    files[WISHES] = [_json({"language": view.row.language})]
    return files | ({"README.md": [view.row.card]} if view.row.card else {})


def _query(query: Query) -> dict[str, Any]:
    """A query without its default values, except those that would then be read from its metadata."""
    facets = {"kind": (query.kind, ""), "tags": (list(query.tags), []), "weight": (query.weight, 1.0)}
    stated = {name: value for name, (value, usual) in facets.items() if value != usual or name in query.metadata}
    return {"_id": _id(query.id), "text": query.text, "metadata": dict(query.metadata), **stated}


def _span(span: Span) -> dict[str, Any]:
    place = {"start": span.start, "end": span.end, "text": span.text, "split": span.split, "score": span.grade}
    return {"query-id": _id(span.query_id), "corpus-id": _id(span.item_id), **place}


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return ["\t".join(columns) + "\n", *("\t".join(map(_cell, row)) + "\n" for row in rows)]


def _cell(value: str) -> str:
    if any(sign in value for sign in "\t\n\r"):
        raise InputError(
            f"The id {value!r:.80} holds a tab or a line end, which no qrels file can hold. Change it at its source."
        )
    return _id(value)


def _id(value: str) -> str:
    if id_text(value) != value:
        raise InputError(
            f"The id {value!r:.80} begins or ends with a blank, which readers of these files drop. "
            "Change it at its source."
        )
    return value


def _json(row: dict[str, Any]) -> str:
    return json.dumps(row, ensure_ascii=False) + "\n"
