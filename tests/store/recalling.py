"""One leg asked on the real server, and the statements it sent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import TextClause

from core import bridge
from core.filters import filter_from
from core.legs import Candidates, Leg, PreparedQuery, legs
from core.store.collections import CollectionView
from core.store.engine import Store
from core.store.indexes import Explain
from core.store.resolve_target import search_target
from core.store.search_target import SearchTarget
from tests.fakes import HashingEmbedder
from tests.store.making import explain, fresh

EMBEDDER = HashingEmbedder()


async def embed(model: str, text: str) -> Any:
    return (await EMBEDDER.embed([text], "query"))[0]


class Watched:
    """A connection that keeps the plan of every statement before it runs it."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self.plans: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.connection, name)

    async def execute(self, statement: Any, *values: Any) -> Any:
        if not isinstance(statement, TextClause):  # SET, by which a cluster is told its settings
            self.plans.append(await explain(self.connection, statement, *values))
        return await self.connection.execute(statement, *values)

    async def scalar(self, statement: Any, *values: Any) -> Any:
        if not isinstance(statement, Explain):
            self.plans.append(await explain(self.connection, statement))
        return await self.connection.scalar(statement, *values)


@dataclass(frozen=True)
class Where:
    """Where a leg is asked, and what a test changes about it."""

    chunks: str = "items"
    where: Any = None
    settings: tuple[str, ...] = ()
    change: Callable[[SearchTarget], SearchTarget] = replace


def asked(store: Store, view: CollectionView, leg: Leg, text: str, depth: int = 10, **options: Any) -> Candidates:
    """What the leg brings up, at a level changed by the test, under settings of the server."""
    return _worked(store, view, leg, text, depth, Where(**options))[0]


def plans(
    store: Store, view: CollectionView, leg: Leg, text: str, *settings: str, depth: int = 10, **options: Any
) -> str:
    """The plans of all its statements."""
    return "\n".join(_worked(store, view, leg, text, depth, Where(settings=settings, **options))[1])


def _worked(
    store: Store, view: CollectionView, leg: Leg, text: str, depth: int, at: Where
) -> tuple[Candidates, list[str]]:
    async def work() -> tuple[Candidates, list[str]]:
        where = at.change(search_target(store, view, at.chunks))
        narrowed = where.filtered(None if at.where is None else filter_from(at.where))
        async with store.begin(view.namespace, read_only=True) as connection:
            for each in at.settings:
                await connection.exec_driver_sql(f"SET LOCAL {each}")
            watched: Any = Watched(connection)
            return await leg.recall(watched, narrowed, PreparedQuery(text, embed), depth), watched.plans

    return bridge.run(work())


def found_by_words(store: Store, name: str, text: str, chunks: str = "items") -> list[str]:
    return ids(asked(store, fresh(store, name), legs["fulltext"](), text, chunks=chunks))


def ids(found: Candidates) -> list[str]:
    return [each.id for each in found]


def said(found: Candidates) -> str:
    return " ".join(found.notes)
