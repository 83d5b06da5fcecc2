"""An exported statement run as a service would run it: its text as printed, its parameters by number, bare psycopg."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from psycopg import AsyncRawCursor
from psycopg.rows import dict_row

from core.sql_export.export import Exported
from core.store.engine import Store


async def run(store: Store, made: Exported, text: str, vector: Sequence[float] | None = None) -> list[dict[str, Any]]:
    """Its rows, best first, in a transaction of their own with the settings that it wants."""
    async with store.begin(read_only=True) as connection:
        driver: Any = (await connection.get_raw_connection()).driver_connection
        async with AsyncRawCursor(driver, row_factory=dict_row) as cursor:
            for setting in made.setting_statements:
                await cursor.execute(setting.encode())
            await cursor.execute(made.statement.encode(), made.values(text, vector))
            return await cursor.fetchall()
