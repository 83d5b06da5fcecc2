"""A collection out as a BEIR folder: corpus.jsonl, queries.jsonl, qrels/<split>.tsv; spans.jsonl and exclusions beside.
What BEIR has no place for and loading it again needs, its language, stands in rankbook.json, which others pass over.

Owns what is written, so that `evals.sources.beir` brings the same back. Documents are streamed, and the folder is there
when it is whole or not at all. What these files cannot hold is refused, never changed.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import uuid
from collections import defaultdict
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
from evals.types import DEFAULT_QUERY_SET, Label, LabelledQueries, Span

A_BATCH = 500  # documents in memory at a time
EXCLUDED = "exclusions"  # among `EXCLUSION_FILES`, so that the reader takes it for no split


@dataclass(frozen=True, slots=True)
class BeirExport:
    """What is in the folder now."""

    folder: Path
    documents: int
    queries: int
    labels: int
    splits: tuple[str, ...]


async def export(store: Store, view: CollectionView, folder: Path, *, query_set: str = DEFAULT_QUERY_SET) -> BeirExport:
    """The collection with that query set, written into a folder that is not there yet."""
    labelled = await query_sets.load(store, view.name, name=query_set)
    if query_set != DEFAULT_QUERY_SET and not labelled.queries:
        raise InputError(f"{view.name!r} has no query set {query_set!r}, or no query is in it. See: rankbook queries")
    files = _small_files(view, labelled)  # refuses what cannot be written before the long part
    with _made_whole(folder) as part:
        for name, lines in files.items():
            await asyncio.to_thread(_write, part / name, lines)
        documents = await _write_corpus(store, view, part / "corpus.jsonl")
    splits = tuple(sorted({label.split for label in labelled.labels}))
    return BeirExport(folder, documents, len(labelled.queries), len(labelled.labels), splits)


@contextmanager
def _made_whole(folder: Path) -> Iterator[Path]:
    """A folder beside it, which takes its name when all is written and is gone where something went wrong."""
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


# -- documents ---------------------------------------------------------------------------------------------------------


async def _write_corpus(store: Store, view: CollectionView, path: Path) -> int:
    documents = 0
    with path.open("w", encoding="utf-8", newline="\n") as out:
        async with aclosing(_items(store, view)) as batches:  # its transaction, also where a row is refused
            async for rows in batches:
                await asyncio.to_thread(out.writelines, [_json(_item(row)) for row in rows])
                documents += len(rows)
    return documents


async def _items(store: Store, view: CollectionView) -> AsyncGenerator[Sequence[Any], None]:
    """In the order of ids, from our tables or from somebody's; of one state, whoever adds or removes meanwhile."""
    items = documents(store, view)
    async with store.begin(items.namespace, read_only=True) as connection:
        listed = items.details.subquery()
        ids = list(await connection.scalars(select(listed.c.id).order_by(listed.c.id)))
        for at in range(0, len(ids), A_BATCH):
            rows = await connection.execute(items.described(ids[at : at + A_BATCH]))
            yield sorted(rows, key=lambda row: str(row.id))


def _item(row: Any) -> dict[str, Any]:
    return {"_id": _id(row.id), "title": row.title, "text": row.text, "metadata": dict(row.metadata or {})}


# -- queries and labels ------------------------------------------------------------------------------------------------


def _small_files(view: CollectionView, labelled: LabelledQueries) -> dict[str, list[str]]:
    files = {"queries.jsonl": [_json(_query(query)) for query in labelled.queries]}
    for split, labels in _by_split(labelled.labels).items():
        rows = [(label.query_id, label.item_id, str(label.grade)) for label in labels]
        files[f"qrels/{_file_name(split)}.tsv"] = _table(("query-id", "corpus-id", "score"), rows)
    if labelled.exclusions:
        pairs = [(each.query_id, each.item_id) for each in labelled.exclusions]
        files[f"qrels/{EXCLUDED}.tsv"] = _table(("query-id", "corpus-id"), pairs)
    if labelled.spans:
        files["spans.jsonl"] = [_json(_span(span)) for span in labelled.spans]
    files[WISHES] = [_json({"language": view.row.language})]
    return files | ({"README.md": [view.row.card]} if view.row.card else {})


def _query(query: Query) -> dict[str, Any]:
    """What is as usual is left out, unless the reader would then take it from the metadata."""
    facets = {"kind": (query.kind, ""), "tags": (list(query.tags), []), "weight": (query.weight, 1.0)}
    told = {name: value for name, (value, usual) in facets.items() if value != usual or name in query.metadata}
    return {"_id": _id(query.id), "text": query.text, "metadata": dict(query.metadata), **told}


def _span(span: Span) -> dict[str, Any]:
    where = {"start": span.start, "end": span.end, "text": span.text, "split": span.split, "score": span.grade}
    return {"query-id": _id(span.query_id), "corpus-id": _id(span.item_id), **where}


def _by_split(labels: Iterable[Label]) -> dict[str, list[Label]]:
    found: dict[str, list[Label]] = defaultdict(list)
    for label in labels:
        found[label.split].append(label)
    return found


def _file_name(split: str) -> str:
    """A split is a file here; one that would be another file than its own is refused."""
    if not split or split.startswith(".") or any(sign in split for sign in "/\\\0\n\r") or split in EXCLUSION_FILES:
        raise InputError(f"The split {split!r:.80} cannot be the name of a file. Give its labels another split.")
    return split


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return ["\t".join(columns) + "\n", *("\t".join(_cell(cell) for cell in row) + "\n" for row in rows)]


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


def _write(path: Path, lines: Iterable[str]) -> None:
    path.parent.mkdir(exist_ok=True)
    with path.open("w", encoding="utf-8", newline="\n") as out:
        out.writelines(lines)
