"""What the planner would do with a statement, asked where a reader must be told. Runs nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

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
    return list(_nodes(await connection.scalar(Explain(statement))))


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
