"""An exported statement run as a service would run it: its text as printed, its parameters by number, bare psycopg.

Or only explained, by the server that would run it. Nothing here can write: each transaction is read-only.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from psycopg import AsyncRawCursor, errors
from psycopg.rows import dict_row

from core.errors import DeadlineExceeded
from core.legs.base import checked_text
from core.retriever import RequestContext
from core.sql_export.export import Exported, export
from core.store.engine import Store
from core.variant import Variant

MOST_SECONDS: Final = 10.0  # that a statement may take to be explained; a search takes thousandths


@dataclass(frozen=True, slots=True)
class Explained:
    """A statement with its plan, as PostgreSQL words it: with what each step really took where `measured`."""

    made: Exported
    plan: str
    measured: bool


async def run(store: Store, made: Exported, text: str, vector: Sequence[float] | None = None) -> list[dict[str, Any]]:
    """Its rows, best first, in a transaction of their own with the settings that it wants."""
    async with _ready(store, made) as cursor:
        await cursor.execute(made.statement.encode(), made.values(text, vector))
        return await cursor.fetchall()


async def explained(
    context: RequestContext, variant: Variant, query: str, *, measured: bool = True, seconds: float = MOST_SECONDS
) -> Explained:
    """How the server goes about the variant's statement for this query; measured means run, its rows thrown away."""
    made = await export(context.store, context.view, variant, query=query)
    vector = await vector_of(context, made, query)
    options = "ANALYZE, BUFFERS" if measured else "COSTS"
    asked = f"EXPLAIN ({options}) {made.statement}"
    try:
        async with _ready(context.store, made, seconds) as cursor:
            await cursor.execute(asked.encode(), made.values(query, vector))
            lines = await cursor.fetchall()
    except errors.QueryCanceled as error:
        raise DeadlineExceeded(
            f"The statement of {variant.name!r} did not end within {seconds:g} s, so there is no measured plan of it. "
            "The plan alone, which runs nothing, is there at once."
        ) from error
    return Explained(made, "\n".join(line["QUERY PLAN"] for line in lines), measured)


async def vector_of(context: RequestContext, made: Exported, text: str) -> Sequence[float] | None:
    """The query's vector, where the statement wants one."""
    if not made.needs_vector or made.model is None:
        return None
    vectors = await context.embedder(made.model).embed([checked_text(text)], "query")
    found: Sequence[float] = vectors[0]
    return found


@asynccontextmanager
async def _ready(
    store: Store, made: Exported, seconds: float | None = None
) -> AsyncIterator[AsyncRawCursor[dict[str, Any]]]:
    """A cursor in a read-only transaction, with the statement's settings in force."""
    settings = list(made.setting_statements)
    if seconds is not None:
        settings.append(f"SET LOCAL statement_timeout = {max(1, round(seconds * 1000))}")
    async with store.begin(read_only=True) as connection:
        driver: Any = (await connection.get_raw_connection()).driver_connection
        async with AsyncRawCursor(driver, row_factory=dict_row) as cursor:
            for setting in settings:
                await cursor.execute(setting.encode())
            yield cursor
