"""Settings of the server for the one transaction that saves or restores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

# A long statement is not ended by what a server sets for short ones.
PATIENT: Final = {"statement_timeout": "0", "lock_timeout": "0", "idle_in_transaction_session_timeout": "0"}


async def settled(connection: AsyncConnection, settings: Mapping[str, str]) -> None:
    """On a cluster's workers too: `SET LOCAL` is passed on to them, and `set_config` is not."""
    for name, value in settings.items():
        await connection.execute(text(f"SET LOCAL {name} TO '{value}'"))
