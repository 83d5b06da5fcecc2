"""Queries and labels for a collection that is there: written, made of its documents, or out of label files.

The same functions do it that `rankbook queries` and `rankbook data label` call. Draws nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from core.errors import InputError
from core.progress import Listener
from core.store.collections import CollectionView
from core.store.engine import Store
from core.types import Flaw, Query, Row
from evals.collections.load_labels import LoadReport
from evals.labels import query_generation
from evals.labels.query_generation import AddedQueries, GeneratedQueries, KnownItems
from workbench.services import attach, uploads


@dataclass(frozen=True, slots=True)
class Files:
    """Label files by a path, and a file of queries where these are not in it. What was uploaded goes after.

    `even_so` and `all_grades` are answers to what label files are refused for.
    """

    origin: str
    queries: str = ""
    even_so: bool = False
    all_grades: bool = False


@dataclass(frozen=True, slots=True)
class Given:
    """Queries as somebody gave them: typed, a line each, or a table by its path."""

    typed: str = ""
    path: str = ""

    def checked(self) -> Given:
        """Itself; a sentence where there is nothing."""
        if not (self.path or self.typed.strip()):
            raise InputError("There is no query yet. Write one a line, or give a table with a column text.")
        return self


@dataclass(frozen=True, slots=True)
class Made:
    """What was made of the documents, under the name of its set."""

    query_set: str
    made: GeneratedQueries

    @property
    def first(self) -> tuple[Query, ...]:
        return self.made.labelled.queries[:10]


async def label(store: Store, name: str, given: Files, query_set: str, author: str = "") -> LoadReport:
    queries = Path(given.queries) if given.queries else None
    how = {"even_so": given.even_so, "all_grades": given.all_grades, "author": author}
    try:
        return await attach.label(store, name, given.origin, queries=queries, query_set=query_set, **how)
    finally:
        await asyncio.to_thread(uploads.discard, Path(given.origin))


async def write(store: Store, name: str, given: Given, query_set: str, author: str = "") -> AddedQueries:
    try:
        return await query_generation.add(store, name, _rows(given), name=query_set, author=author)
    finally:
        if given.path:
            await asyncio.to_thread(uploads.discard, Path(given.path))


def _rows(given: Given) -> Iterator[Row[Query] | Flaw]:
    if given.path:
        return query_generation.read_queries(Path(given.path).expanduser())
    return query_generation.typed_queries(given.typed)


async def generate(
    store: Store, view: CollectionView, wanted: KnownItems, query_set: str, listener: Listener, author: str = ""
) -> Made:
    await query_generation.require_generated(store, view.name, query_set)
    made = await query_generation.generate(store, view, wanted, listener)
    await query_generation.save(store, view.name, made, name=query_set, author=author)
    return Made(query_set, made)
