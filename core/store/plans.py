"""What the planner would do with a statement, asked where a reader must be told. Runs nothing.

Citus hands an EXPLAIN on to a worker without its parameters, where it fails: on a cluster the driver writes the values
into the statement, quoted by libpq.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any, Literal

import psycopg
from sqlalchemy import ClauseElement, Executable
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.ext.compiler import compiles


class Explain(Executable, ClauseElement):
    """The plan of a statement, its values bound as they are when it runs."""

    inherit_cache = False

    def __init__(self, statement: Executable, form: Literal["JSON", "TEXT"] = "JSON") -> None:
        self.statement, self.form = statement, form


@compiles(Explain)
def _explain(element: Explain, compiler: Any, **options: Any) -> str:
    return f"EXPLAIN (FORMAT {element.form}) {compiler.process(element.statement, **options)}"


async def plan(connection: AsyncConnection, statement: Executable) -> list[dict[str, Any]]:
    """Every node of the plan, outer ones first."""
    async with values_in_place(connection):
        return list(_nodes(await connection.scalar(Explain(statement))))


@asynccontextmanager
async def values_in_place(connection: AsyncConnection) -> AsyncIterator[None]:
    """For the time of an EXPLAIN on a cluster."""
    if not connection.sync_connection or not connection.sync_connection.get_execution_options().get("distributed"):
        yield
        return
    raw: Any = (await connection.get_raw_connection()).driver_connection
    usual, raw.cursor_factory = raw.cursor_factory, psycopg.AsyncClientCursor
    try:
        yield
    finally:
        raw.cursor_factory = usual


async def ordered_by_index(connection: AsyncConnection, statement: Executable) -> bool:
    """Whether some index gives the rows in the order of a distance."""
    return any("Order By" in node for node in await plan(connection, statement))


def _nodes(found: Any) -> Iterator[dict[str, Any]]:
    if isinstance(found, dict):
        if "Node Type" in found:
            yield found
        found = list(found.values())
    if isinstance(found, list):
        for part in found:
            yield from _nodes(part)
